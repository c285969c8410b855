"""From what was found to why: the tables `anomalies`, `attribution` and `outages` of a sweep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from experiments.ledger.measured_causes import Anomaly
from spark_jobs.anomalies import FOUND, REACHES, anomalies
from spark_jobs.attribution import attribution
from spark_jobs.evidence import evidence_of
from spark_jobs.finding import found, found_again, found_without_id, reaches
from spark_jobs.frames import named
from spark_jobs.ledgers import Ledger, UnfitLedger
from spark_jobs.looking import Looked
from spark_jobs.outages import outages

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


def explained(looked: Looked, marks: DataFrame, ledgers: Sequence[Ledger], trials: pa.Table, gaps: pa.Table) -> Mapping[str, pa.Table]:
    """Return three tables of `experiments.ledger.measured.RESULTS`.

    Args:
        looked: of `spark_jobs.looking.first_look`.
        marks: trial_id, trial_no, a row a trial.
        ledgers: what is known of each trial besides.
        trials: the table `trials`.
        gaps: the table `gaps`.

    Raises:
        UnfitLedger: not as many records were found as were counted; names the trial.
    """
    bad = anomalous(looked, ledgers)
    _check(trials, bad)
    evidence = evidence_of([ledger.record for ledger in ledgers], looked.frames.events, looked.frames.epochs)
    tied = anomalies(bad, _reaches(looked.frames.log, marks, ledgers, bad), evidence)
    return {"anomalies": tied, "attribution": attribution(tied), "outages": outages(gaps, evidence)}


def anomalous(looked: Looked, ledgers: Sequence[Ledger]) -> pa.Table:
    """Return what is wrong with records and reads, of the schema `spark_jobs.anomalies.FOUND`; where nothing is, no ledger is read for it.

    Args:
        looked: of `spark_jobs.looking.first_look`.
        ledgers: of the trials, by their numbers.
    """
    frames = looked.frames
    unnamed = found_without_id(frames.log.join(looked.nameless, "trial_no", "left_semi"))
    kinds = (found(frames.attempts, frames.log, looked.reordered, looked.wanted), unnamed, found_again(looked.redelivered))
    return named(reduce(DataFrame.unionByName, kinds), ledgers).select(FOUND.names)


def _check(trials: pa.Table, bad: pa.Table) -> None:
    """Compare the records that were found one by one with what was counted by blocks.

    Raises:
        UnfitLedger: they differ.
    """
    told = Counter({(row["trial_id"], row["kind"]): row["kind_count"] for row in bad.group_by(["trial_id", "kind"]).aggregate([("kind", "count")]).to_pylist()})
    for row in trials.to_pylist():
        unknown = row["lost_high_records"] - row["lost_low_records"]
        counts = {Anomaly.UNKNOWN_ABSENT: unknown, **{kind: row[name] or 0 for kind, name in _COUNTED.items()}}
        for kind, count in counts.items():
            if told[row["trial_id"], kind] != count:
                raise UnfitLedger(f"trial {row['trial_id']}: {count} times {kind} was counted, and {told[row['trial_id'], kind]} were found")


def _reaches(log: DataFrame, marks: DataFrame, ledgers: Sequence[Ledger], bad: pa.Table) -> pa.Table:
    """Look through the log for the reach of each leader epoch, of those trials alone in which a record was lost that has no offset."""
    nowhere = bad.filter((pc.field("kind") == Anomaly.LOST.value) & pc.field("offset").is_null())
    trials = sorted(set(nowhere["trial_id"].to_pylist()))
    if not trials:
        return REACHES.empty_table()
    numbers = marks.where(marks["trial_id"].isin(trials)).select("trial_no")
    return named(reaches(log.join(numbers, "trial_no", "left_semi")), ledgers).select(REACHES.names)
