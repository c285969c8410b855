"""The tables `anomalies`, `attribution` and `outages` of a sweep.

Spark finds the anomalous records (`anomalous_records`). From there on they are Arrow columns, one
partition of a trial at a time. Each record is assigned the fault's phase, its partition's leader
and ISR, and the cause that the rules (`rules`, `docs/metrics.md`) attribute. The attribution counts
the anomalies by everything that they have in common: a few rows per trial, and each of them can be
expressed as one sentence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from experiments.ledger.record import Phases
from experiments.ledger.result_tables import ANOMALIES, ATTRIBUTION, Anomaly, Cause, Phase
from spark_jobs.causes.anomalous_records import (
    appended_ranges,
    find_anomalies,
    find_redelivered,
    find_without_id,
)
from spark_jobs.causes.evidence import ISR, TrialEvidence, evidence_by_trial
from spark_jobs.causes.outages import outages
from spark_jobs.causes.rules import (
    NULL,
    AnomalyColumns,
    AppendedRange,
    IntColumn,
    RuleMatch,
    interval_index,
    rule_matches,
)
from spark_jobs.causes.screening import Screening
from spark_jobs.io.frames import collect_with_trial_ids
from spark_jobs.io.ledgers import InvalidLedger, Ledger

ANOMALOUS_RECORDS: Final = pa.schema(
    [
        *(
            ANOMALIES.field(name)
            for name in ("trial_id", "kind", "producer", "seq", "partition", "offset", "at_ns")
        ),
        # When the client accepted the record; null: it never did, or there was no attempt.
        pa.field("sent_ns", pa.int64()),
        # DUPLICATED: the offset of the first copy, if it is in the same partition; else null.
        pa.field("first_offset", pa.int64()),
    ]
)
"""What Spark reports of each anomalous record."""

APPENDED_RANGES: Final = pa.schema(
    [
        pa.field("trial_id", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("producer", pa.int32()),
        pa.field("leader_epoch", pa.int32()),
        pa.field("first_seq", pa.int64()),
        pa.field("last_seq", pa.int64()),
    ]
)
"""`AppendedRange` with its trial and partition, of trials that lost a record without an offset."""

_AGGREGATES: Final = {
    "records": ("kind", "count"),
    **{
        f"{of}_{what}": (what, "min" if of == "first" else "max")
        for what in ("offset", "at_ns")
        for of in ("first", "last")
    },
}
"""The aggregated columns of `ATTRIBUTION`: of which column, by which function."""
_GROUP_KEY: Final = [name for name in ATTRIBUTION.names if name not in _AGGREGATES]
_ORDER: Final = [
    (name, "ascending")
    for name in ("trial_id", "partition", "kind", "producer", "seq", "offset", "at_ns")
]
_IN_LOG: Final = (
    Anomaly.DUPLICATED,
    Anomaly.REORDERED,
    Anomaly.REJECTED_PRESENT,
    Anomaly.ABORTED_VISIBLE,
    Anomaly.PHANTOM,
    Anomaly.CORRUPT,
    Anomaly.MISSED,
    Anomaly.REDELIVERED,
)
_COUNT_COLUMNS: Final = {
    Anomaly.LOST: "lost_low_records",
    Anomaly.DUPLICATED: "duplicate_copies",
    Anomaly.ABORTED_VISIBLE: "aborted_visible_records",
    Anomaly.PHANTOM: "phantom_copies",
    Anomaly.CORRUPT: "corrupt_copies",
    Anomaly.MISSED: "missed_records",
    Anomaly.REDELIVERED: "redelivered_reads",
}
"""The column of `TRIALS` that counts each kind.

