"""Expired records: one that was read before it expired counts as any other.

The fate of one that no consumer read is unknown.
"""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest
from support.builders.workloads import random_expired_trial

from ackbench.experiments.ledger.terms import ACKED, UNKNOWN
from ackbench.spark_jobs.planted import (
    PlantedAttempt,
    PlantedEvent,
    PlantedLogRow,
    PlantedRead,
    PlantedTrial,
)

Measure = Callable[..., dict[str, pa.Table]]
BEGIN = 6
"""Offsets below this had expired."""


def test_an_expired_record_counts_as_it_was_read(measured: Measure) -> None:
    """A record that was read is delivered, and one whose offset holds another record is lost.

    If no consumer read the offset, the fate is unknown. Offsets that have not expired count as
    usual.
    """
    attempts = [
        PlantedAttempt(0, seq, offset=offset)
        for seq, offset in ((0, 0), (1, 1), (2, 2), (3, 1), (4, 6), (5, 7), (6, None))
    ]
    log = [PlantedLogRow(0, 0, 0), PlantedLogRow(0, 1, 1), PlantedLogRow(0, 4, 6)]
    # seq 2 expired unread; seq 1 is at the offset of seq 3; seq 5 is lost at a retained offset.
    trial = PlantedTrial("000-expired", attempts, log, begin_offsets={0: BEGIN})
    without = PlantedTrial("001-nothing-expired", attempts, log)
    expired, retained = (_counts(row) for row in measured(trial, without)["trials"].to_pylist())
    assert expired == {
        "acked_records": 6,
        "unknown_records": 1,
        "lost_low_records": 3,
        "lost_high_records": 4,
    }
    assert retained == {
        "acked_records": 7,
        "unknown_records": 0,
        "lost_low_records": 4,
        "lost_high_records": 4,
    }


def _counts(row: dict[str, int]) -> dict[str, int]:
    return {
        name: row[name]
        for name in ("acked_records", "unknown_records", "lost_low_records", "lost_high_records")
    }


def test_records_that_a_group_missed_are_split_by_expiry(measured: Measure) -> None:
    """It committed up to 10 and did not process 3, 4, 5 and 8; three of them had expired."""
    stored = [PlantedLogRow(0, seq, seq) for seq in range(12)]
    reads = [PlantedRead(0, seq, seq, consumer=1) for seq in (0, 1, 2, 6, 7, 9)]
    events = [
        PlantedEvent(1, "group", detail=json.dumps({"committed": {"0": 10}, "at_end": False}))
    ]
    trial = PlantedTrial(
        "000-slow",
        [PlantedAttempt(0, seq, offset=seq) for seq in range(12)],
        stored,
        reads,
        events=events,
        begin_offsets={0: BEGIN},
    )
    (row,) = measured(trial)["groups"].to_pylist()
    assert (
        row["shown_records"],
        row["processed_records"],
        row["missed_records"],
        row["expired_records"],
    ) == (12, 6, 4, 3)


@pytest.mark.parametrize("seed", range(20))
def test_expired_records_are_unknown_only_if_their_place_was_not_read(
    measured: Measure, seed: int
) -> None:
    """The definition, one record at a time."""
    trial = random_expired_trial(seed)
    stored = {(row.producer, row.seq) for row in trial.log if row.visible}
    taken = {(row.partition, row.offset) for row in trial.log if row.visible}
    outcomes = Counter(
        UNKNOWN
        if row.outcome == ACKED
        and row.offset is not None
        and row.offset < trial.begin_offsets[row.partition or 0]
        and (row.producer, row.seq) not in stored
        and (row.partition, row.offset) not in taken
        else row.outcome
        for row in trial.attempts
    )
    (found,) = measured(trial)["trials"].to_pylist()
    assert {name: found[f"{name}_records"] for name in outcomes} == outcomes


def test_random_trials_have_expired_records_of_either_kind(measured: Measure) -> None:
    """Otherwise the test of the definition would not test it."""
    trials = [random_expired_trial(seed) for seed in range(20)]
    acked = [
        sum(found["trials"]["acked_records"].to_pylist())
        for found in (
            measured(*trials),
            measured(*(replace(trial, begin_offsets={}) for trial in trials)),
        )
    ]
    lost = sum(measured(*trials)["trials"]["lost_low_records"].to_pylist())
    assert acked[0] < acked[1]
    assert lost > 0
