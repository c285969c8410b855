"""What a fault is: a value with parameters, a way to strike that heals for certain, and evidence that it bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from experiments.clients.librdkafka.log import timed_out_requests
from experiments.events.journal import Event
from experiments.faults.core.effects import FaultEffects, Topology
from experiments.ledger.record import FaultEvidence, Frozen, Scalar
from infra.cluster.capabilities import Capability
from infra.kafka.spec import DiskKind, NetworkKind

# ---------- What ends a fault, or a part of one, before it bit.


class FaultMissed(Exception):
    """The fault found nothing to strike; the text says why. Whoever let it strike takes it for a fault that did not bite."""


class FaultAbandoned(Exception):
    """Another part of the fault failed, or the trial was interrupted: this part goes no further, and heals."""


# ---------- What is known of a fault once its trial is over: what the brokers and the clients themselves wrote down. Pure.


@dataclass(frozen=True)
class TrialObservations:
    """What a fault's kind may ask to complete its evidence, or to see that it did not bite."""

    events: tuple[Event, ...]
    """All of the trial, by time: the fault's own, the watcher's, the brokers' and the clients'."""
    acks: str
    began_ns: int | None
    """When this fault struck first; `None`: it never did."""

    def since(self, *kinds: str) -> tuple[Event, ...]:
        """Return the events of these kinds since the fault began; none where it never did."""
        return tuple(
            event
            for event in self.events
            if event.kind in kinds and self.began_ns is not None and event.at_ns >= self.began_ns
        )

    def timed_out_requests(self) -> int:
        """How many requests the producers gave up waiting for since the fault began."""
        return sum(
            timed_out_requests(event)
            for event in self.since("timed_out")
            if event.detail.startswith("producer")
        )


def as_it_struck(evidence: FaultEvidence, _aftermath: TrialObservations) -> FaultEvidence:
    """Add nothing: all there is to say was said when it struck."""
    return evidence


def with_timed_out_requests(evidence: FaultEvidence, aftermath: TrialObservations) -> FaultEvidence:
    """Add what the producers' own logs say: with nobody kept waiting too long, the fault did not bite.

    With acks=0 there is no answer to wait for, and nothing can time out.
    """
    if aftermath.acks == "0":
        return _with(evidence, "acks=0 waits for no answer, so no request can time out")
    if aftermath.timed_out_requests() == 0:
        return _with(evidence, "no request timed out at the client").model_copy(
            update={"took_effect": False}
        )
    return evidence


def _with(evidence: FaultEvidence, sentence: str) -> FaultEvidence:
    return evidence.model_copy(update={"evidence": (*evidence.evidence, sentence)})


class FaultParameters(Frozen):
    """What every fault can be told; times are seconds after the load began."""

    at_s: float = Field(
        default=2.0, gt=0, le=3600, description="when it strikes, seconds after the load began"
    )

    def heals_at_s(self) -> float:
        """Return when the heal has been asked for, seconds after the load began."""
        return self.at_s

    def unnoticed_reason(self, client_timeout_s: float, acks: str) -> str | None:
        """Say why a producer with these settings could not notice the fault; `None`: it can."""
        del client_timeout_s, acks
        return None

    def impossible_reason(self, shape: Topology) -> str | None:
        """Say why there can be no such fault on such a cluster, as the end of a sentence; `None`: there can."""
        del shape
        return None


@dataclass(frozen=True)
class FaultKind:
    """An entry of the catalogue of faults."""

    kind: str
    family: str
    summary: str
    """One line for a person."""
    parameters: type[FaultParameters]
    inject: Callable[..., FaultEvidence]
    """Called with the scene and the parameters as the load begins; returns once healed."""
    effects: Callable[[str, Any, Topology], FaultEffects]
    """What it does, from its kind, its parameters and what it finds."""
    required_capabilities: frozenset[Capability] = frozenset()
    """What the machine must have for it."""
    network: NetworkKind = "loopback"
    disk: DiskKind = "folder"
    needs_own_cluster: bool = False
    """What it does can outlive its trial, healed or not: the next trial gets a fresh cluster."""
    supports_external_cluster: bool = False
    """Whether it can be done to a cluster that is somebody else's: nothing of it needs the nodes."""
    confirm: Callable[[FaultEvidence, TrialObservations], FaultEvidence] = as_it_struck
    """After the trial: its evidence, completed by what brokers and clients logged; or that it did not bite."""

    def effects_of(self, parameters: Mapping[str, Scalar], shape: Topology) -> FaultEffects:
        """Return what it does with these parameters."""
        return self.effects(self.kind, self.parameters.model_validate(dict(parameters)), shape)