REORDERED is missing: it has a row for each partition, and is counted once.
"""


# The tables.


@dataclass(frozen=True)
class ExplanationTables:
    """The tables that name the cause of each anomaly and each outage."""

    anomalies: pa.Table
    attribution: pa.Table
    outages: pa.Table


def explanation_tables(
    screening: Screening,
    trial_info: DataFrame,
    ledgers: Sequence[Ledger],
    trials: pa.Table,
    gaps: pa.Table,
) -> ExplanationTables:
    """Return the three tables, as `experiments.ledger.result_tables.RESULTS` defines them.

    Args:
        screening: of `spark_jobs.causes.screening.screen`.
        trial_info: trial_id, trial_no; one row per trial.
        ledgers: of the trials, in the order of their numbers.
        trials: the table `trials`.
        gaps: the table `gaps`.

    Raises:
        InvalidLedger: the number of records found differs from the number counted; the message
            names the trial.
    """
    records = anomalous_records(screening, ledgers)
    _check_counts(trials, records)
    evidence = evidence_by_trial(
        [ledger.record for ledger in ledgers], screening.frames.events, screening.frames.epochs
    )
    ranges = _appended_ranges(screening.frames.log, trial_info, ledgers, records)
    explained = anomalies(records, ranges, evidence)
    return ExplanationTables(explained, attribution(explained), outages(gaps, evidence))


def anomalous_records(screening: Screening, ledgers: Sequence[Ledger]) -> pa.Table:
    """Return the anomalous records and reads, of the schema `ANOMALOUS_RECORDS`.

    If the screening found nothing suspect, no ledger is read for it.

    Args:
        screening: of `spark_jobs.causes.screening.screen`.
        ledgers: of the trials, in the order of their numbers.
    """
    frames = screening.frames
    without_id = find_without_id(
        frames.log.join(screening.trials_with_rows_without_id, "trial_no", "left_semi")
    )
    kinds = (
        find_anomalies(frames.attempts, frames.log, screening.reordered, screening.suspect_records),
        without_id,
        find_redelivered(screening.redelivered),
    )
    return collect_with_trial_ids(reduce(DataFrame.unionByName, kinds), ledgers).select(
        ANOMALOUS_RECORDS.names
    )


def anomalies(
    records: pa.Table, ranges: pa.Table, evidence: Mapping[str, TrialEvidence]
) -> pa.Table:
    """Return the table `ANOMALIES`, in an order that depends on its rows alone.

    Args:
        records: of the schema `ANOMALOUS_RECORDS`.
        ranges: of the schema `APPENDED_RANGES`.
        evidence: by trial id, of every trial in `records`.
    """
    by_partition = _ranges_by_partition(ranges)
    explained = [
        _explain_partition(
            rows, evidence[trial_id], partition, by_partition.get((trial_id, partition), ())
        )
        for trial_id, partition, rows in _split_by_partition(
            records.select(ANOMALOUS_RECORDS.names).cast(ANOMALOUS_RECORDS).sort_by(_ORDER)
        )
    ]
    return pa.concat_tables([ANOMALIES.empty_table(), *explained]).combine_chunks()


def attribution(anomalies: pa.Table) -> pa.Table:
    """Return the table `ATTRIBUTION`, in an order that depends on its rows alone.

    Args:
        anomalies: of the schema `ANOMALIES`.
    """
    grouped = anomalies.group_by(_GROUP_KEY).aggregate(list(_AGGREGATES.values()))
    columns = {name: grouped[name] for name in _GROUP_KEY} | {
        name: grouped[f"{column}_{function}"] for name, (column, function) in _AGGREGATES.items()
    }
    counted = pa.table({name: columns[name] for name in ATTRIBUTION.names}).cast(ATTRIBUTION)
    return counted.sort_by([(name, "ascending") for name in ATTRIBUTION.names]).combine_chunks()


def _check_counts(trials: pa.Table, records: pa.Table) -> None:
    """Compare the records that were found one by one with the counts of the blocks.

    Raises:
        InvalidLedger: they differ.
    """
    found = Counter(
        {
            (row["trial_id"], row["kind"]): row["kind_count"]
            for row in records.group_by(["trial_id", "kind"])
            .aggregate([("kind", "count")])
            .to_pylist()
        }
    )
    for row in trials.to_pylist():
        unknown = row["lost_high_records"] - row["lost_low_records"]
        counts = {
            Anomaly.UNKNOWN_ABSENT: unknown,
            **{kind: row[name] or 0 for kind, name in _COUNT_COLUMNS.items()},
        }
        for kind, count in counts.items():
            if found[row["trial_id"], kind] != count:
                raise InvalidLedger(
                    f"trial {row['trial_id']}: {count} {kind} records or copies were counted, "
                    f"but {found[row['trial_id'], kind]} were found; the two must be equal"
                )


def _appended_ranges(
    log: DataFrame, trial_info: DataFrame, ledgers: Sequence[Ledger], records: pa.Table
) -> pa.Table:
    """Return what each leader epoch appended, of trials that lost a record without an offset.

    The log is read again for those trials only.
    """
    without_offset = records.filter(
        (pc.field("kind") == Anomaly.LOST.value) & pc.field("offset").is_null()
    )
    trials = sorted(set(without_offset["trial_id"].to_pylist()))
    if not trials:
        return APPENDED_RANGES.empty_table()
    numbers = trial_info.where(trial_info["trial_id"].isin(trials)).select("trial_no")
    ranges = appended_ranges(log.join(numbers, "trial_no", "left_semi"))
    return collect_with_trial_ids(ranges, ledgers).select(APPENDED_RANGES.names)


# One partition.


@dataclass(frozen=True)
class _Explanations:
    """The leader and the cause of each record of a partition, as columns."""

    leader: IntColumn
    leader_epoch: IntColumn
    cause: IntColumn
    """Index in `Cause`."""
    truncated_to: IntColumn
    truncated_by: IntColumn


def _ranges_by_partition(ranges: pa.Table) -> dict[tuple[str, int], list[AppendedRange]]:
    by_partition: dict[tuple[str, int], list[AppendedRange]] = {}
    for row in ranges.to_pylist():
        key = (row.pop("trial_id"), row.pop("partition"))
        by_partition.setdefault(key, []).append(AppendedRange(**row))
    return by_partition


def _split_by_partition(records: pa.Table) -> Iterator[tuple[str, int, pa.Table]]:
    """Yield the sorted rows of each partition of each trial; `NULL`: rows without a partition."""
    trials = records["trial_id"].combine_chunks().dictionary_encode()
    trial, partition = trials.indices.to_numpy(), _int_column(records, "partition")
    begins = np.flatnonzero(
        np.diff(trial, prepend=NULL) | np.diff(partition, prepend=NULL)
    ).tolist()
    for begin, end in pairwise([*begins, len(records)]):
        yield (
            trials.dictionary[int(trial[begin])].as_py(),
            int(partition[begin]),
            records.slice(begin, end - begin),
        )


def _explain_partition(
    records: pa.Table, evidence: TrialEvidence, partition: int, ranges: Sequence[AppendedRange]
) -> pa.Table:
    """Return one partition's rows of `ANOMALIES`."""
    rows = _anomaly_columns(records)
    explained = _apply_rules(
        _with_leaders(rows, evidence, partition), rule_matches(rows, evidence, partition, ranges)
    )
    isrs = list(evidence.partition_events(partition, ISR))
    columns = {
        "phase": _take_names(list(Phase), _phases(rows.at_ns, evidence.record.phases)),
        "leader": _nullable(explained.leader),
        "leader_epoch": _nullable(explained.leader_epoch),
        "isr": _take_names(
            [event.detail for event in isrs],
            interval_index([event.at_ns for event in isrs], rows.at_ns),
        ),
        "cause": _take_names(list(Cause), explained.cause),
        "truncated_to": _nullable(explained.truncated_to),
        "truncated_by": _nullable(explained.truncated_by),
    }
    for name, column in columns.items():
        records = records.append_column(name, column)
    return records.select(ANOMALIES.names).cast(ANOMALIES)


