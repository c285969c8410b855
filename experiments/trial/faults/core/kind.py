"""A kind of fault: its parameters, its injection, and when it counts as effective."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from ackbench.experiments.ledger.trial_manifest import FaultEvidence, Frozen, Scalar
from ackbench.experiments.trial.clients.librdkafka.log import timed_out_requests
from ackbench.experiments.trial.clients.programs.silence import SILENT, silence_s
from ackbench.experiments.trial.events.journal import Event
from ackbench.experiments.trial.faults.core.effects import FaultEffects, Topology
from ackbench.experiments.trial.faults.core.exits import MayExit
from ackbench.infra.cluster.capabilities import Capability
from ackbench.infra.kafka.spec import DiskKind, NetworkKind


class FaultMissed(Exception):
    """The fault could not be injected: it found no target. The text is the reason.

    This is not an error of the harness: the trial is void.
    """


class FaultAbandoned(Exception):
    """Another part of the fault failed, or the trial was interrupted: this part stops and heals."""


@dataclass(frozen=True)
class TrialObservations:
    """What the brokers and the clients logged of a trial, once it is over. Pure data.

    A fault kind completes its evidence with it, or finds that the fault had no effect.
    """

    events: tuple[Event, ...]
    """All events of the trial, by time: those of the fault, the metadata poller, the brokers and
    the clients."""
    acks: str
    """The producers' `acks`."""
    began_ns: int | None
    """When this fault was first injected; `None`: it never was."""
    request_timeout_s: float = 0.0
    """How long the producers wait for a response."""

    def since(self, *kinds: str) -> tuple[Event, ...]:
        """Return the events of these kinds since the fault began; none if it never began."""
        return tuple(
            event
            for event in self.events
            if event.kind in kinds and self.began_ns is not None and event.at_ns >= self.began_ns
        )

    def before(self, *kinds: str) -> tuple[Event, ...]:
        """Return the events of these kinds before the fault began; all if it never began."""
        return tuple(
            event
            for event in self.events
            if event.kind in kinds and (self.began_ns is None or event.at_ns < self.began_ns)
        )

    def loaded_before_s(self) -> float:
        """Return for how long the load had run when the fault began; 0 if either is unknown."""
        began_ns = [event.at_ns for event in self.events if event.kind == "load_begin"]
        if self.began_ns is None or not began_ns:
            return 0.0
        return (self.began_ns - began_ns[0]) / 1e9

    def longest_silence_s(self) -> float:
        """Return for how long a program had no record acknowledged since the fault began."""
        return max(map(silence_s, self.since(SILENT)), default=0.0)

    def timed_out_requests(self, *, before: bool = False) -> int:
        """Return how many requests of the producers timed out since the fault began, or before."""
        events = self.before("timed_out") if before else self.since("timed_out")
        return sum(
            timed_out_requests(event) for event in events if event.detail.startswith("producer")
        )


def extend_evidence(
    evidence: FaultEvidence, *sentences: str, took_effect: bool | None = None
) -> FaultEvidence:
    """Return the evidence with more sentences.

    Args:
        evidence: the evidence so far.
        sentences: to append.
        took_effect: whether the fault took effect; `None`: as before.
    """
    return evidence.model_copy(
        update={
            "evidence": (*evidence.evidence, *sentences),
            "took_effect": evidence.took_effect if took_effect is None else took_effect,
        }
    )


def accept_evidence(evidence: FaultEvidence, _observations: TrialObservations) -> FaultEvidence:
    """Return the evidence unchanged: it was complete when the fault was healed."""
    return evidence


def require_timed_out_requests(
    evidence: FaultEvidence, observations: TrialObservations
) -> FaultEvidence:
    """Return the evidence; the fault had no effect if no request of a producer timed out.

    Of a producer that does not report it, a silence longer than its request timeout shows it.

    With acks=0 producers wait for no response, so no request can time out: the evidence stands.
    """
    if observations.acks == "0":
        return extend_evidence(
            evidence, "with acks=0 producers wait for no response, so no request can time out"
        )
    if observations.timed_out_requests() == 0:
        longest_s = observations.longest_silence_s()
        if longest_s >= observations.request_timeout_s > 0:
            return extend_evidence(
                evidence,
                f"a producer, whose library does not say that a request timed out, had no record "
                f"acknowledged for {longest_s:.2f} s, longer than its request timeout of "
                f"{observations.request_timeout_s:g} s",
            )
        return extend_evidence(evidence, "no request of a producer timed out", took_effect=False)
    return evidence


