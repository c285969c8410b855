"""Faults of a transactional producer: it is fenced, or it crashes and leaves its transaction open.

What each does: KIP-98 (epochs and fencing), KIP-360 (a fenced producer cannot go on), KIP-890
(hanging transactions), and `docs/faults.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pydantic import Field

from ackbench.experiments.ledger.trial_manifest import FaultEvidence
from ackbench.experiments.sweep.client_kinds import traits_of
from ackbench.experiments.trial.events.clock import now_ns
from ackbench.experiments.trial.faults.core import (
    EFFECTIVE,
    OBSERVED_PARTITION,
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
from ackbench.infra.errors import HarnessError, WaitTimeout

if TYPE_CHECKING:
    from ackbench.experiments.trial.clients.producer.process import ProducerProcess

FAMILY: Final = "transactions"


# The target: producer 0


def no_own_producer_reason(topology: Topology) -> str | None:
    """Return why faults that need ackbench's own producer are impossible; `None`: they are not."""
    if not traits_of(topology.client).attempts_survive:
        return (
            f"client is {topology.client}; "
            "allowed: librdkafka, whose producer can be replaced or observed"
        )
    return no_transactions_reason(topology)


def first_producer(context: FaultContext) -> ProducerProcess:
    """Return producer 0.

    Raises:
        FaultMissed: it is not one of ackbench's own producers, or has ended.
    """
    producer = context.clients.first_producer() if context.clients else None
    if producer is None or not producer.is_alive():
        raise FaultMissed("producer 0 was not running")
    return producer


def transactional_id_of(producer: ProducerProcess) -> str:
    """Return a producer's `transactional.id`."""
    return producer.job.settings["transactional.id"]


class FencedParameters(FaultParameters):
    """Another producer takes over the `transactional.id`."""

    patience_s: Seconds = Field(
        default=10.0,
        description="how long it may take until the producer gets the fencing error, seconds, or"
        " until the load ends if that is later",
    )

    def impossible_reason(self, topology: Topology) -> str | None:
        """Refuse workloads without transactions, and Java's client."""
        return no_own_producer_reason(topology)


class AbandonedParameters(FaultParameters):
    """A producer crashes in a transaction; no other takes over its `transactional.id`."""

    patience_s: Seconds = Field(
        default=60.0,
        description="how long the transaction may stay open before it counts as hanging, seconds",
    )

    def impossible_reason(self, topology: Topology) -> str | None:
        """Refuse workloads without transactions, and Java's client."""
        return no_own_producer_reason(topology)


# A fenced producer


def fence_producer(context: FaultContext, parameters: FencedParameters) -> FaultEvidence:
    """Take over producer 0's `transactional.id` with another producer.

    It took effect if producer 0 got a fencing error.
    """
    context.sleep_until(parameters.at_s)
    producer = first_producer(context)
    with context.injected():
        _take_over_transactional_id(producer)
        context.note(EFFECTIVE, f"another producer took over {transactional_id_of(producer)}")
        took_effect = context.wait_for_reaction(
            lambda: _fencing_error(context, producer),
            context.at_least_while_loaded(parameters.patience_s),
            "producer 0 got no fencing error",
        )
    return context.fault_evidence(took_effect=took_effect)


def _take_over_transactional_id(producer: ProducerProcess) -> None:
    """Initialize another producer with the same id, and close it.

    The coordinator aborts the open transaction and bumps the producer epoch.
    """
    from ackbench.experiments.trial.clients.librdkafka.client import Client
    from ackbench.experiments.trial.clients.librdkafka.library import PRODUCER
    from ackbench.experiments.trial.clients.producer.transactions import TransactionApi

    job = producer.job
    with Client(
        PRODUCER,
        {**job.settings, "bootstrap.servers": job.bootstrap_servers},
        log=job.folder / "fencing.log",
    ) as other:
        TransactionApi(other).init_transactions(job.warm_up_timeout_s)


def _fencing_error(context: FaultContext, producer: ProducerProcess) -> str | None:
    from ackbench.experiments.trial.clients.librdkafka.library import error_text
    from ackbench.experiments.trial.clients.producer.transactions import FENCED_CODES

    code = producer.fatal_error_code()
    if code not in FENCED_CODES:
        return None
    return f"producer 0 got {error_text(code)} {context.elapsed_s():.2f} s after the fault began"


# An abandoned transaction

_IN_TRANSACTION_TIMEOUT_S: Final = 10.0
"""A producer that follows its schedule is in a transaction most of the time."""


def abandon_transaction(context: FaultContext, parameters: AbandonedParameters) -> FaultEvidence:
    """Crash producer 0 in a transaction that contains records.

    It took effect if the last stable offset was stuck below the high watermark, and advanced later.
    """
    context.sleep_until(parameters.at_s)
    producer = first_producer(context)
    with context.injected():
        records = _crash_in_transaction(context, producer)
        context.add_evidence(
            f"producer 0 (process {producer.pid}) crashed (SIGKILL)"
            f" {context.load_elapsed_s():.2f} s into the load with {records} stored records in its"
            " open transaction"
        )
        stuck = wait_for_stuck_offset(context)
        took_effect = stuck is not None and _wait_for_advance(context, stuck, parameters.patience_s)
    return context.fault_evidence(took_effect=took_effect)


