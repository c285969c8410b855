"""The table of trials, and the sums that must hold before any result is written."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from experiments.ledger.result_tables import TRIALS, Fate, Measure, Phase, Side
from experiments.ledger.schema import ABORTED, ACKED, COMMITTED, REJECTED, UNKNOWN
from spark_jobs.io.frames import ConsumerEnding
from spark_jobs.io.ledgers import InvalidLedger, Ledger
from spark_jobs.measures.transactions import NOT_COMMITTED
from spark_jobs.workloads import copies, groups
from spark_jobs.workloads.groups import Groups

Row = Mapping[str, Any]
"""A row of a table of `experiments.ledger.result_tables`."""
Sums = Mapping[str, int]
"""By trial id; 0 where there is no row."""


@dataclass(frozen=True)
class TrialCounts:
    """What Spark counted, of all trials; every table has `trial_id`."""

    fates: pa.Table
    latency: pa.Table
    histogram: pa.Table
    timeline: pa.Table
    gaps: pa.Table
    throughput: pa.Table
    """attempted_per_s, acked_per_s."""
    reads: pa.Table
    """missed_records, read_records, reads; of `spark_jobs.measures.reads.count_reads`."""
    reordered: pa.Table
    """reordered_records; a trial without any has no row."""
    redelivered: pa.Table
    """redelivered_reads; a trial without any has no row."""
    groups: pa.Table
    """By group; of `spark_jobs.workloads.groups.group_counts`."""
    group_redeliveries: pa.Table
    """group, redelivered_reads; a group without any has no row."""
    processing_gaps: pa.Table
    """By group and partition; of `spark_jobs.workloads.groups.processing_gaps`."""
    copies: pa.Table
    """Of `experiments.ledger.workload_tables.COPIES`; a trial that copied nothing has no row."""
    hidden_copies: pa.Table
    """hidden_copies; a trial without any has no row."""
    torn_transactions: pa.Table
    """torn_transactions; a trial without any has no row."""


# Sums: what was counted record by record, in different ways, and the row counts of the footers.


class _CheckedSum(NamedTuple):
    """Two counts of the same quantity, and the message if they differ."""

    first: int
    second: int
    message: str


def check_sums(ledgers: Sequence[Ledger], counts: TrialCounts) -> None:
    """Compare counts of the same quantity.

    Raises:
        InvalidLedger: two counts differ; the message names the first such trial.
    """
    sums = _sums(counts)
    for ledger in ledgers:
        trial_id = ledger.record.trial_id
        for pair in _pairs(
            ledger, {name: by_trial.get(trial_id, 0) for name, by_trial in sums.items()}
        ):
            if pair.first != pair.second:
                raise InvalidLedger(
                    f"trial {trial_id}: " + pair.message.format(pair.first, pair.second)
                )


def _pairs(ledger: Ledger, sums: Sums) -> Iterator[_CheckedSum]:
    yield _CheckedSum(
        ledger.attempts_rows,
        sums["attempted"],
        "attempts.parquet has {} rows, but the fates add up to {} records",
    )
    yield _CheckedSum(
        ledger.log_rows,
        sums["logged"] + sums["hidden"],
        "log.parquet has {} rows, but copies, phantoms, corrupt and hidden rows add up to {}",
    )
    yield _CheckedSum(
        ledger.reads_rows,
        sums["reads"] + sums["processed"],
        "reads.parquet has {} rows, but the blocks of reads add up to {}",
    )
    yield _CheckedSum(
        sums["acked"],
        sums["ack_latencies"],
        "attempts.parquet has {} acked records, but settled_ns for {} of them",
    )
    yield _CheckedSum(
        sums["acked"],
        sums["acked_in_timeline"],
        "attempts.parquet has {} acked records, but the timeline adds up to {}",
    )
    yield _CheckedSum(
        sums["reads"],
        sums["read_in_timeline"],
        "reads.parquet has {} rows of the concurrent consumer, but the timeline adds up to {}",
    )
    yield _CheckedSum(
        sums["read"],
        sums["end_to_end_latencies"],
        "reads.parquet has {} records, but intended_ns for {} of them",
    )


def _sums(counts: TrialCounts) -> Mapping[str, Sums]:
    """Add up every table, by trial."""
    attempted = counts.fates.filter(pc.field("outcome").is_valid())
    all_phases = counts.histogram.filter(pc.field("phase") == Phase.ALL.value)
    return {
        "attempted": _sums_by_trial(attempted, "records"),
        "acked": _sums_by_trial(attempted.filter(pc.field("outcome") == ACKED), "records"),
        "logged": _sums_by_trial(counts.fates, "copies"),
        "hidden": _sums_by_trial(counts.hidden_copies, "hidden_copies"),
        "reads": _sums_by_trial(counts.reads, "reads"),
        "processed": _sums_by_trial(counts.groups, "reads"),
        "read": _sums_by_trial(counts.reads, "read_records"),
        "ack_latencies": _sums_by_trial(
            all_phases.filter(pc.field("measure") == Measure.ACK.value), "records"
        ),
        "end_to_end_latencies": _sums_by_trial(
            all_phases.filter(pc.field("measure") == Measure.END_TO_END.value), "records"
        ),
        "acked_in_timeline": _sums_by_trial(counts.timeline, "acked_records"),
        "read_in_timeline": _sums_by_trial(counts.timeline, "read_records"),
    }


def _sums_by_trial(table: pa.Table, column: str) -> Sums:
    summed = table.group_by("trial_id").aggregate([(column, "sum")])
    return Counter(
        dict(zip(summed["trial_id"].to_pylist(), summed[f"{column}_sum"].to_pylist(), strict=True))
    )


# The table.


def trial_table(
    ledgers: Sequence[Ledger],
    endings: Mapping[str, ConsumerEnding],
    counts: TrialCounts,
    transactions: pa.Table,
    trial_groups: Groups,
) -> pa.Table:
    """Return the table `TRIALS`.

    Args:
        ledgers: the trials, in the order of their numbers.
        endings: how the concurrent consumer ended, by trial id.
        counts: what Spark counted; `check_sums` has compared it.
        transactions: of all ledgers, with trial_id.
        trial_groups: of `spark_jobs.workloads.groups.groups_by_trial`.
    """
    fates, gaps = _by_trial(counts.fates), _by_trial(counts.gaps)
    single = _join_single_rows(
        counts.throughput,
        counts.reads,
        counts.reordered,
        counts.redelivered,
        counts.hidden_copies,
        counts.torn_transactions,
    )
    copied = {row["trial_id"]: row for row in counts.copies.to_pylist()}
    ended_transactions = _by_trial(transactions)
    by_group, redelivered = _by_trial(counts.groups), _by_trial(counts.group_redeliveries)
    rows = (
        {
            **_identity(ledger),
            **count_by_fate(fates[trial_id]),
            **_rates(single[trial_id]),
            **_order_and_reads(endings.get(trial_id), single[trial_id]),
            **groups.trial_columns(number, trial_groups, by_group[trial_id], redelivered[trial_id]),
            **copies.trial_columns(copied.get(trial_id)),
            **_transactions(ended_transactions[trial_id], single[trial_id]),
            "unavailable_ns": unavailable_ns(ledger, gaps[trial_id]),
            "consumer_unavailable_ns": max(
                (gap["gap_ns"] for gap in gaps[trial_id] if gap["side"] == Side.CONSUMER),
                default=None,
            ),
        }
        for number, ledger in enumerate(ledgers)
        for trial_id in (ledger.record.trial_id,)
    )
    return pa.Table.from_pylist(list(rows), schema=TRIALS)


def _by_trial(table: pa.Table) -> Mapping[str, list[Row]]:
    rows: defaultdict[str, list[Row]] = defaultdict(list)
    for row in table.to_pylist():
        rows[row["trial_id"]].append(row)
    return rows


def _join_single_rows(*tables: pa.Table) -> Mapping[str, Row]:
    """Join tables that have at most one row per trial."""
    joined: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for row in (row for table in tables for row in table.to_pylist()):
        joined[row["trial_id"]] |= row
    return joined


def _identity(ledger: Ledger) -> dict[str, str]:
    record = ledger.record
    return {
        "trial_id": record.trial_id,
        "cell": json.dumps(record.cell, sort_keys=True),
        "status": record.status.value,
    }


def _rates(row: Row) -> Row:
    return {name: row.get(name) for name in ("attempted_per_s", "acked_per_s")}


def _order_and_reads(ending: ConsumerEnding | None, row: Row) -> Row:
    """Return the columns of order and reads.

    A record counts as missed only if the concurrent consumer reached the end of the log.
    """
    return {
        "reordered_records": row.get("reordered_records", 0),
        "missed_records": row.get("missed_records", 0) if ending and ending.at_end else None,
        "redelivered_reads": row.get("redelivered_reads", 0) if row.get("reads") else None,
    }


def _transactions(transactions: Sequence[Row], row: Row) -> dict[str, int | None]:
    """Return how a trial's transactions ended; null if it had none."""
    outcomes = Counter(transaction["outcome"] for transaction in transactions)
    counts = {
        "committed": outcomes[COMMITTED],
        "aborted": sum(outcomes[name] for name in NOT_COMMITTED),
        "unknown": outcomes[UNKNOWN],
    }
    counts["torn"] = row.get("torn_transactions", 0)
    return {
        "hidden_copies": row.get("hidden_copies", 0),
        **{
            f"{name}_transactions": count if transactions else None
            for name, count in counts.items()
        },
    }


