"""The tables `anomalies` and `attribution` of a trial: each anomaly with its cause.

The anomalous records are columns, one partition at a time. Each record is assigned the fault's
phase, its partition's leader and ISR, and the cause that the rules (`rules`, `docs/metrics.md`)
attribute. The attribution counts the anomalies by everything that they have in common: a few rows
per trial, and each of them can be expressed as one sentence.

A trial can have as many anomalies as records. So they are explained in parts, and of each part only
the counts and the first anomalies of each kind and cause are kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ackbench.experiments.ledger.result_tables import ANOMALIES, ATTRIBUTION
from ackbench.experiments.ledger.result_terms import ANOMALY_ROWS, Anomaly, Cause, Phase
from ackbench.experiments.ledger.trial_manifest import Phases
from ackbench.spark_jobs.causes.evidence import ISR, TrialEvidence
from ackbench.spark_jobs.causes.rules import (
    NULL,
    AnomalyColumns,
    AppendedRange,
    IntColumn,
    RuleMatch,
    interval_index,
    rule_matches,
)

_ANOMALIES: Final = pa.schema([field for field in ANOMALIES if field.name != "trial_id"])
_ATTRIBUTION: Final = pa.schema([field for field in ATTRIBUTION if field.name != "trial_id"])
_AGGREGATES: Final = {
    "records": ("kind", "count"),
    **{
        f"{of}_{what}": (what, "min" if of == "first" else "max")
        for what in ("offset", "at_ns")
        for of in ("first", "last")
    },
}
"""The aggregated columns of `ATTRIBUTION`: of which column, by which function."""
_MERGES: Final = {
    name: (name, "sum" if name == "records" else function)
    for name, (_, function) in _AGGREGATES.items()
}
"""The same of rows of `ATTRIBUTION`."""
_GROUP_KEY: Final = [name for name in _ATTRIBUTION.names if name not in _AGGREGATES]
_ORDER: Final = ("producer", "seq", "partition", "offset", "at_ns")
"""Which anomalies of a kind and cause are the first; null is last."""
_LAST: Final = int(np.iinfo(np.int64).max)
_PART_ROWS: Final = 1 << 18
"""How many anomalies are explained at a time, about."""
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

# The tables.


@dataclass(frozen=True)
class ExplainedAnomalies:
    """The anomalies of a trial, or of a part of it, with their causes."""

    first: pa.Table = field(default_factory=_ANOMALIES.empty_table)
    """Rows of `ANOMALIES`, without trial_id: the first `ANOMALY_ROWS` of each kind and cause."""
    counts: pa.Table = field(default_factory=_ATTRIBUTION.empty_table)
    """The rows of `ATTRIBUTION`, without trial_id: of all anomalies."""

    @classmethod
    def of(cls, anomalies: pa.Table) -> ExplainedAnomalies:
        """Return all rows of `ANOMALIES` of some records."""
        return cls(_first_rows(anomalies), attribution_table(anomalies))

    def __add__(self, other: ExplainedAnomalies) -> ExplainedAnomalies:
        """Return the anomalies of two parts of a trial; each anomaly is in one of them only."""
        return ExplainedAnomalies(
            _first_rows(pa.concat_tables([self.first, other.first])),
            _grouped(pa.concat_tables([self.counts, other.counts]), _MERGES),
        )

    def count(self, kind: Anomaly) -> int:
        """Return how many anomalies of a kind there are."""
        chosen = self.counts.filter(pc.field("kind") == kind.value)
        return int(pc.sum(chosen["records"]).as_py() or 0)


def explain_anomalies(
    records: pa.Table, ranges: pa.Table, evidence: TrialEvidence
) -> ExplainedAnomalies:
    """Return the causes of some of a trial's anomalies.

    Args:
        records: of the schema `ANOMALOUS_RECORDS`.
        ranges: of the schema `APPENDED_RANGES`, of the entire trial.
        evidence: of the trial.
    """
    found, part, rows = ExplainedAnomalies(), [], 0
    for explained in explained_parts(records, ranges, evidence):
        part.append(explained)
        rows += len(explained)
        if rows >= _PART_ROWS:
            found += ExplainedAnomalies.of(pa.concat_tables(part))
            part, rows = [], 0
    return found + ExplainedAnomalies.of(pa.concat_tables([_ANOMALIES.empty_table(), *part]))


def explained_parts(
    records: pa.Table, ranges: pa.Table, evidence: TrialEvidence
) -> Iterator[pa.Table]:
    """Yield the rows of `ANOMALIES` of all records, as `explain_anomalies` counts them."""
    by_partition: defaultdict[int, list[AppendedRange]] = defaultdict(list)
    for row in ranges.to_pylist():
        by_partition[row.pop("partition")].append(AppendedRange(**row))
    for partition, rows in _split_by_partition(records):
        yield _explain_partition(rows, evidence, partition, by_partition[partition])


def attribution_table(anomalies: pa.Table) -> pa.Table:
    """Return the rows of `ATTRIBUTION` of anomalies, without trial_id, in an order of their own.

    Args:
        anomalies: of the schema `ANOMALIES`, without trial_id.
    """
    return _grouped(anomalies, _AGGREGATES)


def _grouped(rows: pa.Table, aggregates: Mapping[str, tuple[str, str]]) -> pa.Table:
    """Return the rows of `ATTRIBUTION` that rows with its key add up to."""
    grouped = rows.group_by(_GROUP_KEY).aggregate(list(aggregates.values()))
    columns = {name: grouped[name] for name in _GROUP_KEY} | {
        name: grouped[f"{column}_{function}"] for name, (column, function) in aggregates.items()
    }
    counted = pa.table({name: columns[name] for name in _ATTRIBUTION.names}).cast(_ATTRIBUTION)
    return counted.sort_by([(name, "ascending") for name in _ATTRIBUTION.names]).combine_chunks()


def _first_rows(anomalies: pa.Table) -> pa.Table:
    """Return the first `ANOMALY_ROWS` rows of each kind and cause, in any order."""
    if len(anomalies) <= ANOMALY_ROWS:
        return anomalies
    kind = _places(anomalies["kind"], list(Anomaly))
    group = kind * len(Cause) + _places(anomalies["cause"], list(Cause))
    kept = np.ones(len(group), bool)
    for number in np.flatnonzero(np.bincount(group) > ANOMALY_ROWS):
        rows = np.flatnonzero(group == number)
        columns = [_int_column(anomalies, name).take(rows) for name in reversed(_ORDER)]
        order = np.lexsort([np.where(column == NULL, _LAST, column) for column in columns])
        kept[rows[order[ANOMALY_ROWS:]]] = False
    return anomalies.filter(pa.array(kept)).combine_chunks()


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


def _split_by_partition(records: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Yield the rows of each partition, some at a time; `NULL`: rows without a partition."""
    partition, records = _int_column(records, "partition"), records.combine_chunks()
    order = np.argsort(partition, kind="stable")
    begins = np.flatnonzero(np.diff(partition[order], prepend=NULL - 1)).tolist()
    for begin, end in pairwise([*begins, len(records)]):
        for rows in np.split(order[begin:end], range(_PART_ROWS, end - begin, _PART_ROWS)):
            yield int(partition[rows[0]]), records.take(rows)


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
        "phase": _take_names(list(Phase), _phases(rows.at_ns, evidence.manifest.phases)),
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
    return records.select(_ANOMALIES.names).cast(_ANOMALIES)


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
    names = ("producer", "seq", "offset", "at_ns", "sent_ns", "first_offset", "bumped_epoch")
    return AnomalyColumns(
        _places(records["kind"], list(Anomaly)), *(_int_column(records, name) for name in names)
    )


def _places(names: pa.ChunkedArray, of: Sequence[str]) -> IntColumn:
    """Return the index of each name; none is null or another one."""
    return np.asarray(pc.index_in(names, pa.array(of, pa.string())).to_numpy(), np.int64)


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
