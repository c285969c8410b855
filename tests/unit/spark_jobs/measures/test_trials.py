"""Counts of the same quantity must be equal before any result is written."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ackbench.experiments.ledger.result_tables import Measure, Phase
from ackbench.spark_jobs.io.ledgers import InvalidLedger, Ledger
from ackbench.spark_jobs.measures.reads import ReadCounts
from ackbench.spark_jobs.measures.value_counts import ValueCounts
from ackbench.spark_jobs.pipeline import UnitMeasures, measure_unit, trial_tables
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


def with_ledger(**changes: Any) -> Callable[[UnitMeasures], UnitMeasures]:
    """Return a change of the ledger's row counts."""

    def change(measures: UnitMeasures) -> UnitMeasures:
        ledger: Ledger = replace(measures.ledger, **changes)
        return replace(measures, ledger=ledger)

    return change


def without_latency(measure: Measure) -> Callable[[UnitMeasures], UnitMeasures]:
    """Return a change that removes the latencies of a measure."""
    return lambda measures: replace(
        measures,
        latencies={
            key: found for key, found in measures.latencies.items() if key != (measure, Phase.ALL)
        },
    )


def without_slots(column: str) -> Callable[[UnitMeasures], UnitMeasures]:
    """Return a change that removes a column's counts from the timeline."""
    return lambda measures: replace(measures, timeline={**measures.timeline, column: ValueCounts()})


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
            lambda measures: replace(measures, hidden_copies=1),
            "log.parquet has 2 rows, but copies, phantoms, corrupt and hidden rows add up to 3",
        ),
        (
            with_ledger(reads_rows=4),
            "reads.parquet has 4 rows, but the reads of all consumers add up to 3",
        ),
        (
            lambda measures: replace(measures, member_reads=2),
            "reads.parquet has 3 rows, but the reads of all consumers add up to 4",
        ),
        (
            without_latency(Measure.ACK),
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
            without_latency(Measure.END_TO_END),
            "reads.parquet has 2 records, but intended_ns for 0 of them",
        ),
        (
            lambda measures: replace(
                measures, read_counts=measures.read_counts + ReadCounts(redelivered_reads=1)
            ),
            "1 REDELIVERED records or copies were counted, but 0 were found; the two must be equal",
        ),
    ],
)
def test_a_sum_that_does_not_hold_makes_the_ledger_invalid(
    change: Callable[[UnitMeasures], UnitMeasures], message: str
) -> None:
    """The message names the trial and both counts."""
    with pytest.raises(InvalidLedger, match=rf"^trial t: {message}$"):
        trial_tables(change(measure_unit(TRIAL.rows())))
