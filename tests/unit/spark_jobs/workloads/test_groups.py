"""Records that a consumer group misses or processes again are counted exactly.

The concurrent consumer is not a member.
"""

import json
from collections.abc import Callable

import pyarrow as pa
from support.builders.workloads import random_group_trial, random_trial_with_groups
from support.reference.groups import group_counts, group_rows

from ackbench.spark_jobs.planted import (
    PlantedAttempt,
    PlantedEvent,
    PlantedLogRow,
    PlantedRead,
    PlantedTrial,
)

Measure = Callable[..., dict[str, pa.Table]]
RECORDS = 200
STORED = [PlantedLogRow(0, seq, seq) for seq in range(RECORDS)]
CONCURRENT = [PlantedRead(0, seq, seq) for seq in range(RECORDS)]


def trial(
    trial_id: str,
    members: list[PlantedRead],
    committed: dict[int, int] | None,
    log: list[PlantedLogRow] | None = None,
) -> PlantedTrial:
    """Return a trial whose log has each record once, read by the concurrent consumer.

    Args:
        trial_id: its id.
        members: what the group's members processed.
        committed: the group's committed offsets by partition; `None`: the trial has no group.
        log: instead of each record once.
    """
    events = [PlantedEvent(1, "consumer_end", detail=json.dumps({"at_end": True}))]
    if committed is not None:
        events.append(
            PlantedEvent(1, "group", detail=json.dumps({"committed": committed, "at_end": True}))
        )
    return PlantedTrial(
        trial_id,
        [PlantedAttempt(0, seq) for seq in range(RECORDS)],
        log or STORED,
        [*CONCURRENT, *members],
        events=events,
    )


def processed(*seqs: int, by: int = 1, at_ns: int = 3_000_000) -> list[PlantedRead]:
    """Return the records that a member processed."""
    return [PlantedRead(0, seq, seq, received_ns=at_ns + seq, consumer=by) for seq in seqs]


PLANTED = (
    trial("000-all-once", processed(*range(100)) + processed(*range(100, 200), by=2), {0: 200}),
    trial("001-missed", processed(*range(70), *range(77, 200)), {0: 200}),
    trial("002-missed-and-not-yet-committed", processed(*range(70), *range(75, 100)), {0: 100}),
    trial(
        "003-repeated-by-another-member-and-the-same",
        processed(*range(200))
        + processed(*range(60, 80), by=2, at_ns=9_000_000)
        + processed(5, at_ns=9_500_000),
        {0: 200},
    ),
    trial(
        "004-both",
        processed(*range(10), *range(12, 200)) + processed(64, 65, by=2, at_ns=9_000_000),
        {0: 200},
    ),
    trial("005-never-committed", [], {0: 0}),
    trial("006-no-group", [], None),
    trial(
        "007-a-second-copy-is-processed-too",
        [*processed(*range(200)), PlantedRead(0, 3, 200, consumer=2)],
        {0: 201},
        [*STORED, PlantedLogRow(0, 3, 200)],
    ),
)


def test_the_planted_counts_are_found(measured: Measure) -> None:
    """The plain reference agrees; records past the committed offset are not missed."""
    found = columns_of(measured(*PLANTED)["trials"])
    assert [(missed, repeated) for missed, repeated, _ in found.values()] == [
        (0, 0),
        (7, 0),
        (5, 0),
        (0, 21),
        (2, 2),
        (0, 0),
        (None, None),
        (0, 0),
    ]
    assert found == {planted.trial_id: tuple(group_counts(planted).values()) for planted in PLANTED}


def columns_of(trials: pa.Table) -> dict[str, tuple[int | None, ...]]:
    """Return what each trial has of its groups, in the order of the reference."""
    return {
        row["trial_id"]: (
            row["group_missed_records"],
            row["group_redelivered_reads"],
            row["group_processing_gap_ns"],
        )
        for row in trials.to_pylist()
    }


def test_the_concurrent_consumer_has_its_own_counts(measured: Measure) -> None:
    """They do not depend on what the members did."""
    rows = measured(*PLANTED)["trials"].to_pylist()
    assert {(row["missed_records"], row["redelivered_reads"]) for row in rows} == {(0, 0)}


def test_random_groups_are_counted_as_by_the_reference(measured: Measure) -> None:
    """The reference is plain Python, one record at a time."""
    trials = [random_group_trial(seed) for seed in range(20)]
    found = columns_of(measured(*trials)["trials"])
    expected = {trial.trial_id: tuple(group_counts(trial).values()) for trial in trials}
    assert found == expected
    assert sum(bool(missed) for missed, *_ in expected.values()) > 15
    assert sum(bool(repeated) for _, repeated, _ in expected.values()) > 15


TWO = PlantedTrial(
    "000-two",
    [PlantedAttempt(0, seq) for seq in range(RECORDS)],
    STORED,
    [
        *CONCURRENT,
        *processed(*range(200)),
        *processed(*range(50), *range(57, 150), by=2),
        *processed(3, 4, by=3, at_ns=9_000_000),
    ],
    events=[
        PlantedEvent(
            1,
            "group",
            detail=json.dumps(
                {"committed": {0: 200}, "at_end": True, "group": 1, "consumers": [1]}
            ),
        ),
        PlantedEvent(
            1,
            "group",
            detail=json.dumps(
                {"committed": {0: 100}, "at_end": False, "group": 2, "consumers": [2, 3]}
            ),
        ),
    ],
)


def test_several_groups_are_counted_separately(measured: Measure) -> None:
    """Neither group's reads count for the other, nor for the concurrent consumer."""
    tables = measured(TWO)
    found = {row["group"]: row for row in tables["groups"].to_pylist()}
    names = ("shown_records", "processed_records", "missed_records", "redelivered_reads")
    assert [found[1][name] for name in names] == [200, 200, 0, 0]
    assert [found[2][name] for name in names] == [200, 143, 7, 2]
    (row,) = tables["trials"].to_pylist()
    assert (row["group_missed_records"], row["group_redelivered_reads"], row["missed_records"]) == (
        7,
        2,
        None,
    )
    for name in ("processing_gap_ns", "unassigned_ns"):
        assert row[f"group_{name}"] == max(group[name] for group in found.values())


def test_several_random_groups_are_counted_as_by_the_reference(measured: Measure) -> None:
    """The members are split into groups, and each group has its own commits."""
    trials = [random_trial_with_groups(seed) for seed in range(10)]
    found = {
        (row["trial_id"], row["group"]): row for row in measured(*trials)["groups"].to_pylist()
    }
    expected = {
        (trial.trial_id, row["group"]): row for trial in trials for row in group_rows(trial)
    }
    assert {
        key: {name: found[key][name] for name in row} for key, row in expected.items()
    } == expected
    assert sum(row["missed_records"] > 0 for row in expected.values()) > 8
