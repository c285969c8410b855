"""Requests of a transactional producer that arrive late, when its next transaction has begun.

The client has given the request up by then and has sent it again on another connection. Without
`transaction.version=2`, all transactions of a producer session have one epoch, so the coordinator
cannot tell that the late request belongs to an earlier transaction (KAFKA-17754). With it, the
coordinator raises the epoch at the end of each transaction, and refuses the late request (KIP-890).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pydantic import Field

from ackbench.experiments.ledger.trial_manifest import FaultEvidence
from ackbench.experiments.sweep.client_kinds import traits_of
from ackbench.experiments.trial.faults.core import (
    EFFECTIVE,
    FaultContext,
    FaultKind,
    FaultMissed,
    FaultParameters,
    Seconds,
)
from ackbench.experiments.trial.faults.core.effects import (
    FaultEffects,
    Topology,
    no_transactions_reason,
)
from ackbench.experiments.trial.faults.transactions.producers import FAMILY
from ackbench.infra.errors import ImpairmentConflict, WaitTimeout
from ackbench.infra.kafka.frames import TransactionalApi
from ackbench.infra.kafka.spec import NetworkKind
from ackbench.infra.network.impairment import HeldRequest, RequestHold

NETWORK: Final[NetworkKind] = "relays"
IMPLICIT_PARTITIONS_SINCE: Final = 2
"""From this level of `transaction.version` on, the leader adds a partition to the transaction when
it receives the first batch, and clients that support it send no AddPartitionsToTxn (KIP-890)."""
_ANSWER_TIMEOUT_S: Final = 5.0
_POLL_S: Final = 0.01


class DelayedRequestParameters(FaultParameters):
    """A relay holds a request until the producer's next transaction has a stored record."""

    patience_s: Seconds = Field(
        default=15.0,
        description=(
            "how long it may take until the next transaction has a stored record, seconds; then"
            " the request is delivered all the same"
        ),
    )

    def impossible_reason(self, topology: Topology) -> str | None:
        """Refuse workloads without transactions."""
        return no_transactions_reason(topology)


class DelayedAddPartitionsParameters(DelayedRequestParameters):
    """The held request is AddPartitionsToTxn."""

    def impossible_reason(self, topology: Topology) -> str | None:
        """Refuse clients that do not send the request on this cluster."""
        implicit = (topology.transaction_version or 0) >= IMPLICIT_PARTITIONS_SINCE
        if implicit and not traits_of(topology.client).adds_partitions_itself:
            return (
                f"{traits_of(topology.client).title} sends no AddPartitionsToTxn with "
                f"transaction.version={topology.transaction_version} (KIP-890); allowed: "
                "transaction.version 0 or 1, or client librdkafka"
            )
        return super().impossible_reason(topology)


def _injection(
    request: TransactionalApi,
) -> Callable[[FaultContext, DelayedRequestParameters], FaultEvidence]:
    def inject(context: FaultContext, parameters: DelayedRequestParameters) -> FaultEvidence:
        return delay_request(request, context, parameters)

    return inject


def delay_request(
    api: TransactionalApi, context: FaultContext, parameters: DelayedRequestParameters
) -> FaultEvidence:
    """Hold the next such request of producer 0, and deliver it in its next transaction.

    It took effect if the node answered the request after a record of the next transaction was
    stored.

    Raises:
        FaultMissed: there are no transactional producers, or another fault acts on the relays.
    """
    context.sleep_until(parameters.at_s)
    ids = context.clients.transactional_ids if context.clients else ()
    if not ids:
        raise FaultMissed("there is no producer with a transactional.id")
    hold = RequestHold(api, ids[0])
    with context.injected() as heals:
        heals.callback(context.cluster.heal, context.name)
        try:
            context.cluster.impair(context.name, [hold])
        except ImpairmentConflict as conflict:
            raise FaultMissed(str(conflict)) from conflict
        context.note("fault_cut", str(hold))
        held = _wait_until(context, lambda held: held is not None, parameters.patience_s)
        if held is not None:
            context.note(EFFECTIVE, f"{held.request} v{held.version} is held", node=held.node_id)
            left_s = max(_POLL_S, parameters.patience_s - context.elapsed_s())
            if _wait_until(context, _is_released, left_s):
                _wait_until(context, _is_answered, _ANSWER_TIMEOUT_S)
        held = _held_request(context)
    return _evidence(api, context, held)


def _evidence(
    api: TransactionalApi, context: FaultContext, held: HeldRequest | None
) -> FaultEvidence:
    took_effect = _is_answered(held) and held is not None and held.in_next_transaction
    if held is None:
        context.add_evidence(f"producer 0 sent no {api} for {context.elapsed_s():.1f} s")
    else:
        context.add_evidence(f"a relay held {_with_error_name(held)}")
    if held is not None and not took_effect:
        context.add_evidence("the request did not reach the next transaction: no effect")
    return context.fault_evidence((held.node_id,) if held else (), took_effect=took_effect)


def _with_error_name(held: HeldRequest) -> str:
    from ackbench.experiments.trial.clients.librdkafka.library import error_text

    if not held.error_code:
        return str(held)
    return f"{held}: {error_text(held.error_code)}"


def _wait_until(
    context: FaultContext, condition: Callable[[HeldRequest | None], bool], timeout_s: float
) -> HeldRequest | None:
    """Return the held request once the condition holds; `None`: it does not in time."""

    def probe() -> HeldRequest | None:
        held = _held_request(context)
        return held if condition(held) else None

    try:
        return context.wait_for(
            probe, awaiting="a request that is held", timeout_s=timeout_s, every_s=_POLL_S
        )
    except WaitTimeout:
        return None


def _held_request(context: FaultContext) -> HeldRequest | None:
    counts = context.cluster.impairment_counts(context.name)
    return next((count.request for count in counts if count.request is not None), None)


def _is_released(held: HeldRequest | None) -> bool:
    return held is not None and held.released_ns is not None


def _is_answered(held: HeldRequest | None) -> bool:
    return held is not None and held.error_code is not None


def _effects(parameters: DelayedRequestParameters, _topology: Topology) -> FaultEffects:
    return FaultEffects(
        delays_transactional_request=True,
        clients_cut_off=True,
        heals_within_ms=parameters.patience_s * 1000,
    )


def _produce_effects(parameters: DelayedRequestParameters, topology: Topology) -> FaultEffects:
    """Return the effects: the batch may be appended when its client has given it up."""
    return _effects(parameters, topology).model_copy(
        update={"requests_held_ms": parameters.patience_s * 1000}
    )


_TRANSACTION_END: Final = "until the next transaction has a stored record"
KINDS: Final = (
    FaultKind(
        "end-txn-delayed",
        FAMILY,
        f"a relay holds an EndTxn request of producer 0 {_TRANSACTION_END}",
        DelayedRequestParameters,
        _injection("EndTxn"),
        _effects,
        network=NETWORK,
        supports_external_cluster=True,
    ),
    FaultKind(
        "add-partitions-delayed",
        FAMILY,
        f"a relay holds an AddPartitionsToTxn request of producer 0 {_TRANSACTION_END}",
        DelayedAddPartitionsParameters,
        _injection("AddPartitionsToTxn"),
        _effects,
        network=NETWORK,
        supports_external_cluster=True,
    ),
    FaultKind(
        "transactional-produce-delayed",
        FAMILY,
        f"a relay holds a Produce request of producer 0's transaction {_TRANSACTION_END}",
        DelayedRequestParameters,
        _injection("Produce"),
        _produce_effects,
        network=NETWORK,
        supports_external_cluster=True,
    ),
)
