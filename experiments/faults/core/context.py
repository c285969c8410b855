"""Where a fault strikes, and what it can do there: times, processes, evidence, and a frame that heals for certain."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, Self, TypeVar

from experiments.errors import HealFailed
from experiments.events.clock import monotonic_s, now_ns
from experiments.events.journal import Event, Journal
from experiments.faults.core.kind import FaultAbandoned, FaultMissed
from infra.cluster.interface import Cluster
from infra.errors import HarnessError, WaitTimeout
from infra.kafka.spec import ClusterState, NodeState, PartitionState
from infra.process.waiting import pause_until, wait_until

# ---------- Which part of a fault keeps which node down or still, so that the heal of one does not undo what another still does.


How = Literal["down", "still"]


class HeldNodes:
    """Who holds what; safe to use from several threads."""

    def __init__(self) -> None:
        """Nobody holds anything."""
        self._holders: defaultdict[tuple[int, How], set[str]] = defaultdict(set)
        self._locks: defaultdict[int, threading.Lock] = defaultdict(threading.Lock)
        self._lock = threading.Lock()

    @contextmanager
    def alone(self, node: int) -> Iterator[None]:
        """Keep the other parts from doing anything to the node meanwhile: what is looked at and then done is done to what was looked at."""
        with self._lock:
            lock = self._locks[node]
        with lock:
            yield

    def take(self, node: int, how: How, holder: str) -> None:
        """Hold a node from now on."""
        with self._lock:
            self._holders[node, how].add(holder)

    def let_go(self, node: int, how: How, holder: str) -> bool:
        """Hold it no longer; return whether nobody does any more."""
        with self._lock:
            self._holders[node, how].discard(holder)
            return not self._holders[node, how]

    def nodes(self) -> tuple[int, ...]:
        """Every node that was ever held."""
        with self._lock:
            return tuple(sorted({node for node, _ in self._holders}))


if TYPE_CHECKING:
    from experiments.clients.interface import ClientProcesses

OBSERVED_PARTITION = 0
"""Targets are resolved from this partition: its leader, its followers."""

Seen = TypeVar("Seen")


@dataclass(frozen=True)
class FaultContext:
    """Where a fault strikes: the cluster, the topic, the clock, and the journal that keeps what was seen.

    Each of several faults of one trial has its own, made by `part`: its own begin, its own evidence, and one cluster and journal with the others.
    """

    cluster: Cluster
    topic: str
    load_begin_ns: int
    journal: Journal
    client_timeout_s: float
    """How long the producer gives a request before it takes the connection for dead (librdkafka: `socket.timeout.ms`, Java: `request.timeout.ms`)."""
    clients: ClientProcesses | None = None
    """The trial's own clients, where it is they that something is done to."""
    name: str = "the fault"
    """Which it is, for messages."""
    label: str = ""
    """Which it is, in front of its events' details; empty where there is only one."""
    after_s: float = 0.0
    """From when its times count, seconds after the load began."""
    facts: list[str] = field(default_factory=list)
    """The evidence so far, a sentence each."""
    begins_ns: list[int] = field(default_factory=list)
    """When it struck, each time."""
    held_nodes: HeldNodes = field(default_factory=HeldNodes)
    """Which parts of the fault keep which node down or still."""
    over: threading.Event = field(default_factory=threading.Event)
    """Set when all parts are to give up."""

    def part(self, name: str, label: str) -> Self:
        """Return the scene of one of several faults."""
        return replace(self, name=name, label=label, facts=[], begins_ns=[])

    def from_now(self) -> Self:
        """Return the scene with times that count from now."""
        return replace(self, after_s=self.since_load_began_s())

    @property
    def began_ns(self) -> int:
        """When it struck last; what was seen before is none of its doing."""
        return self.begins_ns[-1]

    def partition(self) -> PartitionState:
        """Return the observed partition as the cluster tells it now, once it has a leader.

        Raises:
            Missed: it gets none, or nobody tells: another part of the fault may have struck.
        """

        def with_leader() -> PartitionState | None:
            state = self.state().of(self.topic)
            return (
                state[OBSERVED_PARTITION]
                if state and state[OBSERVED_PARTITION].leader is not None
                else None
            )

        try:
            return self.wait(
                with_leader, awaiting=f"a leader of {self.topic}-{OBSERVED_PARTITION}", timeout_s=10
            )
        except WaitTimeout as error:
            raise FaultMissed(str(error)) from error

    def state(self) -> ClusterState:
        """Return what the cluster says of itself now.

        Raises:
            Missed: no broker answers: another part of the fault may have struck them all.
        """
        try:
            return self.cluster.describe([self.topic])
        except WaitTimeout as error:
            raise FaultMissed(str(error)) from error

    def leader(self) -> int:
        """Return who leads the observed partition now, once somebody does."""
        leader = self.partition().leader
        if leader is None:  # `partition` waits for one
            raise AssertionError(self.topic)
        return leader

    def until(self, at_s: float) -> None:
        """Return at that moment of the fault: seconds after the load began, or after the heal of the fault before.

        Raises:
            GivenUp: another part of the fault failed meanwhile, or the trial was interrupted.
        """
        if not pause_until(monotonic_s(self.load_begin_ns) + self.after_s + at_s, unless=self.over):
            raise FaultAbandoned(self.name)

    def lasting(self, seconds: float) -> None:
        """Return when the fault has lasted for so long: on a busy machine it strikes later than it was asked to, and is as long all the same.

        Raises:
            GivenUp: as `until`.
        """
        if not pause_until(monotonic_s(self.began_ns) + seconds, unless=self.over):
            raise FaultAbandoned(self.name)

    def wait(
        self,
        look: Callable[[], Seen | None],
        *,
        awaiting: str,
        timeout_s: float,
        every_s: float = 0.05,
    ) -> Seen:
        """Return what was seen, as soon as it is.

        Raises:
            WaitTimeout: it was not seen in time.
            GivenUp: as `until`.
        """

        def look_on() -> Seen | None:
            if self.over.is_set():
                raise FaultAbandoned(self.name)
            return look()

        return wait_until(look_on, awaiting=awaiting, timeout_s=timeout_s, every_s=every_s)

    def noticed(self, look: Callable[[], str | None], patience_s: float) -> bool:
        """Wait until the cluster has noticed or patience ends; keep what was seen."""
        try:
            self.saw(self.wait(look, awaiting="the cluster to notice", timeout_s=patience_s))
        except WaitTimeout:
            self.saw(
                f"the cluster had not noticed {self.since_begin_s():.1f} s after the fault began, when it was healed"
            )
            return False
        return True

    def since_load_began_s(self) -> float:
        """How old the load is."""
        return (now_ns() - self.load_begin_ns) / 1e9

    def since_begin_s(self) -> float:
        """How long ago it struck."""
        return (now_ns() - self.began_ns) / 1e9

    def strikes_again(self) -> None:
        """Count from now on: what was seen before is of an earlier strike of the same fault."""
        self.begins_ns.append(now_ns())

    def saw(self, sentence: str) -> None:
        """Add to the evidence."""
        self.facts.append(sentence)

    def note(self, kind: str, detail: str, node: int | None = None) -> Event:
        """Write down what the fault does, with its name where there are several."""
        return self.journal.note(
            kind, f"{self.label}: {detail}" if self.label else detail, node=node
        )

    def kill(self, node: int) -> None:
        """SIGKILL a node and keep that its process is gone; it stays down until `start`.

        Raises:
            Missed: it does not run.
        """
        with self.held_nodes.alone(node):
            self.held_nodes.take(node, "down", self.name)
            self._require_alive(node)
            self.note("fault_kill", "SIGKILL", node)
            was = self.cluster.kill(node)
            self.note("fault_effective", f"process {was.pid} is gone", node)
        self.saw(
            f"node {node} (process {was.pid}) was killed {self.since_load_began_s():.2f} s into the load and was gone"
        )

    def stop(self, node: int, timeout_s: float) -> bool:
        """SIGTERM a node and wait for its end; one that goes on is killed. It stays down until `start`.

        Returns:
            Whether it ended by itself.

        Raises:
            Missed: it does not run.
        """
        with self.held_nodes.alone(node):
            self.held_nodes.take(node, "down", self.name)
            self._require_alive(node)
            asked = self.note("fault_stop", "SIGTERM", node)
            try:
                self.cluster.stop(node, timeout_s)
                ended, how = True, "ended by itself"
            except WaitTimeout:
                self.cluster.kill(node)
                ended, how = False, "had not ended, and was killed,"
            gone = self.note("fault_effective", "the process is gone", node)
        self.saw(f"node {node} {how} {(gone.at_ns - asked.at_ns) / 1e9:.2f} s after its SIGTERM")
        return ended

    def pause(self, node: int) -> None:
        """SIGSTOP a node; returns once the kernel shows it stopped. It stands still until `resume`.

        Raises:
            Missed: it does not run.
        """
        with self.held_nodes.alone(node):
            self.held_nodes.take(node, "still", self.name)
            self._require_alive(node)
            self.cluster.pause(node)
            self.note("fault_effective", "the kernel shows the process stopped", node)

    def resume(self, node: int) -> None:
        """SIGCONT a node; one that is not paused is left as it is, and so is one that another part of the fault keeps still."""
        with self.held_nodes.alone(node):
            if self.held_nodes.let_go(node, "still", self.name) and self.state_of(node) == "paused":
                self.cluster.resume(node)
                self.note("fault_resume", "SIGCONT", node)

    def start(self, node: int) -> None:
        """Start a node again; one that runs is left as it is, and so is one that another part of the fault keeps down."""
        with self.held_nodes.alone(node):
            if self.held_nodes.let_go(node, "down", self.name) and self.state_of(node) == "stopped":
                self.cluster.start(node)
                self.note("fault_restart", "process started", node)

    def put_right(self) -> None:
        """Let every node run that any part of the fault ever held: nothing to do where each part has healed.

        Raises:
            HealFailed: one does not start or go on, after the others do.
        """
        failed = []
        for node in self.held_nodes.nodes():
            try:
                if self.state_of(node) == "paused":
                    self.cluster.resume(node)
                if self.state_of(node) == "stopped":
                    self.cluster.start(node)
            except HarnessError as error:
                failed.append(f"node {node}: {error}")
        if failed:
            raise HealFailed(f"{self.name} could not be healed: {'; '.join(failed)}")

    def state_of(self, node: int) -> NodeState:
        """Return what the supervisor says of a node's process."""
        return next(status.state for status in self.cluster.status() if status.node_id == node)

    @contextmanager
    def striking(self, *targets: int) -> Iterator[ExitStack]:
        """Frame a fault: notes its begin and end, and undoes on the way out all that was pushed, whatever was raised.

        Raises:
            HealFailed: as `healing`.
        """
        begin = self.note("fault_begin", "targets " + ", ".join(map(str, targets)))
        self.begins_ns.append(begin.at_ns)
        end = "healed"
        try:
            with self.healing(*targets) as healing:
                yield healing
        except HealFailed as error:
            end = f"not healed: {error}"
            raise
        finally:
            self.note("fault_end", end)

    @contextmanager
    def healing(self, *targets: int) -> Iterator[ExitStack]:
        """Undo on the way out all that was pushed, whatever was raised: of a whole fault, or of a step of it.

        Raises:
            HealFailed: something could not be undone, after all else was; names fault and nodes.
        """
        healing = ExitStack()
        try:
            yield healing
        finally:
            self._heal(healing, targets)

    def _heal(self, healing: ExitStack, targets: tuple[int, ...]) -> None:
        try:
            healing.close()
        except Exception as error:
            at = " at node " + " and ".join(map(str, targets)) if targets else ""
            raise HealFailed(f"{self.name}{at} could not be healed: {error}") from error

    def _require_alive(self, node: int) -> None:
        if self.state_of(node) == "stopped":
            raise FaultMissed(f"node {node} was down already")
