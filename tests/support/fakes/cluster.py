"""A cluster in memory: a node is a state, and a stopped leader is replaced at once."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ackbench.infra.cluster.disks import Disks
from ackbench.infra.cluster.interface import MetadataSnapshot
from ackbench.infra.cluster.supervisor_protocol import SupervisorReply
from ackbench.infra.errors import SupervisorError, WaitTimeout
from ackbench.infra.kafka.logs import BrokerLogEvent
from ackbench.infra.kafka.spec import (
    ClusterSpec,
    ClusterState,
    ControllerView,
    LeaderEpoch,
    NodeState,
    NodeStatus,
    PartitionState,
)
from ackbench.infra.network.impairment import (
    HeldRequest,
    Impairment,
    ImpairmentCounts,
    PacketDrop,
    RequestHold,
)
from ackbench.infra.process.exits import ProcessExit, describe_exit


@dataclass
class MemoryMetadataPoller:
    """Implements `infra.cluster.interface.TopicMetadataPoller`; returns the current state."""

    cluster: MemoryCluster
    topic: str

    def partitions(self) -> MetadataSnapshot | None:
        """Return the topic's current partitions."""
        requested_s = time.monotonic()
        return MetadataSnapshot(self.cluster.describe().of(self.topic), requested_s)

    def controller(self) -> ControllerView | None:
        """Return the current active controller."""
        state = self.cluster.describe()
        if state.controller is None or state.controller_epoch is None:
            return None
        return ControllerView(state.controller, state.controller_epoch)

    def close(self) -> None:
        """Do nothing: no connection is open."""


