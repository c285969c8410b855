"""What was found of each trial as one row, and the sums that must hold before any of it is written."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from experiments.ledger.result_tables import TRIALS, Fate, Measure, Phase, Side
from experiments.ledger.schema import ABORTED, ACKED, COMMITTED, REJECTED, UNKNOWN
from spark_jobs.io.frames import ConsumerEnding
from spark_jobs.io.ledgers import InvalidLedger, Ledger
from spark_jobs.measures.counts import TrialCounts
from spark_jobs.measures.transactions import NOT_COMMITTED
from spark_jobs.workloads import copies as copied
from spark_jobs.workloads import groups as group
from spark_jobs.workloads.groups import Groups

# ---------- The sums that must hold before anything is written: what was counted record by record, by different ways, and what the files' own footers say.


Sums = Mapping[str, int]
"""By trial; 0 where there is no row."""


class _CheckedSum(NamedTuple):
    """Two counts of the same, and the sentence for when they differ."""

    one: int
    other: int
    told: str


def check_sums(ledgers: Sequence[Ledger], found: TrialCounts) -> None:
    """Compare.

    Raises:
        UnfitLedger: a sum does not hold; names the first such trial.
    """
    sums = _sums(found)
    for ledger in ledgers:
        for pair in _pairs(
            ledger, {name: of.get(ledger.record.trial_id, 0) for name, of in sums.items()}
        ):
            if pair.one != pair.other:
                raise InvalidLedger(
                    f"trial {ledger.record.trial_id}: " + pair.told.format(pair.one, pair.other)
                )


def _pairs(ledger: Ledger, sums: Sums) -> Iterator[_CheckedSum]:
    yield _CheckedSum(
        ledger.attempts_rows,
        sums["attempted"],
        "attempts.parquet has {} rows, and the fates add up to {} records",
    )
    yield _CheckedSum(
        ledger.log_rows,
        sums["logged"] + sums["hidden"],
        "log.parquet has {} rows, and copies, phantoms, corrupt and hidden ones add up to {}",
    )
    yield _CheckedSum(
        ledger.reads_rows,
        sums["reads"] + sums["processed"],
        "reads.parquet has {} rows, and the blocks of what was read add up to {}",
    )
    yield _CheckedSum(
        sums["acked"],
        sums["ack_latencies"],
        "attempts.parquet has {} acked records, of which {} tell when they settled",
    )
    yield _CheckedSum(
        sums["acked"],
        sums["acked_in_timeline"],
        "attempts.parquet has {} acked records, and the timeline adds up to {}",
    )
    yield _CheckedSum(
        sums["reads"],
        sums["read_in_timeline"],
        "reads.parquet has {} rows of the reader along, and the timeline adds up to {}",
    )
    yield _CheckedSum(
        sums["read"],
        sums["end_to_end_latencies"],
        "reads.parquet has {} records, of which {} tell when they were intended",
    )


def _sums(found: TrialCounts) -> Mapping[str, Sums]:
    """Count everything once more, by trial."""
    attempted = found.fates.filter(pc.field("outcome").is_valid())
    everything = found.histogram.filter(pc.field("phase") == Phase.ALL.value)
    return {
        "attempted": _sums_by_trial(attempted, "records"),
        "acked": _sums_by_trial(attempted.filter(pc.field("outcome") == ACKED), "records"),
        "logged": _sums_by_trial(found.fates, "copies"),
        "hidden": _sums_by_trial(found.hidden, "hidden_copies"),
        "reads": _sums_by_trial(found.reading, "reads"),
        "processed": _sums_by_trial(found.group, "reads"),
        "read": _sums_by_trial(found.reading, "read_records"),
        "ack_latencies": _sums_by_trial(
            everything.filter(pc.field("measure") == Measure.ACK.value), "records"
        ),
        "end_to_end_latencies": _sums_by_trial(
            everything.filter(pc.field("measure") == Measure.END_TO_END.value), "records"
        ),
        "acked_in_timeline": _sums_by_trial(found.timeline, "acked_records"),
        "read_in_timeline": _sums_by_trial(found.timeline, "read_records"),
    }


def _sums_by_trial(table: pa.Table, column: str) -> Sums:
    summed = table.group_by("trial_id").aggregate([(column, "sum")])
    return Counter(
        dict(zip(summed["trial_id"].to_pylist(), summed[f"{column}_sum"].to_pylist(), strict=True))
    )


Row = Mapping[str, Any]
"""A row of a table whose schema `experiments.ledger.result_tables` has."""


def trial_table(
    ledgers: Sequence[Ledger],
    ended: Mapping[str, ConsumerEnding],
    found: TrialCounts,
    transactions: pa.Table,
    groups: Groups,
) -> pa.Table:
    """Return the table of trials.

    Args:
        ledgers: what is known of each trial.
        ended: how the reader along ended, of each trial that tells.
        found: what Spark found.
        transactions: all ledgers', with trial_id.
        groups: of `spark_jobs.workloads.groups.groups_by_trial`.

    Raises:
        UnfitLedger: a sum does not hold; names the trial.
    """
    check_sums(ledgers, found)
    fates, gaps = _by_trial(found.fates), _by_trial(found.gaps)
    single = _one_row(
        found.throughput,
        found.reading,
        found.reordered,
        found.redelivered,
        found.hidden,
        found.torn,
    )
    copies = {row["trial_id"]: row for row in found.copies.to_pylist()}
    endings, counted, again = (
        _by_trial(transactions),
        _by_trial(found.group),
        _by_trial(found.processed_again),
    )
    rows = (
        {
            **_identity(ledger),
            **count_by_fate(fates[trial_id]),
            **_rates(single[trial_id]),
            **_order_and_reading(ended.get(trial_id), single[trial_id]),
            **group.trial_columns(number, groups, counted[trial_id], again[trial_id]),
            **copied.trial_columns(copies.get(trial_id)),
            **_transactions(endings[trial_id], single[trial_id]),
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


def _one_row(*tables: pa.Table) -> Mapping[str, Row]:
    """Join tables that have at most one row a trial."""
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


def _order_and_reading(ending: ConsumerEnding | None, row: Row) -> Row:
    """Return what the log's order and the consumer along tell; a record is only missed where the consumer came to the end of the log."""
    return {
        "reordered_records": row.get("reordered_records", 0),
        "missed_records": row.get("missed_records", 0) if ending and ending.at_end else None,
        "redelivered_reads": row.get("redelivered_reads", 0) if row.get("reads") else None,
    }


