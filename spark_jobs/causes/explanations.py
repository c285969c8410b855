"""From what was found to why: the tables `anomalies`, `attribution` and `outages` of a sweep."""

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
from spark_jobs.causes.anomalous_records import found, found_again, found_without_id, reaches
from spark_jobs.causes.causes import NONE, CauseClaim, Numbers, ReachTable, Rows, as_of, claims
from spark_jobs.causes.evidence import ISR, TrialEvidence, evidence_of
from spark_jobs.causes.outages import outages
from spark_jobs.causes.screening import Screening
from spark_jobs.io.frames import named
from spark_jobs.io.ledgers import InvalidLedger, Ledger

# ---------- Anomalies counted by all that they have in common: a few rows a trial, of which each can be said in a sentence.


_ATTRIBUTED: Final = {
    "records": ("kind", "count"),
    **{
        f"{of}_{what}": (what, "min" if of == "first" else "max")
        for what in ("offset", "at_ns")
        for of in ("first", "last")
    },
}
"""What is told of each group, and how it is made of which column."""
_SHARED: Final = [name for name in ATTRIBUTION.names if name not in _ATTRIBUTED]


def attribution(anomalies: pa.Table) -> pa.Table:
    """Return the table of attribution, in an order that depends on nothing but its rows.

    Args:
        anomalies: of `spark_jobs.causes.explanations`.
    """
    grouped = anomalies.group_by(_SHARED).aggregate(list(_ATTRIBUTED.values()))
    columns = {name: grouped[name] for name in _SHARED} | {
        name: grouped[f"{column}_{made}"] for name, (column, made) in _ATTRIBUTED.items()
    }
    counted = pa.table({name: columns[name] for name in ATTRIBUTION.names}).cast(ATTRIBUTION)
    return counted.sort_by([(name, "ascending") for name in ATTRIBUTION.names]).combine_chunks()


# ---------- Each anomalous record tied to the fault's phase, to its partition's leader and ISR, to the cutting of logs, and so to a cause.
#
# Spark finds the records; from here on they are Arrow columns, one partition of a trial at a time. The rules are in `docs/metrics.md`.


FOUND: Final = pa.schema(
    [
        *(
            ANOMALIES.field(name)
            for name in ("trial_id", "kind", "producer", "seq", "partition", "offset", "at_ns")
        ),
        pa.field(
            "sent_ns", pa.int64()
        ),  # when the client took it; null: it never did, or there was no attempt
        pa.field("first_offset", pa.int64()),  # DUPLICATED: where the first copy is; else null
    ]
)
"""What Spark tells of each anomalous record."""

