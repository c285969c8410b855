"""A member's folder before its first start: what its program reads there, and how that program is started."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from infra.broker_settings import server_properties
from infra.formatted import copy_formatted
from infra.handle import Handle
from infra.kraft import NodeAddress, properties_text
from infra.zookeeper import MYID, SETTINGS, zookeeper_settings


def prepared(handle: Handle, node: NodeAddress, members: Sequence[NodeAddress], folder: Path, data: Path) -> tuple[str, ...]:
    """Write a member's settings and what its data folder begins with; return the command that starts it.

    Args:
        handle: the cluster's.
        node: the member.
        members: all of them.
        folder: its own, in which it runs.
        data: its data folder, empty.

    Raises:
        InputError: a setting was asked for that follows from who the node is.
        HarnessError: the formatted folder is not as it was known.
    """
    if node.role == "zookeeper":
        (folder / SETTINGS).write_text(properties_text(zookeeper_settings(node, members)))
        (data / MYID).write_text(f"{node.node_id}\n")
        return handle.launch.zookeeper
    if handle.spec.coordination == "kraft":
        copy_formatted(Path(handle.launch.formatted), data, node.node_id, handle.cluster_id)
    (folder / "server.properties").write_text(properties_text(server_properties(node, members, handle.spec)))
    return handle.launch.command