def _crash_in_transaction(context: FaultContext, producer: ProducerProcess) -> int:
    """Crash the producer for good in a transaction; return how many records that contains.

    It crashes as soon as its open transaction contains some, but not yet all, of its records.
    """
    try:
        records: int = context.wait_for(
            lambda: _stop_in_transaction(producer),
            awaiting="producer 0 to be in a transaction with stored records",
            timeout_s=context.at_least_while_loaded(_IN_TRANSACTION_TIMEOUT_S),
            every_s=0.002,
        )
    except WaitTimeout as error:
        raise FaultMissed(str(error)) from error
    context.note("fault_kill", "SIGKILL, producer 0")
    producer.abandon()
    context.note(EFFECTIVE, f"producer 0, process {producer.pid}, has ended")
    return records


def _stop_in_transaction(producer: ProducerProcess) -> int:
    """Stop the producer if its open transaction contains records; return how many.

    On a busy machine the transaction may end between the look and the signal. So it is looked at
    again when the producer can no longer end it; if it has, the producer continues.
    """
    if not producer.acked_in_open_transaction():
        return 0
    records = 0
    try:
        producer.pause()
        records = producer.acked_in_open_transaction()
    finally:
        if not records:
            producer.resume()
    return records


# The last stable offset
#
# `read_committed` consumers read up to it. While a transaction is open it does not advance beyond
# the transaction's first record. The leader reports it (ListOffsets, KIP-98).

STUCK_AFTER_S: Final = 1.5
"""The last stable offset counts as stuck if it has been below the high watermark and has not
advanced for this time; under load, transactions end several times within it."""
STUCK_TIMEOUT_S: Final = 30.0
_POLL_S: Final = 0.1


@dataclass(frozen=True)
class StuckOffset:
    """A last stable offset below the high watermark."""

    stable_offset: int
    high_watermark: int
    since_ns: int
    """When it was first observed there."""


def wait_for_stuck_offset(context: FaultContext) -> StuckOffset | None:
    """Return the observed partition's last stable offset once it is stuck; add it to the evidence.

    Returns `None` if it was never stuck within `STUCK_TIMEOUT_S`.
    """
    first: list[StuckOffset] = []

    def probe() -> StuckOffset | None:
        now = _offsets_now(context)
        if now is None:  # no broker answered in time, so nothing is known of the offset
            return None
        if now.stable_offset >= now.high_watermark:
            first.clear()
            return None
        if not first or first[0].stable_offset != now.stable_offset:
            first[:] = [now]
        return first[0] if now.since_ns - first[0].since_ns >= STUCK_AFTER_S * 1e9 else None

    try:
        stuck = context.wait_for(
            probe,
            awaiting="the last stable offset to be stuck",
            timeout_s=STUCK_TIMEOUT_S,
            every_s=_POLL_S,
        )
    except WaitTimeout:
        context.add_evidence(
            f"the last stable offset of partition {OBSERVED_PARTITION} was never stuck below the"
            f" high watermark for {STUCK_AFTER_S:g} s"
        )
        return None
    context.journal.note(
        "last_stable_offset_stuck",
        f"high watermark {stuck.high_watermark}",
        partition=OBSERVED_PARTITION,
        offset=stuck.stable_offset,
        at_ns=stuck.since_ns,
    )
    context.add_evidence(
        f"the last stable offset of partition {OBSERVED_PARTITION} was stuck at"
        f" {stuck.stable_offset}, below the high watermark {stuck.high_watermark}"
    )
    return stuck


def _wait_for_advance(context: FaultContext, stuck: StuckOffset, patience_s: float) -> bool:
    """Return whether the last stable offset advances in time; add it to the evidence."""
    return context.wait_for_reaction(
        lambda: advanced(context, stuck),
        patience_s,
        f"the transaction was open, and the last stable offset stayed at {stuck.stable_offset},",
    )


def advanced(context: FaultContext, stuck: StuckOffset) -> str | None:
    """Return for how long the last stable offset was stuck; `None`: it has not advanced yet."""
    now = _offsets_now(context)
    if now is None or now.stable_offset <= stuck.stable_offset:
        return None
    context.journal.note(
        "last_stable_offset_advanced",
        f"high watermark {now.high_watermark}",
        partition=OBSERVED_PARTITION,
        offset=now.stable_offset,
        at_ns=now.since_ns,
    )
    lasted_s = (now.since_ns - stuck.since_ns) / 1e9
    behind = now.high_watermark - stuck.stable_offset
    return (
        f"the last stable offset advanced after {lasted_s:.2f} s,"
        f" when it was {behind} offsets behind the high watermark"
    )


def _offsets_now(context: FaultContext) -> StuckOffset | None:
    """Return last stable offset and high watermark; `None`: no broker answered."""
    from ackbench.experiments.trial.clients.librdkafka import topics

    try:
        stable, high = (
            topics.end_offsets(
                context.cluster.admin_servers, context.topic, read_committed=committed
            )
            for committed in (True, False)
        )
    except HarnessError:
        return None
    return StuckOffset(stable[OBSERVED_PARTITION], high[OBSERVED_PARTITION], now_ns())


def _effects(
    parameters: FencedParameters | AbandonedParameters, _topology: Topology
) -> FaultEffects:
    return FaultEffects(
        ends_transactional_producer=True, heals_within_ms=parameters.patience_s * 1000
    )


KINDS: Final = (
    FaultKind(
        "producer-fenced",
        FAMILY,
        "another producer takes over producer 0's transactional.id during the load",
        FencedParameters,
        fence_producer,
        _effects,
        supports_external_cluster=True,
    ),
    FaultKind(
        "transaction-abandoned",
        FAMILY,
        "producer 0 crashes (SIGKILL) in a transaction, which stays open until"
        " transaction.timeout.ms",
        AbandonedParameters,
        abandon_transaction,
        _effects,
        supports_external_cluster=True,
    ),
)