def _with_leaders(rows: AnomalyColumns, evidence: TrialEvidence, partition: int) -> _Explanations:
    """Return the leader of each record, and no cause yet.

    For a record in the log, the leader follows from its offset: its acknowledgement is later than
    its append, and its receipt can be much later. For all others it follows from the time.
    """
    leaderships, ranges = evidence.leaderships(partition), evidence.epoch_ranges(partition)
    led = interval_index([led.since_ns for led in leaderships], rows.at_ns)
    epoch = np.where(
        rows.has_kind(*_IN_LOG),
        interval_index([epoch.start_offset for epoch in ranges], rows.offset),
        NULL,
    )
    unknown = np.full(len(led), NULL)
    return _Explanations(
        np.where(
            epoch == NULL,
            _take([it.leader for it in leaderships], led),
            _take([it.leader for it in ranges], epoch),
        ),
        np.where(
            epoch == NULL,
            _take([it.leader_epoch for it in leaderships], led),
            _take([it.leader_epoch for it in ranges], epoch),
        ),
        np.full(len(led), list(Cause).index(Cause.UNATTRIBUTED)),
        unknown,
        unknown,
    )


def _apply_rules(explained: _Explanations, found: Iterator[RuleMatch]) -> _Explanations:
    """Give each record the cause of the first match that holds for it."""
    open_records = np.ones(len(explained.cause), bool)
    for match in found:
        takes = open_records & match.matches
        open_records &= ~takes
        led = match.leadership
        explained = _Explanations(
            np.where(takes, _number(led.leader), explained.leader) if led else explained.leader,
            np.where(takes, _number(led.leader_epoch), explained.leader_epoch)
            if led
            else explained.leader_epoch,
            np.where(takes, list(Cause).index(match.cause), explained.cause),
            np.where(takes, _number(match.truncated_to), explained.truncated_to),
            np.where(takes, _number(match.truncated_by), explained.truncated_by),
        )
    return explained


def _phases(at_ns: IntColumn, times: Phases) -> IntColumn:
    """Return the phase of each time as an index in `Phase`.

    A fault that was never ended lasts until the end of the trial.
    """
    if times.fault_begin_ns is None:
        return np.full(len(at_ns), NULL)
    ended = (
        np.zeros(len(at_ns), bool) if times.fault_end_ns is None else at_ns >= times.fault_end_ns
    )
    before, during, after = (
        list(Phase).index(phase) for phase in (Phase.BEFORE, Phase.DURING, Phase.AFTER)
    )
    return np.select(
        [at_ns == NULL, at_ns < times.fault_begin_ns, ended], [NULL, before, after], during
    )


def _anomaly_columns(records: pa.Table) -> AnomalyColumns:
    names = ("producer", "seq", "offset", "at_ns", "sent_ns", "first_offset")
    return AnomalyColumns(
        records["kind"].to_numpy(), *(_int_column(records, name) for name in names)
    )


def _int_column(table: pa.Table, name: str) -> IntColumn:
    return np.asarray(table[name].cast(pa.int64()).fill_null(NULL).to_numpy(), np.int64)


def _number(value: int | None) -> int:
    return NULL if value is None else value


def _take(values: Sequence[int | None], indices: IntColumn) -> IntColumn:
    """Return the value at each index; `NULL` for `NULL`."""
    return np.asarray([*map(_number, values), NULL], np.int64)[indices]


def _nullable(values: IntColumn) -> pa.Array:
    return pa.array(values, mask=values == NULL)


def _take_names(names: Sequence[str], indices: IntColumn) -> pa.Array:
    return pa.array([str(name) for name in names], pa.string()).take(_nullable(indices))
