"""Fake disks of a cluster in memory; actions on them are recorded among the cluster's signals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from support.fakes.cluster import MemoryCluster

from ackbench.infra.cluster.disks import Disks
from ackbench.infra.cluster.node import NODE_LOG, node_folder
from ackbench.infra.cluster.supervisor_protocol import SupervisorReply


@dataclass
class DiskCluster(MemoryCluster):
    """A cluster in memory whose nodes have disks."""

    durable_nodes: frozenset[int] = frozenset()
    """Nodes whose disks lose nothing in a power loss."""
    exits_on_disk_failure: bool = True
    """Whether a node exits when its disk fails."""
    synced_writes_s: list[float] = field(default_factory=lambda: [0.001, 0.001, 0.001, 0.5])
    """How long the next synced writes take, seconds."""

    def __post_init__(self) -> None:
        """Create an empty log for every node."""
        for node in self.states:
            node_folder(self.folder, node).mkdir(parents=True)
            (node_folder(self.folder, node) / NODE_LOG).touch()

    @property
    def disks(self) -> Disks:
        """The fake disks of the nodes."""
        return MemoryDisks(
            lambda node_id: Path(node_folder(self.folder, node_id)),
            lambda _request: SupervisorReply(),
            self,
        )

    def fail_disk(self, action: str, node_id: int) -> None:
        """Record an action that makes a node's disk fail."""
        self.signals.append((action, node_id))
        if self.exits_on_disk_failure:
            self.states[node_id] = "stopped"


@dataclass(frozen=True)
class MemoryDisks(Disks):
    """Records each action and changes nothing on disk."""

    cluster: DiskCluster

    def lose_power(self, node_ids: Sequence[int]) -> frozenset[int]:
        """Stop the nodes, and return those that lost data."""
        for node_id in node_ids:
            self.cluster.signals.append(("lose power", node_id))
            self.cluster.states[node_id] = "stopped"
        return frozenset(node_ids) - self.cluster.durable_nodes

    def shut_down(self, node_id: int) -> None:
        """Make the disk fail."""
        self.cluster.fail_disk("shut down", node_id)

    def bring_back(self, node_id: int) -> None:
        """Record it."""
        self.cluster.signals.append(("bring back", node_id))

    def fill(self, node_id: int) -> int:
        """Make the disk fail."""
        self.cluster.fail_disk("fill", node_id)
        return 0

    def free(self, node_id: int) -> None:
        """Record it."""
        self.cluster.signals.append(("free", node_id))

    def limit(self, node_id: int, write_bytes_per_s: int | None) -> None:
        """Record it."""
        self.cluster.signals.append(("limit" if write_bytes_per_s else "unlimit", node_id))

    def synced_write_s(self, node_id: int) -> float:
        """Return the next of `synced_writes_s`."""
        del node_id
        return self.cluster.synced_writes_s.pop(0)