Seconds = Annotated[float, Field(gt=0, le=3600)]
"""The duration of a part of a fault, or its limit, seconds."""
SecondsOrNone = Annotated[float, Field(ge=0, le=3600)]
"""An extension of a part of a fault, seconds; 0: none."""


class FaultParameters(Frozen):
    """The parameters that every fault has. Times are in seconds after the load began."""

    at_s: Seconds = Field(
        default=2.0, description="when the fault is injected, seconds after the load began"
    )

    def heals_at_s(self) -> float:
        """Return when the heal is due at the earliest, seconds after the load began."""
        return self.at_s

    def needs_load_s(self, topology: Topology) -> float:
        """Return how long the load has to last for all of the fault to fall into it, seconds."""
        del topology
        return self.heals_at_s()

    def unnoticed_reason(self, client_timeout_s: float, acks: str) -> str | None:
        """Return why a producer with these settings cannot notice the fault; `None`: it can.

        Args:
            client_timeout_s: how long the producer waits for a response.
            acks: the producer's `acks`.
        """
        del client_timeout_s, acks
        return None

    def impossible_reason(self, topology: Topology) -> str | None:
        """Return why the fault is impossible with this topology; `None`: it is possible.

        The reason completes the sentence `fault leader-crash: ...`.
        """
        del topology
        return None


def too_short_reason(
    fault: str, parameter: str, lasts_s: float, client_timeout_s: float, acks: str
) -> str | None:
    """Return why a producer cannot notice a fault of this length; `None`: it outlasts the timeout.

    TCP delivers everything afterwards. With acks=0 producers wait for no response, and any length
    is a valid test.
    """
    if acks == "0" or lasts_s > client_timeout_s:
        return None
    return (
        f"{parameter} is {lasts_s:g} and the client waits {client_timeout_s * 1000:g} ms for"
        f" an answer (socket.timeout.ms; java: request.timeout.ms); allowed: a longer {fault}"
    )


@dataclass(frozen=True)
class FaultKind:
    """An entry of the fault catalogue."""

    kind: str
    """The name that experiments use, such as `leader-crash`."""
    family: str
    """The group under which `ackbench faults` lists it."""
    summary: str
    """What happens, in one line, for users."""
    parameters: type[FaultParameters]
    """The model of its parameters, with defaults and bounds."""
    inject: Callable[..., FaultEvidence]
    """Called with the fault context and the parameters when the load begins. Waits until the fault
    is due, injects it, heals it, and returns the evidence."""
    effects: Callable[[Any, Topology], FaultEffects]
    """Derives its effects from the parameters and the topology; see `effects_of`."""
    required_capabilities: frozenset[Capability] = frozenset()
    """What the machine must be able to do, such as network namespaces."""
    network: NetworkKind = "loopback"
    """The kind of network that the cluster must run on."""
    disk: DiskKind = "folder"
    """The kind of disk that the cluster's nodes must store their data on."""
    needs_own_cluster: bool = False
    """Whether its effects can outlast the trial, healed or not: no other trial may use the
    cluster."""
    may_exit: MayExit = "none"
    """Which nodes may exit by themselves because of it; see `core.exits`."""
    acts_on_stored_records: bool = False
    """Whether its last step has its effect after the load as well: on records that are stored."""
    supports_external_cluster: bool = False
    """Whether it works with an external cluster, as it does not need access to the nodes."""
    confirm: Callable[[FaultEvidence, TrialObservations], FaultEvidence] = accept_evidence
    """Called after the trial for a fault that took effect: completes the evidence with what brokers
    and clients logged, or finds that the fault had no effect after all."""

    def effects_of(self, parameters: Mapping[str, Scalar], topology: Topology) -> FaultEffects:
        """Return the effects of the fault with these parameters."""
        effects = self.effects(self.parameters.model_validate(dict(parameters)), topology)
        return effects.model_copy(update={"kind": self.kind})
