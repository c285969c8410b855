"""The identity of a trial in its row, and the sums that must hold before a result is written."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from ackbench.experiments.ledger.digests import InvalidLedger
from ackbench.experiments.ledger.result_terms import Anomaly, LatencyKind
from ackbench.experiments.ledger.terms import ACKED
from ackbench.experiments.ledger.trial_manifest import TrialManifest
from ackbench.spark_jobs.measures.latency import LatencyMeasure
from ackbench.spark_jobs.measures.measure import MeasuredTrial
from ackbench.spark_jobs.measures.reads import ReadCounts
from ackbench.spark_jobs.measures.throughput import Throughput

_COUNTED_BY: Final = {
    Anomaly.LOST: "lost_low_records",
    Anomaly.DUPLICATED: "duplicates",
    Anomaly.ABORTED_VISIBLE: "aborted_visible_records",
    Anomaly.PHANTOM: "phantom_copies",
    Anomaly.CORRUPT: "corrupt_copies",
    Anomaly.MISSED: "missed_records",
    Anomaly.REDELIVERED: "redelivered_reads",
    Anomaly.READ_LOST: "lost_reads",
    Anomaly.READ_CONFLICT: "conflicting_reads",
    Anomaly.VALUE_LOST: "lost_values",
}
"""The column of `TRIALS` that counts each kind of anomaly.

REORDERED is missing: it has a row for each partition, and is counted once.
"""


def identity_columns(manifest: TrialManifest) -> dict[str, str]:
    """Return the first columns of a trial's row: its id, its cell and its status."""
    return {
        "trial_id": manifest.trial_id,
        "cell": json.dumps(manifest.cell, sort_keys=True),
        "status": manifest.status.value,
    }


class _CheckedSum(NamedTuple):
    """Two counts of the same quantity, and the message if they differ."""

    first: int
    second: int
    message: str


def check_sums(
    trial: MeasuredTrial, row: Mapping[str, Any], anomalies: Callable[[Anomaly], int]
) -> None:
    """Compare counts of the same quantity.

    Args:
        trial: with the row counts of the files' footers, and what was measured.
        row: its row of `TRIALS`.
        anomalies: how many anomalies of a kind were found, one by one.

    Raises:
        InvalidLedger: two counts differ; the message names the trial.
    """
    for first, second, message in (*_record_sums(trial, row), *_anomaly_sums(row, anomalies)):
        if first != second:
            raise InvalidLedger(f"trial {trial.manifest.trial_id}: {message.format(first, second)}")


def _record_sums(trial: MeasuredTrial, row: Mapping[str, Any]) -> Iterator[_CheckedSum]:
    ledger, reads = trial.ledger, trial[ReadCounts]
    latency, timeline = trial[LatencyMeasure], trial[Throughput].timeline
    yield _CheckedSum(
        ledger.attempts_rows,
        row["attempted_records"],
        "attempts.parquet has {} rows, but the fates add up to {} records",
    )
    yield _CheckedSum(
        ledger.log_rows,
        row["log_records"] + row["hidden_copies"],
        "log.parquet has {} rows, but copies, phantoms, corrupt and hidden rows add up to {}",
    )
    yield _CheckedSum(
        row["hidden_copies"],
        row["hidden_copies"] if ledger.transactions_rows else 0,
        "log.parquet has {} hidden rows, but transactions.parquet has no rows: only a transaction "
        "hides records",
    )
    yield _CheckedSum(
        ledger.reads_rows,
        reads.reads + reads.member_reads,
        "reads.parquet has {} rows, but the reads of all consumers add up to {}",
    )
    yield _CheckedSum(
        row[f"{ACKED}_records"],
        latency.records(LatencyKind.ACK),
        "attempts.parquet has {} acked records, but settled_ns for {} of them",
    )
    yield _CheckedSum(
        row[f"{ACKED}_records"],
        int(timeline["acked_records"].records.sum()),
        "attempts.parquet has {} acked records, but the timeline adds up to {}",
    )
    yield _CheckedSum(
        reads.reads,
        int(timeline["read_records"].records.sum()),
        "reads.parquet has {} rows of the concurrent consumer, but the timeline adds up to {}",
    )
    yield _CheckedSum(
        reads.read_records,
        latency.records(LatencyKind.END_TO_END),
        "reads.parquet has {} records, but intended_ns for {} of them",
    )


def _anomaly_sums(
    row: Mapping[str, Any], anomalies: Callable[[Anomaly], int]
) -> Iterator[_CheckedSum]:
    counts = {kind: row[column] or 0 for kind, column in _COUNTED_BY.items()}
    counts[Anomaly.UNKNOWN_ABSENT] = row["lost_high_records"] - row["lost_low_records"]
    for kind, count in counts.items():
        yield _CheckedSum(
            count,
            anomalies(kind),
            f"{{}} {kind} records or copies were counted, but {{}} were found;"
            " the two must be equal",
        )