@dataclass
class MemoryCluster:
    """Implements `infra.cluster.interface.Cluster`; `signals` has each node action, in order."""

    folder: Path = Path("/nowhere")
    spec: ClusterSpec = field(default_factory=ClusterSpec)
    replicas: tuple[int, ...] = (2, 3, 1)
    partitions: int = 1
    topic: str = "trial"
    detects_failures: bool = True
    """Whether a stopped node is fenced: its partitions get other leaders, its ISRs shrink."""
    active_controller: int = 1
    signals: list[tuple[str, int]] = field(default_factory=list)
    states: dict[int, NodeState] = field(
        default_factory=lambda: dict.fromkeys((1, 2, 3), "running")
    )
    refuses_start: bool = False
    refuses_stop: bool = False
    log_events: tuple[BrokerLogEvent, ...] = ()
    exits: list[ProcessExit] = field(default_factory=list)
    """What exited without a request; see `crash`."""

    relay_pid: int | None = None
    bootstrap_servers: str = "127.0.0.1:1"
    admin_servers: str = "127.0.0.1:2"
    impairments: dict[str, tuple[Impairment, ...]] = field(default_factory=dict)
    """The active impairments by name."""
    held_requests: list[HeldRequest | None] = field(default_factory=list)
    """What the relays report of a held request, one poll after the other; the last one repeats."""
    has_traffic: bool = True
    """Whether there is traffic that an impairment can affect."""

    def node_ids(self) -> tuple[int, ...]:
        """Return the ids of all nodes."""
        return tuple(self.states)

    @property
    def broker_settings(self) -> Mapping[str, str]:
        """One setting, for the record of a trial."""
        return {"broker.session.timeout.ms": "4000"}

    def status(self) -> tuple[NodeStatus, ...]:
        """Return each node's state."""
        return tuple(
            NodeStatus(node, state, 1000 + node, 1, 1, 2, 3) for node, state in self.states.items()
        )

    def unexpected_exits(self) -> tuple[ProcessExit, ...]:
        """Return the exits that the test has caused."""
        return tuple(self.exits)

    def crash(self, node_id: int, status: int = -signal.SIGKILL) -> None:
        """Let a node exit without a request."""
        self.states[node_id] = "stopped"
        self.exits.append(
            ProcessExit(
                f"node {node_id}",
                number=len(self.exits) + 1,
                at_s=time.monotonic(),
                how=describe_exit(status),
                node_id=node_id,
                status=status,
            )
        )

    def describe(self, topics: Sequence[str] | None = None, timeout_s: float = 5.0) -> ClusterState:
        """Return leaders and ISRs of the nodes that are neither stopped nor cut off.

        Each topic that is asked for has those of the topic under test.
        """
        del timeout_s
        stopped = {node for node, state in self.states.items() if state == "stopped"}
        down = stopped | self._cut_off()
        alive = tuple(node for node in self.states if node not in down or not self.detects_failures)
        if not alive:
            raise WaitTimeout("no broker answers")
        isr = tuple(node for node in self.replicas if node in alive)
        states = tuple(
            PartitionState(topic, number, isr[0] if isr else None, self.replicas, isr)
            for topic in dict.fromkeys((self.topic, *(topics or ())))
            for number in range(self.partitions)
        )
        moved = self.detects_failures and self.active_controller in down
        if len(alive) <= len(self.states) // 2:
            return ClusterState(alive, None, None, states)
        return ClusterState(
            alive, 3 if moved else self.active_controller, 2 if moved else 1, states
        )

    def metadata_poller(self, topic: str) -> MemoryMetadataPoller:
        """Return a poller of this cluster."""
        return MemoryMetadataPoller(self, topic)

    @property
    def log_ends_are_known(self) -> bool:
        """`True`, as for a local cluster."""
        return True

    def log_end_offsets(self, topic: str) -> dict[int, int]:
        """Return 0 for each partition: logs in memory are empty."""
        del topic
        return dict.fromkeys(range(self.partitions), 0)

    def leader_epochs(self, topic: str) -> tuple[LeaderEpoch, ...]:
        """Return the first leader's epoch, which starts at offset 0."""
        del topic
        return (LeaderEpoch(self.replicas[0], 0, 0, 0),)

    def node_log_sizes(self) -> Mapping[int, int]:
        """Return 0 for each node: nodes in memory log nothing."""
        return dict.fromkeys(self.states, 0)

    def node_log_events_since(
        self, node_log_sizes: Mapping[int, int], topic: str
    ) -> tuple[BrokerLogEvent, ...]:
        """Return the events that the test has set."""
        del node_log_sizes, topic
        return self.log_events

    def wait_until_healthy(self, timeout_s: float = 60.0) -> ClusterState:
        """Return at once."""
        del timeout_s
        return self.describe()

    def kill(self, node_id: int) -> NodeStatus:
        """Stop a node at once."""
        before = self.status()[node_id - 1]
        self._signal("kill", node_id, "stopped")
        return before

    def pause(self, node_id: int) -> None:
        """Pause a node."""
        self._signal("pause", node_id, "paused")

    def resume(self, node_id: int) -> None:
        """Resume a paused node."""
        if self.states[node_id] == "paused":
            self._signal("resume", node_id, "running")

    def stop(self, node_id: int, timeout_s: float = 30.0) -> None:
        """Stop a node, unless the test has set that it does not exit."""
        if self.refuses_stop:
            raise WaitTimeout(f"waited {timeout_s:g} s for node {node_id} to exit")
        self._signal("stop", node_id, "stopped")

    def start(self, node_id: int) -> NodeStatus:
        """Start a node, unless the test has set that it does not start."""
        if self.refuses_start:
            raise SupervisorError(f"node {node_id} does not start")
        self._signal("start", node_id, "running")
        return self.status()[node_id - 1]

    def restart(self, node_id: int) -> NodeStatus:
        """Stop a node and start it."""
        self.stop(node_id)
        return self.start(node_id)

    def impair(self, name: str, impairments: Sequence[Impairment]) -> None:
        """Store the impairments."""
        self.impairments[name] = tuple(impairments)

    def impairment_counts(self, name: str) -> tuple[ImpairmentCounts, ...]:
        """Return one packet for each impairment, if there is traffic."""
        return tuple(
            ImpairmentCounts(
                getattr(one, "node_id", 0), f"traffic of {one.kind}", packets=int(self.has_traffic)
            )
            for one in self.impairments.get(name, ())
            if not isinstance(one, RequestHold)
        ) + self._held_requests(name)

    def _held_requests(self, name: str) -> tuple[ImpairmentCounts, ...]:
        """Return the next state of the request that the relays hold; the last one repeats."""
        is_holding = any(isinstance(one, RequestHold) for one in self.impairments.get(name, ()))
        if not is_holding or not self.held_requests:
            return ()
        held = self.held_requests[0]
        if len(self.held_requests) > 1:
            self.held_requests.pop(0)
        if held is None:
            return ()
        return (ImpairmentCounts(held.node_id, "requests held", request=held),)

    def heal(self, name: str) -> tuple[ImpairmentCounts, ...]:
        """Remove the impairments."""
        counts = self.impairment_counts(name)
        self.impairments.pop(name, None)
        return counts

    @property
    def disks(self) -> Disks:
        """Disks of nodes that have folders at most, and no supervisor."""
        return Disks(lambda node_id: self.folder / str(node_id), lambda _request: SupervisorReply())

    def destroy(self) -> None:
        """Do nothing."""

    def _cut_off(self) -> set[int]:
        return {
            cut.node_id
            for impairments in self.impairments.values()
            for cut in impairments
            if isinstance(cut, PacketDrop) and cut.peers
        }

    def _signal(self, name: str, node: int, state: NodeState) -> None:
        self.signals.append((name, node))
        self.states[node] = state
