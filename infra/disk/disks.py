"""What can be done to the disks of a cluster's nodes, and what can be read off them; by any process that may use the cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from infra.disk.filling import fill, free
from infra.disk.recovery_point import cut_to_recovery_points
from infra.disk.replica import ReplicaLog, replica_log
from infra.kraft import DATA
from infra.protocol import Deed, Reply, Request


@dataclass(frozen=True)
class Disks:
    """All nodes' disks."""

    node_folder: Callable[[int], Path]
    ask: Callable[[Request], Reply]
    """Has the cluster's supervisor do something."""

    def lose_power(self, node_ids: Sequence[int]) -> None:
        """Take power from nodes and their disks at once; returns when the disks are back, with what they had kept, and the nodes are stopped.

        Raises:
            SupervisorError, HarnessError: they cannot lose power, or a disk did not come back.
        """
        self._do("lose_power", node_ids)

    def take_away(self, node_id: int) -> None:
        """Take a disk away under a node that runs.

        Raises:
            SupervisorError: it cannot be.
        """
        self._do("take_away", [node_id])

    def bring_back(self, node_id: int) -> None:
        """Give a stopped node its disk back.

        Raises:
            SupervisorError, HarnessError: it cannot be.
        """
        self._do("bring_back", [node_id])

    def limit(self, node_id: int, write_bytes_per_s: int | None) -> None:
        """Let no more than so much be written, or all it can take again.

        Raises:
            SupervisorError: it cannot be.
        """
        self._do("limit", [node_id], write_bytes_per_s)

    def fill(self, node_id: int) -> int:
        """Take every free block; return how many bytes are left for others."""
        return fill(self.data(node_id))

    def free(self, node_id: int) -> None:
        """Give the blocks back; a second time finds nothing to do."""
        free(self.data(node_id))

    def cut_to_recovery_points(self, node_id: int) -> None:
        """Cut a stopped node's logs to what it had noted down as synced; see `infra.disk.recovery_point`."""
        cut_to_recovery_points(self.data(node_id))

    def replica(self, node_id: int, topic: str, partition: int) -> ReplicaLog:
        """What the node has of a partition now."""
        return replica_log(self.data(node_id), node_id, topic, partition)

    def data(self, node_id: int) -> Path:
        """The node's log folder."""
        return self.node_folder(node_id) / DATA

    def _do(self, deed: Deed, node_ids: Sequence[int], write_bytes_per_s: int | None = None) -> None:
        self.ask(Request("disk", deed=deed, node_ids=tuple(node_ids), write_bytes_per_s=write_bytes_per_s))