REACHES: Final = pa.schema(
    [
        pa.field("trial_id", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("producer", pa.int32()),
        pa.field("leader_epoch", pa.int32()),
        pa.field("first_seq", pa.int64()),
        pa.field("last_seq", pa.int64()),
    ]
)
"""`Reach`, with whose it is; wanted of the trials in which a record was lost that has no offset."""

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


def anomalies(
    found: pa.Table, reaches: pa.Table, evidence: Mapping[str, TrialEvidence]
) -> pa.Table:
    """Return the table of anomalies, in an order that depends on nothing but its rows.

    Args:
        found: of the schema `FOUND`.
        reaches: of the schema `REACHES`.
        evidence: by trial id, of every trial in `found`.
    """
    reached = _reached(reaches)
    tied = [
        _tied(rows, evidence[trial_id], partition, reached.get((trial_id, partition), ()))
        for trial_id, partition, rows in _by_partition(
            found.select(FOUND.names).cast(FOUND).sort_by(_ORDER)
        )
    ]
    return pa.concat_tables([ANOMALIES.empty_table(), *tied]).combine_chunks()


def _reached(reaches: pa.Table) -> dict[tuple[str, int], list[ReachTable]]:
    of: dict[tuple[str, int], list[ReachTable]] = {}
    for row in reaches.to_pylist():
        of.setdefault((row.pop("trial_id"), row.pop("partition")), []).append(ReachTable(**row))
    return of


def _by_partition(found: pa.Table) -> Iterator[tuple[str, int, pa.Table]]:
    """Yield the sorted rows of each trial's partition; what has none is in partition `NONE`."""
    trials = found["trial_id"].combine_chunks().dictionary_encode()
    trial, partition = trials.indices.to_numpy(), _numbers(found, "partition")
    begins = np.flatnonzero(
        np.diff(trial, prepend=NONE) | np.diff(partition, prepend=NONE)
    ).tolist()
    for begin, end in pairwise([*begins, len(found)]):
        yield (
            trials.dictionary[int(trial[begin])].as_py(),
            int(partition[begin]),
            found.slice(begin, end - begin),
        )


def _tied(
    found: pa.Table, evidence: TrialEvidence, partition: int, reaches: Sequence[ReachTable]
) -> pa.Table:
    """Return one partition's anomalies with all that they can be tied to."""
    rows = _rows(found)
    scene = _caused(_scene(rows, evidence, partition), claims(rows, evidence, partition, reaches))
    isrs = list(evidence.of(partition, ISR))
    columns = {
        "phase": _named(list(Phase), _phases(rows.at_ns, evidence.record.phases)),
        "leader": _nullable(scene.leader),
        "leader_epoch": _nullable(scene.leader_epoch),
        "isr": _named(
            [event.detail for event in isrs], as_of([event.at_ns for event in isrs], rows.at_ns)
        ),
        "cause": _named(list(Cause), scene.cause),
        "truncated_to": _nullable(scene.truncated_to),
        "truncated_by": _nullable(scene.truncated_by),
    }
    for name, column in columns.items():
        found = found.append_column(name, column)
    return found.select(ANOMALIES.names).cast(ANOMALIES)


@dataclass(frozen=True)
class _FaultState:
    """Who led, and what follows; columns."""

    leader: Numbers
    leader_epoch: Numbers
    cause: Numbers
    """Its number in `Cause`."""
    truncated_to: Numbers
    truncated_by: Numbers


def _scene(rows: Rows, evidence: TrialEvidence, partition: int) -> _FaultState:
    """Return who led by the time, and of records in the log by their offset: an acknowledgement comes later than the append, and a reading much later."""
    leaderships, eras = evidence.leaderships(partition), evidence.eras(partition)
    led = as_of([led.since_ns for led in leaderships], rows.at_ns)
    era = np.where(
        rows.of_kind(*_IN_LOG), as_of([era.start_offset for era in eras], rows.offset), NONE
    )
    unknown = np.full(len(led), NONE)
    return _FaultState(
        np.where(
            era == NONE,
            _taken([it.leader for it in leaderships], led),
            _taken([it.leader for it in eras], era),
        ),
        np.where(
            era == NONE,
            _taken([it.leader_epoch for it in leaderships], led),
            _taken([it.leader_epoch for it in eras], era),
        ),
        np.full(len(led), list(Cause).index(Cause.UNATTRIBUTED)),
        unknown,
        unknown,
    )


def _caused(scene: _FaultState, claimed: Iterator[CauseClaim]) -> _FaultState:
    """Give each record the first claim that holds of it."""
    free = np.ones(len(scene.cause), bool)
    for claim in claimed:
        takes = free & claim.holds
        free &= ~takes
        scene = _FaultState(
            np.where(takes, _number(claim.by.leader), scene.leader) if claim.by else scene.leader,
            np.where(takes, _number(claim.by.leader_epoch), scene.leader_epoch)
            if claim.by
            else scene.leader_epoch,
            np.where(takes, list(Cause).index(claim.cause), scene.cause),
            np.where(takes, _number(claim.truncated_to), scene.truncated_to),
            np.where(takes, _number(claim.truncated_by), scene.truncated_by),
        )
    return scene


def _phases(at_ns: Numbers, marks: Phases) -> Numbers:
    """Return each moment's phase, as its number in `Phase`; a fault that nothing ended lasts to the end."""
    if marks.fault_begin_ns is None:
        return np.full(len(at_ns), NONE)
    ended = (
        np.zeros(len(at_ns), bool) if marks.fault_end_ns is None else at_ns >= marks.fault_end_ns
    )
    before, during, after = (
        list(Phase).index(phase) for phase in (Phase.BEFORE, Phase.DURING, Phase.AFTER)
    )
    return np.select(
        [at_ns == NONE, at_ns < marks.fault_begin_ns, ended], [NONE, before, after], during
    )


def _rows(found: pa.Table) -> Rows:
    names = ("producer", "seq", "offset", "at_ns", "sent_ns", "first_offset")
    return Rows(found["kind"].to_numpy(), *(_numbers(found, name) for name in names))


def _numbers(table: pa.Table, name: str) -> Numbers:
    return np.asarray(table[name].cast(pa.int64()).fill_null(NONE).to_numpy(), np.int64)


def _number(value: int | None) -> int:
    return NONE if value is None else value


def _taken(values: Sequence[int | None], numbers: Numbers) -> Numbers:
    """Return for each number the value that stands there; `NONE` for `NONE`."""
    return np.asarray([*map(_number, values), NONE], np.int64)[numbers]


def _nullable(values: Numbers) -> pa.Array:
    return pa.array(values, mask=values == NONE)


def _named(names: Sequence[str], numbers: Numbers) -> pa.Array:
    return pa.array([str(name) for name in names], pa.string()).take(_nullable(numbers))


_COUNTED: Final = {
    Anomaly.LOST: "lost_low_records",
    Anomaly.DUPLICATED: "duplicate_copies",
    Anomaly.ABORTED_VISIBLE: "aborted_visible_records",
    Anomaly.PHANTOM: "phantom_copies",
    Anomaly.CORRUPT: "corrupt_copies",
    Anomaly.MISSED: "missed_records",
    Anomaly.REDELIVERED: "redelivered_reads",
}
"""Which count of `TRIALS` each kind adds up to; REORDERED is told of each partition, and counted once."""


def explained(
    looked: Screening, marks: DataFrame, ledgers: Sequence[Ledger], trials: pa.Table, gaps: pa.Table
) -> Mapping[str, pa.Table]:
    """Return three tables of `experiments.ledger.result_tables.RESULTS`.

    Args:
        looked: of `spark_jobs.causes.screening.screen`.
        marks: trial_id, trial_no, a row a trial.
        ledgers: what is known of each trial besides.
        trials: the table `trials`.
        gaps: the table `gaps`.

    Raises:
        UnfitLedger: not as many records were found as were counted; names the trial.
    """
    bad = anomalous(looked, ledgers)
    _check(trials, bad)
    evidence = evidence_of(
        [ledger.record for ledger in ledgers], looked.frames.events, looked.frames.epochs
    )
    tied = anomalies(bad, _reaches(looked.frames.log, marks, ledgers, bad), evidence)
    return {"anomalies": tied, "attribution": attribution(tied), "outages": outages(gaps, evidence)}


def anomalous(looked: Screening, ledgers: Sequence[Ledger]) -> pa.Table:
    """Return what is wrong with records and reads, of the schema `spark_jobs.causes.explanations.FOUND`; where nothing is, no ledger is read for it.

    Args:
        looked: of `spark_jobs.causes.screening.screen`.
        ledgers: of the trials, by their numbers.
    """
    frames = looked.frames
    unnamed = found_without_id(frames.log.join(looked.nameless, "trial_no", "left_semi"))
    kinds = (
        found(frames.attempts, frames.log, looked.reordered, looked.wanted),
        unnamed,
        found_again(looked.redelivered),
    )
    return named(reduce(DataFrame.unionByName, kinds), ledgers).select(FOUND.names)


def _check(trials: pa.Table, bad: pa.Table) -> None:
    """Compare the records that were found one by one with what was counted by blocks.

    Raises:
        UnfitLedger: they differ.
    """
    told = Counter(
        {
            (row["trial_id"], row["kind"]): row["kind_count"]
            for row in bad.group_by(["trial_id", "kind"]).aggregate([("kind", "count")]).to_pylist()
        }
    )
    for row in trials.to_pylist():
        unknown = row["lost_high_records"] - row["lost_low_records"]
        counts = {
            Anomaly.UNKNOWN_ABSENT: unknown,
            **{kind: row[name] or 0 for kind, name in _COUNTED.items()},
        }
        for kind, count in counts.items():
            if told[row["trial_id"], kind] != count:
                raise InvalidLedger(
                    f"trial {row['trial_id']}: {count} times {kind} was counted, and {told[row['trial_id'], kind]} were found"
                )


def _reaches(
    log: DataFrame, marks: DataFrame, ledgers: Sequence[Ledger], bad: pa.Table
) -> pa.Table:
    """Look through the log for the reach of each leader epoch, of those trials alone in which a record was lost that has no offset."""
    nowhere = bad.filter((pc.field("kind") == Anomaly.LOST.value) & pc.field("offset").is_null())
    trials = sorted(set(nowhere["trial_id"].to_pylist()))
    if not trials:
        return REACHES.empty_table()
    numbers = marks.where(marks["trial_id"].isin(trials)).select("trial_no")
    return named(reaches(log.join(numbers, "trial_no", "left_semi")), ledgers).select(REACHES.names)
