"""From the ledger to the cause: the job explains each lost and duplicated record of a crash."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from support.measured import with_measures

from ackbench.experiments.ledger.trial_manifest import FaultEvidence, Phases
from ackbench.spark_jobs.causes.anomalies import AnomalyMeasure
from ackbench.spark_jobs.causes.explanations import ExplainedAnomalies
from ackbench.spark_jobs.io.ledgers import InvalidLedger
from ackbench.spark_jobs.pipeline import measure_unit, trial_tables
from ackbench.spark_jobs.planted import (
    PlantedAttempt,
    PlantedEpoch,
    PlantedEvent,
    PlantedLogRow,
    PlantedRead,
    PlantedTrial,
)

Measure = Callable[..., dict[str, pa.Table]]
MS = 1_000_000
PHASES = Phases(
    load_begin_ns=0,
    load_end_ns=900 * MS,
    fault_begin_ns=100 * MS,
    fault_end_ns=500 * MS,
    settled_ns=900 * MS,
    healthy_ns=900 * MS,
)


def acked(seq: int, at_ms: int, offset: int | None, producer: int = 0) -> PlantedAttempt:
    """Return an acknowledged attempt that was sent one millisecond earlier."""
    return PlantedAttempt(
        producer,
        seq,
        intended_ns=(at_ms - 1) * MS,
        sent_ns=(at_ms - 1) * MS,
        settled_ns=at_ms * MS,
        offset=offset,
    )


CRASH = PlantedTrial(
    "000-crash",
    attempts=(
        acked(0, 50, 0),
        acked(1, 110, 2),  # only on the old leader
        acked(2, 310, 2)._replace(sent_ns=125 * MS),  # due while no leader was there
        acked(3, 320, 3),  # resent: its first request timed out
        acked(0, 60, None, producer=1),
        acked(1, 120, None, producer=1),  # acknowledged without offset
        acked(2, 330, None, producer=1),
    ),
    log=(
        PlantedLogRow(0, 0, 0, leader_epoch=5),
        PlantedLogRow(1, 0, 1, leader_epoch=5),
        PlantedLogRow(0, 2, 2, leader_epoch=6),
        PlantedLogRow(0, 3, 3, leader_epoch=6),
        PlantedLogRow(0, 3, 4, leader_epoch=6),
        PlantedLogRow(1, 2, 5, leader_epoch=6),
    ),
    reads=(
        PlantedRead(0, 0, 0, received_ns=70 * MS),
        PlantedRead(0, 2, 2, received_ns=340 * MS),
        PlantedRead(0, 2, 2, received_ns=350 * MS),
    ),
    phases=PHASES,
    fault=FaultEvidence(kind="leader-crash-behind", targets=(2,), took_effect=True),
    events=(
        PlantedEvent(
            0,
            "became_leader",
            node=2,
            partition=0,
            leader_epoch=5,
            offset=0,
            source="broker",
            resolution_ns=MS,
        ),
        PlantedEvent(0, "isr", partition=0, source="metadata", detail="1,2"),
        PlantedEvent(200 * MS, "fenced", node=2, source="broker", resolution_ns=MS),
        PlantedEvent(
            210 * MS,
            "became_leader",
            node=1,
            partition=0,
            leader_epoch=6,
            offset=2,
            source="broker",
            resolution_ns=MS,
        ),
        PlantedEvent(
            319 * MS,
            "timed_out",
            node=1,
            source="client",
            resolution_ns=MS,
            detail="producer 0: Timed out 1 in-flight",
        ),
        PlantedEvent(
            600 * MS, "truncated", node=2, partition=0, offset=2, source="broker", resolution_ns=MS
        ),
        PlantedEvent(950 * MS, "consumer_end", detail='{"records":2,"at_end":true,"where":""}'),
    ),
    epochs=(
        PlantedEpoch(1, 0, 5, 0),
        PlantedEpoch(1, 0, 6, 2),
        PlantedEpoch(2, 0, 5, 0),
        PlantedEpoch(2, 0, 6, 2),
    ),
)
QUIET = PlantedTrial("001-quiet", [PlantedAttempt(0, 0)], [PlantedLogRow(0, 0, 0)])


def test_the_job_explains_each_anomalous_record(measured: Measure) -> None:
    """A second trial without anomalies has no rows in the three tables."""
    tables = measured(CRASH, QUIET)
    named = (
        "trial_id",
        "kind",
        "producer",
        "seq",
        "offset",
        "phase",
        "leader",
        "leader_epoch",
        "isr",
        "cause",
        "truncated_to",
        "truncated_by",
    )
    rows = tables["anomalies"].sort_by([(name, "ascending") for name in named[1:5]]).to_pylist()
    assert [tuple(row[name] for name in named) for row in rows] == [
        ("000-crash", "DUPLICATED", 0, 3, 4, "during", 1, 6, "1,2", "RESENT", None, None),
        ("000-crash", "LOST", 0, 1, 2, "during", 2, 5, "1,2", "TRUNCATED", 2, 2),
        ("000-crash", "LOST", 1, 1, None, "during", 2, 5, "1,2", "NEVER_APPENDED", None, None),
        ("000-crash", "MISSED", 0, 3, 3, "during", 1, 6, "1,2", "UNATTRIBUTED", None, None),
        ("000-crash", "MISSED", 1, 0, 1, "before", 2, 5, "1,2", "UNATTRIBUTED", None, None),
        ("000-crash", "MISSED", 1, 2, 5, "during", 1, 6, "1,2", "UNATTRIBUTED", None, None),
        ("000-crash", "REDELIVERED", 0, 2, 2, "during", 1, 6, "1,2", "UNATTRIBUTED", None, None),
    ]
    assert sum(tables["attribution"]["records"].to_pylist()) == 7
    marks = {
        (row["side"], row["step"]): row["at_ns"]
        for row in tables["outages"].to_pylist()
        if row["side"] == "producer"
    }
    assert {mark: at // MS for (_, mark), at in marks.items() if at is not None} == {
        "last_before": 125,
        "detected": 200,
        "elected": 210,
        "first_after": 310,
    }


@pytest.mark.parametrize(
    "kind",
    [
        "LOST",
        "UNKNOWN_ABSENT",
        "ABORTED_VISIBLE",
        "DUPLICATED",
        "PHANTOM",
        "CORRUPT",
        "MISSED",
        "REDELIVERED",
    ],
)
def test_counts_that_differ_from_the_records_found_are_an_error(kind: str) -> None:
    """The error names the trial; an incomplete table is never written."""
    measures = measure_unit(QUIET.rows())
    uncounted = ExplainedAnomalies(
        counts=pa.Table.from_pylist(
            [{"kind": kind, "records": 1}], measures[AnomalyMeasure].found.counts.schema
        )
    )
    message = (
        f"trial 001-quiet: 0 {kind} records or copies were counted, but 1 were found; "
        "the two must be equal"
    )
    with pytest.raises(InvalidLedger, match=rf"^{message}$"):
        trial_tables(with_measures(measures, AnomalyMeasure(uncounted)))
