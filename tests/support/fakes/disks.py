"""Disks of a cluster in memory: what is done to them stands among the cluster's signals, and the nodes end as a test says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from support.fakes.cluster import MemoryCluster

from infra.cluster.disks import Disks
from infra.cluster.node import NODE_LOG, node_folder
from infra.cluster.supervisor_protocol import SupervisorReply


@dataclass
class DiskCluster(MemoryCluster):
    """A cluster in memory whose nodes have disks."""

    keeps: frozenset[int] = frozenset()
    """Whose disks lose nothing at a power cut."""
    ends_over_it: bool = True
    """Whether a node whose disk fails ends."""
    probes_s: list[float] = field(default_factory=lambda: [0.001, 0.001, 0.001, 0.5])
    """How long synced writes take, one after the other."""

    def __post_init__(self) -> None:
        """Give every node a log of its own, for what it says."""
        for node in self.states:
            node_folder(self.folder, node).mkdir(parents=True)
            (node_folder(self.folder, node) / NODE_LOG).touch()

    @property
    def disks(self) -> Disks:
        """Theirs."""
        return MemoryDisks(
            lambda node_id: Path(node_folder(self.folder, node_id)),
            lambda _request: SupervisorReply(),
            self,
        )

    def fails(self, deed: str, node_id: int) -> None:
        """A disk fails its node."""
        self.signals.append((deed, node_id))
        if self.ends_over_it:
            self.states[node_id] = "stopped"


@dataclass(frozen=True)
class MemoryDisks(Disks):
    """Does nothing but say so."""

    cluster: DiskCluster

    def lose_power(self, node_ids: Sequence[int]) -> frozenset[int]:
        """The nodes stop."""
        for node_id in node_ids:
            self.cluster.signals.append(("lose power", node_id))
            self.cluster.states[node_id] = "stopped"
        return frozenset(node_ids) - self.cluster.keeps

    def shut_down(self, node_id: int) -> None:
        """The node ends, if it is one that does."""
        self.cluster.fails("take away", node_id)

    def bring_back(self, node_id: int) -> None:
        """Said."""
        self.cluster.signals.append(("bring back", node_id))

    def fill(self, node_id: int) -> int:
        """The node ends, if it is one that does."""
        self.cluster.fails("fill", node_id)
        return 0

    def free(self, node_id: int) -> None:
        """Said."""
        self.cluster.signals.append(("free", node_id))

    def limit(self, node_id: int, write_bytes_per_s: int | None) -> None:
        """Said."""
        self.cluster.signals.append(("limit" if write_bytes_per_s else "let go", node_id))

    def synced_write_s(self, node_id: int) -> float:
        """As long as the test says."""
        del node_id
        return self.cluster.probes_s.pop(0)
