"""The protocols of a cluster: what can be asked of it, and what can be done to it.

`Cluster` combines them. A function asks for the protocol that it needs. Implementations:
`infra.cluster.local.LocalCluster` (everything), `infra.cluster.external.ExternalCluster` (what a
client may see; the rest is refused).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ackbench.infra.cluster.disks import Disks
from ackbench.infra.kafka.logs import BrokerLogEvent
from ackbench.infra.kafka.spec import (
    ClusterSpec,
    ClusterState,
    ControllerView,
    LeaderEpoch,
    NodeStatus,
    PartitionState,
)
from ackbench.infra.network.impairment import Impairment, ImpairmentCounts
from ackbench.infra.process.exits import ProcessExit


@dataclass(frozen=True)
class MetadataSnapshot:
    """The partitions of one topic, as the metadata of one broker shows them."""

    partitions: tuple[PartitionState, ...]
    requested_s: float
    """When the request was sent, seconds of the monotonic clock; the state is of then or later."""
    gone: frozenset[int] = frozenset()
    """Brokers that certainly do not run any more. Empty where a supervisor knows their exits."""


class TopicMetadataPoller(Protocol):
    """Polls the metadata of one topic over connections that are kept. Not thread-safe."""

    def partitions(self) -> MetadataSnapshot | None:
        """Return the topic's partitions; `None` when no broker that knows it answered in time."""

    def controller(self) -> ControllerView | None:
        """Return the active controller; `None` when no node reports that it is."""

    def close(self) -> None:
        """Close all connections."""


class Cluster(Protocol):
    """A running cluster that trials use."""

    # What does not change while a cluster runs: its folder, specification and addresses

    @property
    def folder(self) -> Path:
        """The folder of its handle, data and logs."""

    @property
    def spec(self) -> ClusterSpec:
        """The specification that it was provisioned from."""

    @property
    def broker_settings(self) -> Mapping[str, str]:
        """The effective settings that all nodes share, for the record of a trial."""

    @property
    def relay_pid(self) -> int | None:
        """The process of the relays between clients and brokers; `None`: there are no relays."""

    @property
    def bootstrap_servers(self) -> str:
        """The client listeners of all brokers, as `bootstrap.servers`."""

    @property
    def admin_servers(self) -> str:
        """Listeners that stay reachable when a fault cuts off the clients.

        They are for observers and administration, not for the clients under test.
        """

    def node_ids(self) -> tuple[int, ...]:
        """Return the ids of all brokers, running or not."""

    # The current state of a cluster

    def status(self) -> tuple[NodeStatus, ...]:
        """Return the state of each node's process as the supervisor knows it.

        The brokers come first, then dedicated controllers or ZooKeeper servers.
        """

    def unexpected_exits(self) -> tuple[ProcessExit, ...]:
        """Return every exit of a node or relay that no request had asked for, by process.

        Since the cluster was made; what is not a process of ackbench's is not known.
        """

    def describe(self, topics: Sequence[str] | None = None, timeout_s: float = 5.0) -> ClusterState:
        """Return leaders, ISR, live brokers and the active controller.

        Args:
            topics: only these topics; `None`: all.
            timeout_s: how long to wait for the first broker that answers.

        Raises:
            WaitTimeout: no broker answered in time.
        """

    def metadata_poller(self, topic: str) -> TopicMetadataPoller:
        """Return a poller of the topic's metadata; the caller closes it."""

    def wait_until_healthy(self, timeout_s: float = 60.0) -> ClusterState:
        """Return the state of the cluster once it is healthy.

        Healthy: all nodes run and are registered, and every partition of every topic has a leader
        and its full ISR.

        Raises:
            WaitTimeout: it did not become healthy in time; the text says what is missing.
        """

    # Control of the nodes' processes; only the cluster's supervisor sends them signals

    def kill(self, node_id: int) -> NodeStatus:
        """Crash a node (SIGKILL); return its status from before, once the process is gone."""

    def pause(self, node_id: int) -> None:
        """Pause a node (SIGSTOP); return once the kernel shows all its threads as stopped."""

    def resume(self, node_id: int) -> None:
        """Resume a paused node (SIGCONT); has no effect on any other node."""

    def stop(self, node_id: int, timeout_s: float = 30.0) -> None:
        """Shut a node down cleanly (SIGTERM, controlled shutdown) and wait for its exit."""

    def start(self, node_id: int) -> NodeStatus:
        """Start a stopped node; return once its process runs. It need not be registered yet."""

    def restart(self, node_id: int) -> NodeStatus:
        """Shut a node down cleanly, then start it."""

    # Impairments of the traffic between nodes, and between nodes and clients

    def impair(self, name: str, impairments: Sequence[Impairment]) -> None:
        """Start impairments under a name that no active impairment has."""

    def impairment_counts(self, name: str) -> tuple[ImpairmentCounts, ...]:
        """Return how much traffic the impairments of that name have affected so far."""

    def heal(self, name: str) -> tuple[ImpairmentCounts, ...]:
        """End the impairments of that name; return the final counts.

        A second call has no effect and returns nothing.
        """

    # The logs of a topic's partitions, as their replicas hold them

    @property
    def log_ends_are_known(self) -> bool:
        """`True` if `log_end_offsets` returns log end offsets, `False` if high watermarks."""

    def log_end_offsets(self, topic: str) -> dict[int, int]:
        """Return the leader's log end offset by partition, above the high watermark or not.

        A partition without a running leader is left out.
        """

    def leader_epochs(self, topic: str) -> tuple[LeaderEpoch, ...]:
        """Return the current content of each replica's `leader-epoch-checkpoint`."""

    # The nodes' own log files (log4j), in which they report what they do

    def node_log_sizes(self) -> Mapping[int, int]:
        """Return the current size of each node's log file, bytes."""

    def node_log_events_since(
        self, node_log_sizes: Mapping[int, int], topic: str
    ) -> tuple[BrokerLogEvent, ...]:
        """Return what the nodes have logged about brokers and about the topic's partitions.

        Args:
            node_log_sizes: where to start, bytes by node: an earlier `node_log_sizes()`.
            topic: whose partitions.
        """

    # Faults and contents of the nodes' disks

    @property
    def disks(self) -> Disks:
        """The disks of all nodes."""

    # The end

    def destroy(self) -> None:
        """End all nodes and the supervisor, and remove the data.

        The nodes' logs stay until `ackbench clean` removes them.
        """
