"""Nodes that lose power: their processes and their disks end at one moment."""

from __future__ import annotations

from collections.abc import Sequence

from infra.disk.base import Disk
from infra.node import Node


async def lose_power(disk: Disk, nodes: Sequence[Node]) -> None:
    """Take power from nodes, and give it back to their disks; the nodes are left stopped.

    First every process stands still: from then on nobody hears of a record, and nobody notices that disks go. Then every disk ends, then
    every process. The other way round would be a crash with time for the kernel to write, or a disk that fails under a process that still
    answers; one node after the other would let the later ones go on without the earlier.

    Raises:
        SupervisorError: a disk cannot lose power, or cannot be brought back.
        WaitTimeout: a process did not stand still, or did not end.
    """
    running = [node for node in nodes if node.state != "stopped"]
    for node in running:
        node.pause()
    for node in nodes:
        disk.shut_down(node.folder)
    for node in running:
        await node.kill()
    for node in nodes:
        disk.bring_back(node.folder)
