"""Faults of the clients' connections that need no root.

A TCP relay in front of the leader holds, drops or resets what passes through it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pydantic import Field

from ackbench.experiments.ledger.trial_manifest import FaultEvidence
from ackbench.experiments.trial.faults.core import FaultContext, FaultKind
from ackbench.experiments.trial.faults.core.effects import FaultEffects, Topology
from ackbench.experiments.trial.faults.core.kind import (
    Seconds,
    TrialObservations,
    extend_evidence,
    require_timed_out_requests,
)
from ackbench.experiments.trial.faults.network.impairment import ImpairmentParameters, impair
from ackbench.experiments.trial.faults.network.isolation import SilenceParameters
from ackbench.infra.kafka.spec import NetworkKind
from ackbench.infra.network.impairment import RelayAction
from ackbench.infra.network.treatment import Direction, RelayTreatment

FAMILY: Final = "relay"
NETWORK: Final[NetworkKind] = "relays"
_DIRECTION: Final = "responses: what the leader sends to clients; requests: what it receives"


class HoldParameters(SilenceParameters):
    """The relay holds the data and delivers it at the heal."""

    direction: Direction = Field(default="responses", description=_DIRECTION)


class DropParameters(SilenceParameters):
    """The relay drops the data."""

    direction: Direction = Field(default="responses", description=_DIRECTION)


class ResetParameters(ImpairmentParameters):
    """The relay resets a connection as soon as data arrives on it."""

    lasts_s: Seconds = Field(
        default=1.0, description="for how long each connection with data is reset, seconds"
    )
    direction: Direction = Field(default="responses", description=_DIRECTION)


RelayParameters = HoldParameters | DropParameters | ResetParameters


def _injection(
    treatment: RelayTreatment,
) -> Callable[[FaultContext, RelayParameters], FaultEvidence]:
    def inject(context: FaultContext, parameters: RelayParameters) -> FaultEvidence:
        context.sleep_until(parameters.at_s)
        action = RelayAction(context.leader(), parameters.direction, treatment)
        return impair(context, parameters, [action])

    return inject


def _require_lost_connections(
    evidence: FaultEvidence, observations: TrialObservations
) -> FaultEvidence:
    """Return the evidence; without effect if no producer logged a lost connection.

    Of a program, which logs in its own words, a silence shows it.
    """
    lost = [
        event for event in observations.since("disconnected") if event.detail.startswith("producer")
    ]
    if not lost and (longest_s := observations.longest_silence_s()):
        return extend_evidence(
            evidence,
            "a producer, whose library does not say that a connection was lost, had no record "
            f"acknowledged for {longest_s:.2f} s",
        )
    if not lost:
        return extend_evidence(evidence, "no producer logged a lost connection", took_effect=False)
    return extend_evidence(
        evidence, f"the producers logged {len(lost)} lost connections", took_effect=True
    )


def _hold_effects(parameters: HoldParameters, _topology: Topology) -> FaultEffects:
    """Return the effects: nodes are not affected.

    Held requests are delivered at the heal, whether the client still waits for them or not.
    """
    lasts_ms = parameters.lasts_s * 1000
    responses = parameters.direction == "responses"
    return FaultEffects(
        clients_cut_off=True,
        responses_lost=responses,
        requests_held_ms=0 if responses else lasts_ms,
        heals_after_ms=lasts_ms,
        heals_within_ms=lasts_ms,
    )


def _drop_effects(
    parameters: DropParameters | ResetParameters, _topology: Topology
) -> FaultEffects:
    """Return the effects: dropped requests are never delivered."""
    lasts_ms = parameters.lasts_s * 1000
    return FaultEffects(
        clients_cut_off=True,
        responses_lost=parameters.direction == "responses",
        heals_after_ms=lasts_ms,
        heals_within_ms=lasts_ms,
    )


KINDS: Final = (
    FaultKind(
        "relay-held",
        FAMILY,
        "a relay holds the leader's responses, or the requests to it, until the heal",
        HoldParameters,
        _injection("hold"),
        _hold_effects,
        network=NETWORK,
        supports_external_cluster=True,
        confirm=require_timed_out_requests,
    ),
    FaultKind(
        "relay-dropped",
        FAMILY,
        "a relay drops the leader's responses, or the requests to it,"
        " and resets the connections at the heal",
        DropParameters,
        _injection("drop"),
        _drop_effects,
        network=NETWORK,
        supports_external_cluster=True,
        confirm=require_timed_out_requests,
    ),
    FaultKind(
        "relay-reset",
        FAMILY,
        "a relay resets each connection on which the leader responds, or gets a request;"
        " the batch may or may not have been appended",
        ResetParameters,
        _injection("reset"),
        _drop_effects,
        network=NETWORK,
        supports_external_cluster=True,
        confirm=_require_lost_connections,
    ),
)
