"""A transactional producer that is fenced, and one that leaves its transaction open.

What each of these does: KIP-98 (epochs and fencing), KIP-360 (a producer that was fenced ends), KIP-890 (transactions that hang),
and `docs/faults.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pydantic import Field

from experiments.clients.producer.process import ProducerProcess
from experiments.events.clock import now_ns
from experiments.faults.core import FaultContext, FaultKind, FaultMissed, FaultParameters
from experiments.faults.core.context import OBSERVED_PARTITION
from experiments.faults.core.effects import FaultEffects, Topology
from experiments.ledger.record import FaultEvidence
from infra.errors import HarnessError, WaitTimeout

# ---------- The producer whose transactions are struck.


FAMILY: Final = "transactions"


def needs_transactions(shape: Topology) -> str | None:
    """Say that there are no transactions to strike, as the end of a sentence; `None`: there are."""
    return (
        None
        if shape.transactional
        else "workload.transaction_records is 0; allowed: producers that send in transactions"
    )


def first_producer(context: FaultContext) -> ProducerProcess:
    """Return producer 0.

    Raises:
        Missed: it is none of ours, or has ended.
    """
    producer = context.clients.first_producer() if context.clients else None
    if producer is None or not producer.lives():
        raise FaultMissed("there is no producer 0 that runs")
    return producer


def id_of(producer: ProducerProcess) -> str:
    """Return a producer's `transactional.id`."""
    return producer.job.settings["transactional.id"]


# ---------- The last stable offset: where `read_committed` consumers stand while a transaction is open, asked from the leader (ListOffsets, KIP-98).


STANDS_S: Final = 1.5
"""A last stable offset that has not moved for so long behind the high watermark stands still: transactions under load end several times in it."""
FOUND_WITHIN_S: Final = 30.0
_EVERY_S: Final = 0.1


@dataclass(frozen=True)
class StuckOffset:
    """Where it stood, and since when it was seen to."""

    stable_offset: int
    high_watermark: int
    since_ns: int


def stuck(context: FaultContext) -> StuckOffset | None:
    """Return where the observed partition's last stable offset stands, once it has for a while; `None`: it goes on."""
    seen: list[StuckOffset] = []

    def stands() -> StuckOffset | None:
        now = _look(context)
        if now is None:  # nobody answered in time, which says nothing of where it stands
            return None
        if now.stable_offset >= now.high_watermark:
            seen.clear()
            return None
        if not seen or seen[0].stable_offset != now.stable_offset:
            seen[:] = [now]
        return seen[0] if now.since_ns - seen[0].since_ns >= STANDS_S * 1e9 else None

    try:
        found = context.wait(
            stands,
            awaiting="the last stable offset to stand still",
            timeout_s=FOUND_WITHIN_S,
            every_s=_EVERY_S,
        )
    except WaitTimeout:
        context.saw(
            f"the last stable offset of partition {OBSERVED_PARTITION} never stood still for {STANDS_S:g} s behind the high watermark"
        )
        return None
    context.journal.note(
        "last_stable_offset_stuck",
        f"high watermark {found.high_watermark}",
        partition=OBSERVED_PARTITION,
        offset=found.stable_offset,
        at_ns=found.since_ns,
    )
    context.saw(
        f"the last stable offset of partition {OBSERVED_PARTITION} stood at {found.stable_offset}, behind the high watermark {found.high_watermark}"
    )
    return found


def freed(context: FaultContext, was: StuckOffset) -> str | None:
    """Say how long it stood, once it has moved on; `None`: not so far."""
    now = _look(context)
    if now is None or now.stable_offset <= was.stable_offset:
        return None
    context.journal.note(
        "last_stable_offset_advanced",
        f"high watermark {now.high_watermark}",
        partition=OBSERVED_PARTITION,
        offset=now.stable_offset,
        at_ns=now.since_ns,
    )
    lasted_s, behind = (now.since_ns - was.since_ns) / 1e9, now.high_watermark - was.stable_offset
    return f"the last stable offset moved on after {lasted_s:.2f} s, when the log had gone on for {behind} offsets behind it"


def _look(context: FaultContext) -> StuckOffset | None:
    from experiments.clients.librdkafka import topics

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


_OPEN_WITHIN_S: Final = 10.0
"""A producer that follows its schedule is in a transaction most of the time."""


class FencedParameters(FaultParameters):
    """Another producer takes the `transactional.id`."""

    patience_s: float = Field(
        default=10.0,
        gt=0,
        le=3600,
        description="how long the fenced producer may take to be told, seconds",
    )

    def impossible_reason(self, shape: Topology) -> str | None:
        """Only a transactional producer can be fenced so."""
        return needs_transactions(shape)


