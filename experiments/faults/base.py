"""What a fault is: a value with parameters, a way to strike that heals for certain, and evidence that it bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from pydantic import Field

from experiments.clock import monotonic_s, now_ns
from experiments.faults.nature import Nature, Shape
from experiments.journal import Journal
from experiments.ledger.record import FaultEvidence, Frozen, Scalar
from infra.cluster import Cluster, DiskKind, NetworkKind, PartitionState
from infra.means import Means
from infra.waiting import pause_until, wait_until

OBSERVED_PARTITION = 0
"""Targets are resolved from this partition: its leader, its followers."""


class FaultParameters(Frozen):
    """What every fault can be told; times are seconds after the load began."""

    at_s: float = Field(default=2.0, gt=0, le=3600, description="when it strikes, seconds after the load began")

    def ends_s(self) -> float:
        """Return when the heal has been asked for, seconds after the load began."""
        return self.at_s

    def unnoticed(self, client_timeout_s: float, acks: str) -> str | None:
        """Say why a producer with these settings could not notice the fault; `None`: it can."""
        del client_timeout_s, acks
        return None

    def impossible(self, shape: Shape) -> str | None:
        """Say why there can be no such fault on such a cluster, as the end of a sentence; `None`: there can."""
        del shape
        return None


@dataclass(frozen=True)
class Scene:
    """Where a fault strikes: the cluster, the topic, the clock, and the journal that keeps what was seen."""

    cluster: Cluster
    topic: str
    load_begin_ns: int
    journal: Journal
    client_timeout_s: float
    """How long the producer gives a request before it takes the connection for dead (`socket.timeout.ms`)."""
    facts: list[str] = field(default_factory=list)
    """The evidence so far, a sentence each."""

    def partition(self) -> PartitionState:
        """Return the observed partition as the cluster tells it now, once it has a leader."""

        def with_leader() -> PartitionState | None:
            state = self.cluster.describe([self.topic]).of(self.topic)
            return state[OBSERVED_PARTITION] if state and state[OBSERVED_PARTITION].leader is not None else None

        return wait_until(with_leader, awaiting=f"a leader of {self.topic}-{OBSERVED_PARTITION}", timeout_s=10)

    def until(self, after_load_begin_s: float) -> None:
        """Return at that moment of the trial."""
        pause_until(monotonic_s(self.load_begin_ns) + after_load_begin_s)

    def since_load_began_s(self) -> float:
        """How old the load is."""
        return (now_ns() - self.load_begin_ns) / 1e9

    def saw(self, sentence: str) -> None:
        """Add to the evidence."""
        self.facts.append(sentence)

    def kill(self, node: int) -> None:
        """SIGKILL a node and keep that its process is gone."""
        self.journal.note("fault_kill", "SIGKILL", node=node)
        was = self.cluster.kill(node)
        self.journal.note("fault_bit", f"process {was.pid} is gone", node=node)
        self.saw(f"node {node} (process {was.pid}) was killed {self.since_load_began_s():.2f} s into the load and was gone")

    def pause(self, node: int) -> None:
        """SIGSTOP a node; the cluster returns once the kernel shows it stopped."""
        self.cluster.pause(node)
        self.journal.note("fault_bit", "the kernel shows the process stopped", node=node)

    def resume(self, node: int) -> None:
        """SIGCONT a node; one that goes on already is left as it is."""
        if any(status.node_id == node and status.state == "paused" for status in self.cluster.status()):
            self.cluster.resume(node)
            self.journal.note("fault_resume", "SIGCONT", node=node)

    def start(self, node: int) -> None:
        """Start a node again."""
        self.cluster.start(node)
        self.journal.note("fault_restart", "process started", node=node)

    @contextmanager
    def striking(self, *targets: int) -> Iterator[ExitStack]:
        """Frame a fault: notes its begin and end, and undoes on the way out all that was pushed, whatever was raised."""
        self.journal.note("fault_begin", "targets " + ", ".join(map(str, targets)))
        try:
            with ExitStack() as healing:
                yield healing
        finally:
            self.journal.note("fault_end", "healed")


@dataclass(frozen=True)
class FaultKind:
    """An entry of the catalogue of faults."""

    kind: str
    family: str
    summary: str
    """One line for a person."""
    parameters: type[FaultParameters]
    strike: Callable[..., FaultEvidence]
    """Called with the scene and the parameters as the load begins; returns once healed."""
    nature: Callable[[str, Any, Shape], Nature]
    """What it does, from its kind, its parameters and what it finds."""
    needs: frozenset[Means] = frozenset()
    """What the machine must have for it."""
    network: NetworkKind = "loopback"
    disk: DiskKind = "folder"
    outlives: bool = False
    """What it does can outlive its trial, healed or not: the next trial gets a fresh cluster."""

    def nature_of(self, parameters: Mapping[str, Scalar], shape: Shape) -> Nature:
        """Return what it does with these parameters."""
        return self.nature(self.kind, self.parameters.model_validate(dict(parameters)), shape)
