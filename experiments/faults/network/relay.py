"""Faults of the clients' connections without root: a TCP relay in front of the leader holds, drops or resets what goes through it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pydantic import Field

from experiments.faults.core import FaultContext, FaultKind
from experiments.faults.core.effects import FaultEffects, Topology
from experiments.faults.core.kind import TrialObservations, with_timed_out_requests
from experiments.faults.network.impairment import ImpairmentParameters, impair
from experiments.faults.network.isolation import SilenceParameters
from experiments.ledger.record import FaultEvidence
from infra.kafka.spec import NetworkKind
from infra.network.impairment import Direction, RelayAction, RelayTreatment

FAMILY: Final = "relay"
NETWORK: Final[NetworkKind] = "relays"
_DIRECTION: Final = "responses: what the leader answers; requests: what it is asked"


class HoldParameters(SilenceParameters):
    """Bytes are kept, and delivered at the heal."""

    direction: Direction = Field(default="responses", description=_DIRECTION)


class DropParameters(SilenceParameters):
    """Bytes are thrown away."""

    direction: Direction = Field(default="responses", description=_DIRECTION)


class ResetParameters(ImpairmentParameters):
    """The connection is reset as soon as bytes come."""

    lasts_s: float = Field(
        default=1.0,
        gt=0,
        le=3600,
        description="for how long each connection on which bytes come is reset, seconds",
    )
    direction: Direction = Field(default="responses", description=_DIRECTION)


def _striking(
    kind: str, treatment: RelayTreatment
) -> Callable[[FaultContext, HoldParameters | DropParameters | ResetParameters], FaultEvidence]:
    def strike(
        context: FaultContext, parameters: HoldParameters | DropParameters | ResetParameters
    ) -> FaultEvidence:
        context.until(parameters.at_s)
        return impair(
            kind, context, parameters, [RelayAction(context.leader(), parameters.direction, treatment)]
        )

    return strike


def _with_reset_connections(evidence: FaultEvidence, aftermath: TrialObservations) -> FaultEvidence:
    """Add what the producers' own logs say: with no connection lost, the fault did not bite."""
    lost = [
        event for event in aftermath.since("disconnected") if event.detail.startswith("producer")
    ]
    said = (
        f"the producers lost {len(lost)} connections by their own logs"
        if lost
        else "no producer lost a connection by its own log"
    )
    return evidence.model_copy(
        update={"took_effect": bool(lost), "evidence": (*evidence.evidence, said)}
    )


def _nature(
    kind: str, parameters: HoldParameters | DropParameters, _shape: Topology
) -> FaultEffects:
    """The nodes are well; requests that are held arrive at the heal, wanted or not."""
    lasts_ms = parameters.lasts_s * 1000
    answers = parameters.direction == "responses"
    return FaultEffects(
        kind=kind,
        clients_cut_off=True,
        responses_lost=answers,
        requests_held_ms=0 if answers else lasts_ms,
        heals_after_ms=lasts_ms,
        heals_within_ms=lasts_ms,
    )


def _nature_of_thrown_away(
    kind: str, parameters: DropParameters | ResetParameters, _shape: Topology
) -> FaultEffects:
    """What was thrown away never arrives."""
    lasts_ms = parameters.lasts_s * 1000
    return FaultEffects(
        kind=kind,
        clients_cut_off=True,
        responses_lost=parameters.direction == "responses",
        heals_after_ms=lasts_ms,
        heals_within_ms=lasts_ms,
    )


KINDS: Final = (
    FaultKind(
        "relay-held",
        FAMILY,
        "a relay keeps the leader's answers, or the requests to it, and delivers them at the heal",
        HoldParameters,
        _striking("relay-held", "hold"),
        _nature,
        network=NETWORK,
        confirm=with_timed_out_requests,
    ),
    FaultKind(
        "relay-dropped",
        FAMILY,
        "a relay throws the leader's answers away, or the requests to it, and resets the connections at the heal",
        DropParameters,
        _striking("relay-dropped", "drop"),
        _nature_of_thrown_away,
        network=NETWORK,
        confirm=with_timed_out_requests,
    ),
    FaultKind(
        "relay-reset",
        FAMILY,
        "a relay resets each connection on which the leader answers, or is asked: the batch is stored or not, and the connection is gone",
        ResetParameters,
        _striking("relay-reset", "reset"),
        _nature_of_thrown_away,
        network=NETWORK,
        confirm=_with_reset_connections,
    ),
)