class AbandonedParameters(FaultParameters):
    """A producer dies in a transaction, and nobody takes its `transactional.id`."""

    patience_s: float = Field(
        default=60.0,
        gt=0,
        le=3600,
        description="how long the transaction may stay open before it is taken to hang on, seconds",
    )

    def impossible_reason(self, shape: Topology) -> str | None:
        """There must be a transaction to leave open."""
        return needs_transactions(shape)


def fence_producer(context: FaultContext, parameters: FencedParameters) -> FaultEvidence:
    """Take producer 0's `transactional.id` with another producer; it bit when the client said that it was fenced."""
    context.until(parameters.at_s)
    producer = first_producer(context)
    with context.striking():
        _take_the_id(producer)
        context.note("fault_effective", f"another producer was given {id_of(producer)}")
        told = context.noticed(lambda: _fenced(context, producer), parameters.patience_s)
    return FaultEvidence(kind="producer-fenced", took_effect=told, evidence=tuple(context.facts))


def abandon_transaction(context: FaultContext, parameters: AbandonedParameters) -> FaultEvidence:
    """Kill producer 0 in a transaction that holds records; it bit when the last stable offset stood still behind the high watermark."""
    context.until(parameters.at_s)
    producer = first_producer(context)
    with context.striking():
        records = _killed_in_a_transaction(context, producer)
        context.saw(
            f"producer 0 (process {producer.pid}) was killed {context.since_load_began_s():.2f} s into the load, {records} stored records in its transaction"
        )
        stands = stuck(context)
        took_effect = stands is not None and context.noticed(
            _released(context, stands), parameters.patience_s
        )
    return FaultEvidence(
        kind="transaction-abandoned", took_effect=took_effect, evidence=tuple(context.facts)
    )


def _take_the_id(producer: ProducerProcess) -> None:
    """Be another producer of the same id for a moment: its coordinator aborts what is open, and raises the epoch."""
    from experiments.clients.librdkafka.client import Client
    from experiments.clients.librdkafka.library import PRODUCER
    from experiments.clients.producer.transactions import TransactionApi

    job = producer.job
    with Client(
        PRODUCER,
        {**job.settings, "bootstrap.servers": job.bootstrap_servers},
        log=job.folder / "fencing.log",
    ) as other:
        TransactionApi(other).init(job.warm_up_timeout_s)


def _fenced(context: FaultContext, producer: ProducerProcess) -> str | None:
    from experiments.clients.librdkafka.library import error_text
    from experiments.clients.producer.transactions import FENCINGS

    code = producer.ended_by()
    return (
        f"producer 0 was told {error_text(code)} {context.since_begin_s():.2f} s after the fault began"
        if code in FENCINGS
        else None
    )


def _killed_in_a_transaction(context: FaultContext, producer: ProducerProcess) -> int:
    """Kill it for good as soon as its open transaction holds some stored records, and not yet all; return how many.

    Raises:
        Missed: it was in no transaction that held any.
    """
    try:
        context.wait(
            producer.stored_in_open_transaction,
            awaiting="producer 0 to be in a transaction with stored records",
            timeout_s=_OPEN_WITHIN_S,
            every_s=0.002,
        )
    except WaitTimeout as error:
        raise FaultMissed(str(error)) from error
    context.note("fault_kill", "SIGKILL, producer 0")
    producer.leave()
    context.note("fault_effective", f"producer 0, process {producer.pid}, is gone")
    return producer.stored_in_open_transaction()


def _released(context: FaultContext, stands: StuckOffset) -> Callable[[], str | None]:
    return lambda: freed(context, stands)


def _nature_of_fencing(kind: str, parameters: FencedParameters, _shape: Topology) -> FaultEffects:
    return FaultEffects(
        kind=kind, ends_transactional_producer=True, heals_within_ms=parameters.patience_s * 1000
    )


def _nature_of_abandoning(
    kind: str, parameters: AbandonedParameters, _shape: Topology
) -> FaultEffects:
    return FaultEffects(
        kind=kind, ends_transactional_producer=True, heals_within_ms=parameters.patience_s * 1000
    )


KINDS: Final = (
    FaultKind(
        "producer-fenced",
        FAMILY,
        "another producer takes producer 0's transactional.id in mid-load",
        FencedParameters,
        fence_producer,
        _nature_of_fencing,
        supports_external_cluster=True,
    ),
    FaultKind(
        "transaction-abandoned",
        FAMILY,
        "producer 0 is killed in a transaction, which stays open until transaction.timeout.ms",
        AbandonedParameters,
        abandon_transaction,
        _nature_of_abandoning,
        supports_external_cluster=True,
    ),
)
