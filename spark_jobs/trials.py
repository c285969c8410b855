"""What was found of each trial as one row, and the sums that must hold before any of it is written."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from experiments.ledger.measured import TRIALS, Fate, Measure, Phase
from experiments.ledger.schema import ACKED, REJECTED, UNKNOWN
from spark_jobs.ledgers import Ledger, UnfitLedger

Row = Mapping[str, Any]
"""A row of a table whose schema `experiments.ledger.measured` has."""
_LOG_SIDE: Final = (Fate.PHANTOM, Fate.CORRUPT)


@dataclass(frozen=True)
class Found:
    """What Spark found of all trials."""

    fates: pa.Table
    latency: pa.Table
    gaps: pa.Table
    throughput: pa.Table
    """trial_id, attempted_per_s, acked_per_s."""


def trials(ledgers: Sequence[Ledger], found: Found) -> pa.Table:
    """Return the table of trials.

    Raises:
        UnfitLedger: a sum does not hold; names the trial.
    """
    fates, gaps, rates, latencies = (_by_trial(table) for table in (found.fates, found.gaps, found.throughput, found.latency))
    rows = []
    for ledger in ledgers:
        trial_id = ledger.record.trial_id
        tally = tallied(fates[trial_id])
        _check(ledger, tally, latencies[trial_id])
        rates_of = rates[trial_id][0] if rates[trial_id] else {}
        rows.append({**rates_of, **_identity(ledger), **tally, "unavailable_ns": unavailable_ns(ledger, tally["acked_records"], gaps[trial_id])})
    return pa.Table.from_pylist(rows, schema=TRIALS)


def _by_trial(table: pa.Table) -> Mapping[str, list[Row]]:
    rows: defaultdict[str, list[Row]] = defaultdict(list)
    for row in table.to_pylist():
        rows[row["trial_id"]].append(row)
    return rows


def _identity(ledger: Ledger) -> dict[str, str]:
    record = ledger.record
    return {"trial_id": record.trial_id, "cell": json.dumps(record.cell, sort_keys=True), "status": record.status.value}


def tallied(fates: Sequence[Row]) -> dict[str, int]:
    """Return a trial's counts from its rows of `FATES`; the columns are those of `TRIALS`."""
    records = {fate: sum(row["records"] for row in fates if row["fate"] == fate) for fate in Fate}
    by_outcome = {outcome: sum(row["records"] for row in fates if row["outcome"] == outcome) for outcome in (ACKED, REJECTED, UNKNOWN)}
    present = [row for row in fates if row["outcome"] is not None and row["copies"] > 0]
    return {
        "attempted_records": sum(by_outcome.values()),
        **{f"{outcome}_records": count for outcome, count in by_outcome.items()},
        "lost_low_records": records[Fate.LOST],
        "lost_high_records": records[Fate.LOST] + records[Fate.UNKNOWN_ABSENT],
        "duplicate_copies": sum(row["copies"] - row["records"] for row in present),
        "duplicated_records": sum(row["duplicated_records"] for row in present),
        "log_records": sum(row["copies"] for row in fates),
    }


def unavailable_ns(ledger: Ledger, acked_records: int, gaps: Sequence[Row]) -> int | None:
    """Return the longest gap of all partitions; of a trial in which nothing was acknowledged, its whole length; without attempts, none."""
    phases = ledger.record.phases
    if ledger.attempts_rows and not acked_records:
        return phases.settled_ns - phases.load_begin_ns
    return max((gap["gap_ns"] for gap in gaps), default=None)


def _check(ledger: Ledger, tally: Mapping[str, int], latencies: Sequence[Row]) -> None:
    """Compare what was counted record by record with what the files' own footers and each other say.

    Raises:
        UnfitLedger: they differ.
    """
    trial_id = ledger.record.trial_id
    if tally["attempted_records"] != ledger.attempts_rows:
        raise UnfitLedger(f"trial {trial_id}: attempts.parquet has {ledger.attempts_rows} rows, and the fates add up to {tally['attempted_records']} records")
    if tally["log_records"] != ledger.log_rows:
        raise UnfitLedger(f"trial {trial_id}: log.parquet has {ledger.log_rows} rows, and copies, phantoms and corrupt ones add up to {tally['log_records']}")
    settled = sum(row["records"] for row in latencies if (row["measure"], row["phase"]) == (Measure.ACK, Phase.ALL))
    if tally["acked_records"] != settled:
        raise UnfitLedger(f"trial {trial_id}: attempts.parquet has {tally['acked_records']} acked records, of which {settled} tell when they settled")
