"""What a cluster is and what can be done to it; `infra/cluster/local.py` has the real one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from infra.cluster.disks import Disks
from infra.kafka.logs import BrokerLogEvent
from infra.kafka.spec import (
    ClusterSpec,
    ClusterState,
    ControllerView,
    LeaderEpoch,
    NodeStatus,
    PartitionState,
)
from infra.network.impairment import Impairment, ImpairmentCounts


@dataclass(frozen=True)
class MetadataSnapshot:
    """What one broker's metadata said of a topic."""

    partitions: tuple[PartitionState, ...]
    requested_s: float
    """When it was asked for, seconds of the monotonic clock: what it says was so then, or later."""


class TopicMetadataPoller(Protocol):
    """A place from which one topic is looked at, again and again; for one thread."""

    def partitions(self) -> MetadataSnapshot | None:
        """The topic's partitions as one broker knows them; `None` when none that knows the topic answered in time."""

    def controller(self) -> ControllerView | None:
        """The active controller; `None` when none says that it is."""

    def close(self) -> None:
        """End all connections."""


class Cluster(Protocol):
    """A running cluster that trials use. Signals go through its supervisor, never past it."""

    @property
    def folder(self) -> Path:
        """Where its handle, data and logs lie."""

    @property
    def spec(self) -> ClusterSpec:
        """What was asked for."""

    @property
    def broker_settings(self) -> Mapping[str, str]:
        """The effective settings that all nodes share, to be recorded."""

    @property
    def bootstrap_servers(self) -> str:
        """The client listeners of all nodes, as the property wants them."""

    @property
    def admin_servers(self) -> str:
        """Listeners that stay open where clients are cut off, for whoever looks at the cluster and is not under test."""

    def node_ids(self) -> tuple[int, ...]:
        """All brokers, running or not."""

    def status(self) -> tuple[NodeStatus, ...]:
        """Each member's state as the supervisor knows it: the brokers', and after them those of controllers or ZooKeeper servers."""

    def describe(self, topics: Sequence[str] | None = None, timeout_s: float = 5.0) -> ClusterState:
        """Leaders, ISR, live brokers and the active controller, asked from the brokers that answer."""

    def metadata_poller(self, topic: str) -> TopicMetadataPoller:
        """A place from which to look at the topic often; the caller closes it."""

    def log_end_offsets(self, topic: str) -> dict[int, int]:
        """The end of each partition's log as its leader has it, readable or not; a partition that no running node leads is left out."""

    def leader_epochs(self, topic: str) -> tuple[LeaderEpoch, ...]:
        """What each replica's `leader-epoch-checkpoint` says now."""

    def node_log_sizes(self) -> Mapping[int, int]:
        """How long each node's own log (of what it does, not of records) is now, bytes."""

    def node_log_events_since(
        self, log_sizes: Mapping[int, int], topic: str
    ) -> tuple[BrokerLogEvent, ...]:
        """What the nodes' own logs tell from there on of brokers, and of the topic's partitions."""

    def wait_until_healthy(self, timeout_s: float = 60.0) -> ClusterState:
        """Return once every node runs and is registered and every partition of every topic has its full ISR."""

    def kill(self, node_id: int) -> NodeStatus:
        """SIGKILL; returns, once the process is gone, what it was."""

    def pause(self, node_id: int) -> None:
        """SIGSTOP; returns once the kernel shows it stopped."""

    def resume(self, node_id: int) -> None:
        """SIGCONT; a node that is not paused is left as it is."""

    def stop(self, node_id: int, timeout_s: float = 30.0) -> None:
        """SIGTERM and wait for a clean end."""

    def start(self, node_id: int) -> NodeStatus:
        """Start a stopped node; returns when the process runs (it need not be registered yet)."""

    def restart(self, node_id: int) -> NodeStatus:
        """Stop cleanly, then start."""

    def impair(self, name: str, impairments: Sequence[Impairment]) -> None:
        """Begin to treat the nodes' traffic so, under a name that no other impairment has."""

    def impairment_counts(self, name: str) -> tuple[ImpairmentCounts, ...]:
        """What the impairments of that name have met with so far."""

    def heal(self, name: str) -> tuple[ImpairmentCounts, ...]:
        """Let the traffic through again; return what was met with in all. A second time finds nothing to do."""

    @property
    def disks(self) -> Disks:
        """What can be done to the nodes' disks, and read off them."""

    def destroy(self) -> None:
        """End every node and the supervisor, and remove the data; the nodes' logs stay until `ackbench clean`."""
