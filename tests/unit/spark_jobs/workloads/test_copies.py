"""Records that copiers miss or repeat, and copies that the output loses, are counted exactly."""

import json
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
from support.builders.workloads import random_copy_trial
from support.reference.groups import copy_counts

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
EVERY = range(RECORDS)


def trial(
    trial_id: str,
    output: list[PlantedLogRow],
    reported: list[PlantedRead],
    log: list[PlantedLogRow] | None = None,
    committed: int = RECORDS,
) -> PlantedTrial:
    """Return a trial whose log has each record once, unless `log` is given.

    The concurrent consumer received everything visible in the output.
    """
    concurrent = [PlantedRead(row.producer, row.seq, row.offset) for row in output if row.visible]
    events = [
        PlantedEvent(1, "consumer_end", detail=json.dumps({"at_end": True})),
        PlantedEvent(1, "group", detail=json.dumps({"committed": {0: committed}})),
    ]
    return PlantedTrial(
        trial_id,
        [PlantedAttempt(0, seq) for seq in EVERY],
        log or STORED,
        [*concurrent, *reported],
        events=events,
        output=output,
    )


def written(*seqs: int, first_offset: int = 0, visible: bool = True) -> list[PlantedLogRow]:
    """Return copies at consecutive offsets of the output."""
    return [
        PlantedLogRow(0, seq, first_offset + place, visible=visible)
        for place, seq in enumerate(seqs)
    ]


def reported(*seqs: int, by: int = 1) -> list[PlantedRead]:
    """Return records whose copies were reported to a copier as stored."""
    return [PlantedRead(0, seq, seq, consumer=by) for seq in seqs]


PLANTED = (
    trial("000-once", written(*EVERY), reported(*EVERY)),
    trial(
        "001-at-most-once",
        written(*range(70), *range(77, 200)),
        reported(*range(70), *range(77, 200)),
    ),
    trial("002-at-least-once", written(*EVERY, *range(60, 80)), reported(*EVERY, *range(60, 80))),
    trial(
        "003-a-transaction-was-aborted",
        written(*range(50), visible=False) + written(*EVERY, first_offset=50),
        reported(*EVERY),
    ),
    trial("004-the-output-lost-what-was-acknowledged", written(*range(190)), reported(*EVERY)),
    trial("005-crashed-before-it-recorded-the-report", written(*EVERY), reported(*range(190))),
    trial("006-did-not-reach-the-end", written(*range(100)), reported(*range(100)), committed=100),
    trial(
        "007-both-copies-in-the-log-are-copied",
        written(*EVERY, 3),
        reported(*EVERY, 3),
        log=[*STORED, PlantedLogRow(0, 3, 200)],
        committed=201,
    ),
    trial(
        "008-the-log-lost-what-is-copied",
        written(*EVERY),
        reported(*EVERY),
        log=STORED[:150],
        committed=150,
    ),
    replace(trial("009-nothing-copied", [], []), output=None, events=[]),
)
FOUND = {
    "000-once": (200, 0, 0, 0, 0),
    "001-at-most-once": (193, 7, 0, 0, 0),
    "002-at-least-once": (200, 0, 0, 20, 0),
    "003-a-transaction-was-aborted": (200, 0, 0, 0, 50),
    "004-the-output-lost-what-was-acknowledged": (190, 0, 10, 0, 0),
    "005-crashed-before-it-recorded-the-report": (200, 0, 0, 0, 0),
    "006-did-not-reach-the-end": (100, 0, 0, 0, 0),
    "007-both-copies-in-the-log-are-copied": (200, 0, 0, 0, 0),
    "008-the-log-lost-what-is-copied": (200, 0, 0, 0, 0),
}
"""By trial: copied, missed, lost by the output, repeated, hidden."""


def test_the_planted_counts_are_found(measured: Measure) -> None:
    """The plain reference agrees, and so do the group columns of `trials`."""
    tables = measured(*PLANTED)
    found = {row.pop("trial_id"): row for row in tables["copies"].to_pylist()}
    assert {trial_id: tuple(row.values()) for trial_id, row in found.items()} == FOUND
    assert found == {
        planted.trial_id: copy_counts(planted) for planted in PLANTED if planted.output is not None
    }
    of_groups = {
        row["trial_id"]: (row["group_missed_records"], row["group_redelivered_reads"])
        for row in tables["trials"].to_pylist()
    }
    assert of_groups == {
        "009-nothing-copied": (None, None),
        **{name: (missed + lost, again) for name, (_, missed, lost, again, _) in FOUND.items()},
    }


def test_a_record_that_the_log_lost_is_missed_by_no_copier(measured: Measure) -> None:
    """Losses before and after the copier have separate counts; `missed_records` has both."""
    (lost, missed) = measured(
        trial(
            "000-lost", written(*range(150)), reported(*range(150)), log=STORED[:150], committed=150
        ),
        PLANTED[1],
    )["trials"].to_pylist()
    assert (lost["lost_low_records"], lost["group_missed_records"], lost["missed_records"]) == (
        50,
        0,
        0,
    )
    assert (
        missed["lost_low_records"],
        missed["group_missed_records"],
        missed["missed_records"],
    ) == (0, 7, 7)


def test_random_copies_are_counted_as_by_the_reference(measured: Measure) -> None:
    """The reference is plain Python, one record at a time."""
    trials = [random_copy_trial(seed) for seed in range(12)]
    found = {row.pop("trial_id"): row for row in measured(*trials)["copies"].to_pylist()}
    assert found == {planted.trial_id: copy_counts(planted) for planted in trials}
    assert all(
        sum(bool(row[name]) for row in found.values()) > 8
        for name in ("missed_records", "output_lost_records", "repeated_copies", "hidden_copies")
    )
