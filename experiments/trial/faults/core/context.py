"""What a fault is injected with: the cluster, the clock, the journal, and a heal that always runs.

Each fault of a trial has a `FaultContext` of its own. Several faults of one trial share the
`HeldNodes`, so that the heal of one does not start or resume a node that another still holds.
"""

from __future__ import annotations

import math
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, Self, TypeVar, get_args

from ackbench.experiments.ledger.trial_manifest import FaultEvidence, Scalar
from ackbench.experiments.messages.errors import HealFailed
from ackbench.experiments.messages.phrases import format_list, plural
from ackbench.experiments.trial.events.clock import monotonic_s, now_ns
from ackbench.experiments.trial.events.journal import Event, Journal
from ackbench.experiments.trial.faults.core.exits import ExpectedExits, MayExit
from ackbench.experiments.trial.faults.core.kind import FaultAbandoned, FaultMissed
from ackbench.infra.cluster.interface import Cluster
from ackbench.infra.errors import HarnessError, SupervisorError, WaitTimeout
from ackbench.infra.kafka.spec import ClusterState, NodeState, PartitionState
from ackbench.infra.process.waiting import sleep_until, wait_until

if TYPE_CHECKING:
    from ackbench.experiments.trial.clients.interface import ClientProcesses

EFFECTIVE: Final = "fault_effective"
"""Kind of the event that something was done: a process has ended, a packet was dropped."""
OBSERVED_PARTITION: Final = 0
"""The partition whose leader and followers faults target, and whose state is the evidence."""

IN_THE_LOAD: Final = "before the load ended"
"""The end of the sentence on what was carried out of a fault that the load was too short for."""

Observation = TypeVar("Observation")
HoldKind = Literal["down", "paused"]


class HeldNodes:
    """Which faults keep which nodes down or paused. Thread-safe."""

    def __init__(self) -> None:
        self._holders: defaultdict[tuple[int, HoldKind], set[str]] = defaultdict(set)
        self._node_locks: defaultdict[int, threading.Lock] = defaultdict(threading.Lock)
        self._lock = threading.Lock()

    @contextmanager
    def locked(self, node: int) -> Iterator[None]:
        """Keep other faults from the node.

        Its state does not change between a check and the action that depends on it.
        """
        with self._lock:
            lock = self._node_locks[node]
        with lock:
            yield

    def hold(self, node: int, kind: HoldKind, holder: str) -> None:
        """Register that a fault keeps the node down or paused."""
        with self._lock:
            self._holders[node, kind].add(holder)

    def release(self, node: int, kind: HoldKind, holder: str) -> bool:
        """Remove the registration; return whether no other fault holds the node in this way."""
        with self._lock:
            self._holders[node, kind].discard(holder)
            return not self._holders[node, kind]

    def holds(self, node: int) -> bool:
        """Return whether a fault keeps the node down or paused now."""
        with self._lock:
            return any(self._holders[node, kind] for kind in get_args(HoldKind))

    def nodes(self) -> tuple[int, ...]:
        """Return every node that was ever held."""
        with self._lock:
            return tuple(sorted({node for node, _ in self._holders}))


