"""Counts of the same quantity must be equal before any result is written."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from support.measured import with_measures

from ackbench.experiments.ledger.result_terms import LatencyKind, Phase
from ackbench.spark_jobs.io.ledgers import InvalidLedger, Ledger
from ackbench.spark_jobs.measures.fates import FateMeasure
from ackbench.spark_jobs.measures.latency import LatencyMeasure
from ackbench.spark_jobs.measures.measure import Measure, MeasuredTrial
from ackbench.spark_jobs.measures.reads import ReadCounts
from ackbench.spark_jobs.measures.throughput import Throughput
from ackbench.spark_jobs.measures.value_counts import ValueCounts
from ackbench.spark_jobs.pipeline import measure_unit, trial_tables
from ackbench.spark_jobs.planted import (
    PlantedAttempt,
    PlantedEvent,
    PlantedLogRow,
    PlantedRead,
    PlantedTrial,
)

TRIAL = PlantedTrial(
    "t",
    [PlantedAttempt(0, 0), PlantedAttempt(0, 1)],
    [PlantedLogRow(0, 0, 0), PlantedLogRow(0, 1, 1)],
    [PlantedRead(0, 0, 0), PlantedRead(0, 1, 1), PlantedRead(0, 0, 0, consumer=1)],
    events=[PlantedEvent(1, "group", detail=json.dumps({"committed": {0: 2}}))],
)


def with_ledger(**changes: Any) -> Callable[[MeasuredTrial], MeasuredTrial]:
    """Return a change of the ledger's row counts."""

    def change(measures: MeasuredTrial) -> MeasuredTrial:
        ledger: Ledger = replace(measures.ledger, **changes)
        return replace(measures, ledger=ledger)

    return change


def without_latency(measure: LatencyKind) -> Callable[[MeasuredTrial], MeasuredTrial]:
    """Return a change that removes the latencies of a measure."""

    def change(measures: MeasuredTrial) -> MeasuredTrial:
        found = dict(measures[LatencyMeasure].latencies)
        del found[measure, Phase.ALL]
        return with_measures(measures, LatencyMeasure(found))

    return change


def without_slots(column: str) -> Callable[[MeasuredTrial], MeasuredTrial]:
    """Return a change that removes a column's counts from the timeline."""

    def change(measures: MeasuredTrial) -> MeasuredTrial:
        before = measures[Throughput]
        timeline = {**before.timeline, column: ValueCounts()}
        return with_measures(measures, replace(before, timeline=timeline))

    return change


def with_more(measure: Measure) -> Callable[[MeasuredTrial], MeasuredTrial]:
    """Return a change that adds to a measure."""
    return lambda measures: with_measures(measures, measures[type(measure)] + measure)


def test_the_sums_of_a_complete_ledger_hold() -> None:
    """And its tables are made."""
    assert trial_tables(measure_unit(TRIAL.rows()))["trials"].num_rows == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            with_ledger(attempts_rows=3),
            "attempts.parquet has 3 rows, but the fates add up to 2 records",
        ),
        (
            with_ledger(log_rows=3),
            "log.parquet has 3 rows, but copies, phantoms, corrupt and hidden rows add up to 2",
        ),
        (
            lambda measures: with_measures(
                measures, replace(measures[FateMeasure], hidden_copies=1)
            ),
            "log.parquet has 2 rows, but copies, phantoms, corrupt and hidden rows add up to 3",
        ),
        (
            with_ledger(reads_rows=4),
            "reads.parquet has 4 rows, but the reads of all consumers add up to 3",
        ),
        (
            with_more(ReadCounts(member_reads=1)),
            "reads.parquet has 3 rows, but the reads of all consumers add up to 4",
        ),
        (
            without_latency(LatencyKind.ACK),
            "attempts.parquet has 2 acked records, but settled_ns for 0 of them",
        ),
        (
            without_slots("acked_records"),
            "attempts.parquet has 2 acked records, but the timeline adds up to 0",
        ),
        (
            without_slots("read_records"),
            "reads.parquet has 2 rows of the concurrent consumer, but the timeline adds up to 0",
        ),
        (
            without_latency(LatencyKind.END_TO_END),
            "reads.parquet has 2 records, but intended_ns for 0 of them",
        ),
        (
            with_more(ReadCounts(redelivered_reads=1)),
            "1 REDELIVERED records or copies were counted, but 0 were found; the two must be equal",
        ),
    ],
)
def test_a_sum_that_does_not_hold_makes_the_ledger_invalid(
    change: Callable[[MeasuredTrial], MeasuredTrial], message: str
) -> None:
    """The message names the trial and both counts."""
    with pytest.raises(InvalidLedger, match=rf"^trial t: {message}$"):
        trial_tables(change(measure_unit(TRIAL.rows())))