def _transactions(transactions: Sequence[Row], row: Row) -> dict[str, int | None]:
    """Return how a trial's transactions ended; null where it had none."""
    ended = Counter(transaction["outcome"] for transaction in transactions)
    counts = {
        "committed": ended[COMMITTED],
        "aborted": sum(ended[name] for name in NOT_COMMITTED),
        "unknown": ended[UNKNOWN],
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
    repeated = [row for row in fates if row["outcome"] is not None and row["duplicated_records"]]
    return {
        "attempted_records": sum(by_outcome.values()),
        **{f"{outcome}_records": count for outcome, count in by_outcome.items()},
        "aborted_visible_records": records[Fate.ABORTED_VISIBLE],
        "lost_low_records": records[Fate.LOST],
        "lost_high_records": records[Fate.LOST] + records[Fate.UNKNOWN_ABSENT],
        "duplicate_copies": sum(row["copies"] - row["records"] for row in repeated),
        "duplicated_records": sum(row["duplicated_records"] for row in repeated),
        "log_records": _sum(fates, "copies"),
        "phantom_copies": _sum(fates, "copies", fate=Fate.PHANTOM),
        "corrupt_copies": _sum(fates, "copies", fate=Fate.CORRUPT),
    }


def _sum(rows: Iterable[Row], column: str, **of: str) -> int:
    return sum(row[column] for row in rows if all(row[name] == value for name, value in of.items()))


def unavailable_ns(ledger: Ledger, gaps: Sequence[Row]) -> int | None:
    """Return the producers' longest gap of all partitions; of a trial in which nothing was acknowledged, its whole length; without attempts, none."""
    phases, of_producers = (
        ledger.record.phases,
        [gap for gap in gaps if gap["side"] == Side.PRODUCER],
    )
    if ledger.attempts_rows and not any(gap["records"] for gap in of_producers):
        return phases.settled_ns - phases.load_begin_ns
    return max((gap["gap_ns"] for gap in of_producers), default=None)