@dataclass(frozen=True)
class FaultContext:
    """The cluster, the topic, the clock and the journal of one fault.

    Several faults of one trial have a context each, made by `for_part`: with their own begin and
    evidence, and a common cluster and journal.
    """

    cluster: Cluster
    topic: str
    load_begin_ns: int
    journal: Journal
    client_timeout_s: float
    """How long the producer waits for a response before it drops the connection (librdkafka:
    `socket.timeout.ms`, Java: `request.timeout.ms`)."""
    clients: ClientProcesses | None = None
    """The trial's client processes, for faults that target them."""
    kind: str = "none"
    """The fault's name in the catalogue."""
    name: str = "the fault"
    """The fault's name in messages."""
    label: str = ""
    """Prefix of the fault's events in the journal; empty if the trial has one fault."""
    load_duration_s: float | None = None
    """How long the load lasts; `None`: unknown."""
    origin_s: float = 0.0
    """The moment from which the fault's times count, seconds after the load began."""
    evidence: list[str] = field(default_factory=list)
    """The evidence so far, one sentence each."""
    begins_ns: list[int] = field(default_factory=list)
    """Each time that the fault, or a step of it, began."""
    held_nodes: HeldNodes = field(default_factory=HeldNodes)
    """Which faults of the trial keep which nodes down or paused."""
    may_exit: MayExit = "none"
    """Which nodes the fault lets exit by themselves, as its kind declares."""
    expected_exits: ExpectedExits = field(default_factory=ExpectedExits)
    """The exits that the faults of the trial allow."""
    cancelled: threading.Event = field(default_factory=threading.Event)
    """Set when all faults of the trial must stop and heal."""

    # Parts of joined faults

    def for_part(self, kind: str, name: str, label: str, may_exit: MayExit = "none") -> Self:
        """Return the context of one of several faults."""
        return replace(
            self, kind=kind, name=name, label=label, may_exit=may_exit, evidence=[], begins_ns=[]
        )

    def starting_now(self) -> Self:
        """Return the context with times that count from now."""
        return replace(self, origin_s=self.load_elapsed_s())

    # The cluster

    def cluster_state(self) -> ClusterState:
        """Return brokers, controller and the topic's partitions as the cluster reports them now.

        Raises:
            FaultMissed: no broker answers; another fault may have taken all of them down.
        """
        try:
            return self.cluster.describe([self.topic])
        except WaitTimeout as error:
            raise FaultMissed(str(error)) from error

    def current_partition(self) -> PartitionState:
        """Return the observed partition as it is now, with a leader or without.

        Raises:
            FaultMissed: there is no such topic now, or no broker answers.
        """
        partitions = self.cluster_state().of(self.topic)
        if not partitions:
            raise FaultMissed(f"topic {self.topic} did not exist")
        return partitions[OBSERVED_PARTITION]

    def partition_with_leader(self) -> PartitionState:
        """Return the observed partition, as soon as it has a leader.

        Raises:
            FaultMissed: it got no leader within 10 s, or no broker answers.
        """

        def find() -> PartitionState | None:
            partitions = self.cluster_state().of(self.topic)
            return partitions[OBSERVED_PARTITION] if partitions else None

        return self.wait_for_leader(find, f"{self.topic}-{OBSERVED_PARTITION}")

    def wait_for_leader(
        self, find: Callable[[], PartitionState | None], named: str
    ) -> PartitionState:
        """Return a partition, as soon as it has a leader.

        Args:
            find: returns the partition; `None`: it is not known.
            named: its name in the message.

        Raises:
            FaultMissed: it got no leader within 10 s, or no broker answers.
        """

        def probe() -> PartitionState | None:
            partition = find()
            return None if partition is None or partition.leader is None else partition

        try:
            return self.wait_for(probe, awaiting=f"a leader of {named}", timeout_s=10)
        except WaitTimeout as error:
            raise FaultMissed(str(error)) from error

    def leader(self) -> int:
        """Return the leader of the observed partition, as soon as there is one.

        Raises:
            FaultMissed: as `partition_with_leader`.
        """
        leader = self.partition_with_leader().leader
        if leader is None:  # `partition_with_leader` waits for one
            raise AssertionError(self.topic)
        return leader

    def process_state(self, node: int) -> NodeState:
        """Return the state of a node's process, as the supervisor reports it."""
        return next(status.state for status in self.cluster.status() if status.node_id == node)

    # Time

    @property
    def began_ns(self) -> int:
        """When the fault, or its current step, began. Evidence from before does not count."""
        return self.begins_ns[-1]

    def load_elapsed_s(self) -> float:
        """Return the time since the load began, in seconds."""
        return (now_ns() - self.load_begin_ns) / 1e9

    def load_left_s(self) -> float:
        """Return for how long the load still lasts, in seconds; endless if that is unknown."""
        if self.load_duration_s is None:
            return math.inf
        return self.load_duration_s - self.load_elapsed_s()

    def at_least_while_loaded(self, timeout_s: float) -> float:
        """Return the time limit of a step that a slow machine takes longer for.

        As long as the load lasts, nothing is gained by giving up.
        """
        return timeout_s if self.load_duration_s is None else max(timeout_s, self.load_left_s())

    def elapsed_s(self) -> float:
        """Return the time since the fault, or its current step, began, in seconds."""
        return (now_ns() - self.began_ns) / 1e9

    def mark_begin(self) -> None:
        """Let the fault's current step begin now."""
        self.begins_ns.append(now_ns())

    def sleep_until(self, at_s: float) -> None:
        """Return at this moment.

        Args:
            at_s: seconds after `origin_s`: after the load began, or after the fault before this one
                was healed.

        Raises:
            FaultAbandoned: another fault of the trial failed, or the trial was interrupted.
        """
        self._sleep_until(monotonic_s(self.load_begin_ns) + self.origin_s + at_s)

    def sleep_until_lasted(self, seconds: float) -> None:
        """Return when the fault has lasted this long.

        On a busy machine a fault can begin later than requested; it lasts as long as requested all
        the same.

        Raises:
            FaultAbandoned: as `sleep_until`.
        """
        self._sleep_until(monotonic_s(self.began_ns) + seconds)

    def sleep(self, seconds: float) -> None:
        """Return after this time.

        Raises:
            FaultAbandoned: as `sleep_until`.
        """
        self.sleep_until(self.load_elapsed_s() - self.origin_s + seconds)

    def _sleep_until(self, at_monotonic_s: float) -> None:
        if not sleep_until(at_monotonic_s, unless=self.cancelled):
            raise FaultAbandoned(self.name)

    def wait_for(
        self,
        probe: Callable[[], Observation | None],
        *,
        awaiting: str,
        timeout_s: float,
        every_s: float = 0.05,
    ) -> Observation:
        """Call `probe` until it returns something true, and return that.

        Raises:
            WaitTimeout: the time is up.
            FaultAbandoned: as `sleep_until`.
        """

        def probe_unless_cancelled() -> Observation | None:
            if self.cancelled.is_set():
                raise FaultAbandoned(self.name)
            return probe()

        return wait_until(
            probe_unless_cancelled, awaiting=awaiting, timeout_s=timeout_s, every_s=every_s
        )

    # Evidence

    def add_evidence(self, sentence: str) -> None:
        """Append a sentence to the evidence."""
        self.evidence.append(sentence)

    def fault_evidence(
        self, targets: tuple[int, ...] = (), *, took_effect: bool, **parameters: Scalar
    ) -> FaultEvidence:
        """Return the evidence so far; its confirmation after the trial may need parameters."""
        return FaultEvidence(
            kind=self.kind,
            parameters=parameters,
            targets=targets,
            took_effect=took_effect,
            evidence=tuple(self.evidence),
        )

    def note(self, kind: str, detail: str, node: int | None = None) -> Event:
        """Write an event to the journal, labelled with the fault if there are several."""
        return self.journal.note(
            kind, f"{self.label}: {detail}" if self.label else detail, node=node
        )

    def wait_for_reaction(
        self, probe: Callable[[], str | None], patience_s: float, no_reaction: str
    ) -> bool:
        """Wait until the cluster reacts to the fault, and add the reaction to the evidence.

        Args:
            probe: returns a sentence once there is a reaction, such as an election.
            patience_s: how long to wait.
            no_reaction: what to report if there is none, without the duration: `partition 0 kept
                its leader (node 2)`.

        Returns:
            Whether there was a reaction.
        """
        try:
            self.add_evidence(
                self.wait_for(probe, awaiting="a reaction of the cluster", timeout_s=patience_s)
            )
        except WaitTimeout:
            self.add_evidence(f"{no_reaction} for {self.elapsed_s():.1f} s")
            return False
        return True

    # Signals

    def kill(self, node: int) -> None:
        """Send SIGKILL to a node and wait until its process has ended. It stays down until `start`.

        Raises:
            FaultMissed: the node is down already.
        """
        with self.held_nodes.locked(node):
            self.held_nodes.hold(node, "down", self.name)
            self._require_up(node)
            self.note("fault_kill", "SIGKILL", node)
            with self._if_still_up(node):
                process = self.cluster.kill(node)
            self.note(EFFECTIVE, f"process {process.pid} has ended", node)
        self.add_evidence(
            f"node {node} (process {process.pid}) crashed (SIGKILL)"
            f" {self.load_elapsed_s():.2f} s into the load"
        )

    def stop(self, node: int, timeout_s: float) -> bool:
        """Send SIGTERM to a node and wait for its clean shutdown. It stays down until `start`.

        A node that has not shut down in time gets SIGKILL.

        Returns:
            Whether it shut down in time.

        Raises:
            FaultMissed: the node is down already.
        """
        with self.held_nodes.locked(node):
            self.held_nodes.hold(node, "down", self.name)
            self._require_up(node)
            signalled = self.note("fault_stop", "SIGTERM", node)
            try:
                with self._if_still_up(node):
                    self.cluster.stop(node, timeout_s)
                in_time = True
            except WaitTimeout:
                self.cluster.kill(node)
                in_time = False
            ended = self.note(EFFECTIVE, "the process has ended", node)
        took_s = (ended.at_ns - signalled.at_ns) / 1e9
        self.add_evidence(
            f"node {node} shut down {took_s:.2f} s after SIGTERM"
            if in_time
            else f"node {node} had not shut down {took_s:.2f} s after SIGTERM, and got SIGKILL"
        )
        return in_time

    def pause(self, node: int) -> None:
        """Send SIGSTOP to a node; return once the kernel reports it stopped.

        It stays paused until `resume`.

        Raises:
            FaultMissed: the node is down.
        """
        with self.held_nodes.locked(node):
            self.held_nodes.hold(node, "paused", self.name)
            self._require_up(node)
            with self._if_still_up(node):
                self.cluster.pause(node)
            self.note(EFFECTIVE, "the kernel reports the process as stopped", node)

    def resume(self, node: int) -> None:
        """Send SIGCONT to a node, if it is paused and no other fault keeps it paused."""
        with self.held_nodes.locked(node):
            released = self.held_nodes.release(node, "paused", self.name)
            if released and self.process_state(node) == "paused":
                self.cluster.resume(node)
                self.note("fault_resume", "SIGCONT", node)

    def start(self, node: int) -> None:
        """Start a node, if it is down and no other fault keeps it down."""
        with self.held_nodes.locked(node):
            released = self.held_nodes.release(node, "down", self.name)
            if released and self.process_state(node) == "stopped":
                self.cluster.start(node)
                self.note("fault_restart", "process started", node)

    def _require_up(self, node: int) -> None:
        if self.process_state(node) == "stopped":
            raise FaultMissed(f"node {node} was down already")

    @contextmanager
    def _if_still_up(self, node: int) -> Iterator[None]:
        """Treat a node as missed that has exited by itself just before the signal."""
        try:
            yield
        except SupervisorError:
            self._require_up(node)
            raise

    # Healing

    @contextmanager
    def injected(self, *targets: int) -> Iterator[ExitStack]:
        """Mark the begin and the end of the fault in the journal, and heal it in any case.

        Yields:
            The stack of heals: every callback pushed on it is called on the way out, the last one
            first, whatever was raised.

        Raises:
            HealFailed: as `healing`.
        """
        begin = self.note("fault_begin", "targets " + ", ".join(map(str, targets)))
        self.begins_ns.append(begin.at_ns)
        end = "healed"
        try:
            with (
                self.expected_exits.allowed(self.may_exit, targets),
                self.healing(*targets) as heals,
            ):
                yield heals
        except HealFailed as error:
            end = f"not healed: {error}"
            raise
        finally:
            self.note("fault_end", end)

    @contextmanager
    def healing(self, *targets: int) -> Iterator[ExitStack]:
        """Heal the fault, or a step of it, in any case; see `injected`.

        Raises:
            HealFailed: a heal failed; all others were done. Names the fault and the nodes.
        """
        heals = ExitStack()
        try:
            yield heals
        finally:
            try:
                heals.close()
            except Exception as error:
                at = f" at {format_nodes(targets)}" if targets else ""
                raise HealFailed(f"{self.name}{at} could not be healed: {error}") from error

    def restore_nodes(self) -> None:
        """Resume or start every node that any fault of the trial held.

        After a complete heal there is nothing to do.

        Raises:
            HealFailed: a node does not start or resume; all others were restored.
        """
        failures = []
        for node in self.held_nodes.nodes():
            try:
                if self.process_state(node) == "paused":
                    self.cluster.resume(node)
                if self.process_state(node) == "stopped":
                    self.cluster.start(node)
                    self.note("fault_restart", "process started", node)
            except HarnessError as error:
                failures.append(f"node {node}: {error}")
        if failures:
            raise HealFailed(f"{self.name} could not be healed: {'; '.join(failures)}")


def format_nodes(ids: Sequence[int]) -> str:
    """Return `node 1`, `nodes 1, 2 and 3`, or `no node`."""
    if not ids:
        return "no node"
    return f"{plural(len(ids), 'node')} {format_list(list(map(str, ids)))}"