def count_by_fate(fates: Sequence[Row]) -> dict[str, int]:
    """Return a trial's counts from its rows of `FATES`; the columns are those of `TRIALS`."""
    records = {fate: _sum(fates, "records", fate=fate) for fate in Fate}
    by_outcome = {
        outcome: _sum(fates, "records", outcome=outcome)
        for outcome in (ACKED, REJECTED, UNKNOWN, ABORTED)
    }
    duplicated = [row for row in fates if row["outcome"] is not None and row["duplicated_records"]]
    return {
        "attempted_records": sum(by_outcome.values()),
        **{f"{outcome}_records": count for outcome, count in by_outcome.items()},
        "aborted_visible_records": records[Fate.ABORTED_VISIBLE],
        "lost_low_records": records[Fate.LOST],
        "lost_high_records": records[Fate.LOST] + records[Fate.UNKNOWN_ABSENT],
        "duplicate_copies": sum(row["copies"] - row["records"] for row in duplicated),
        "duplicated_records": sum(row["duplicated_records"] for row in duplicated),
        "log_records": _sum(fates, "copies"),
        "phantom_copies": _sum(fates, "copies", fate=Fate.PHANTOM),
        "corrupt_copies": _sum(fates, "copies", fate=Fate.CORRUPT),
    }


def _sum(rows: Iterable[Row], column: str, **values: str) -> int:
    return sum(
        row[column] for row in rows if all(row[name] == value for name, value in values.items())
    )


def unavailable_ns(ledger: Ledger, gaps: Sequence[Row]) -> int | None:
    """Return the producers' longest gap over all partitions.

    If nothing was acknowledged, the whole trial counts; without attempts, there is no gap (None).
    """
    phases = ledger.record.phases
    of_producers = [gap for gap in gaps if gap["side"] == Side.PRODUCER]
    if ledger.attempts_rows and not any(gap["records"] for gap in of_producers):
        return phases.settled_ns - phases.load_begin_ns
    return max((gap["gap_ns"] for gap in of_producers), default=None)
