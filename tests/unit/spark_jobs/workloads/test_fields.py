"""Planted differences of fields and between replays are counted as by the plain reference."""

from __future__ import annotations

import random
from collections.abc import Callable

import pyarrow as pa

from ackbench.experiments.ledger.trial_manifest import Replay
from ackbench.spark_jobs.planted import (
    PlantedAttempt,
    PlantedLogRow,
    PlantedReplayRow,
    PlantedSentRow,
    PlantedTrial,
)

Measure = Callable[..., dict[str, pa.Table]]
RECORDS = 120
FIELDS = {
    "key": "key_digest",
    "value": "value_digest",
    "headers": "headers_digest",
    "timestamp": "timestamp_ms",
}


def trial(
    trial_id: str,
    sent: list[PlantedSentRow],
    replayed: list[PlantedReplayRow],
    replays: list[Replay],
    acked_offsets: dict[int, int] | None = None,
) -> PlantedTrial:
    """Return a trial whose records are all acknowledged and stored.

    A record's offset is its seq; `acked_offsets` has the acknowledged offsets that differ.
    """
    attempts = [
        PlantedAttempt(0, seq, offset=(acked_offsets or {}).get(seq, seq)) for seq in range(RECORDS)
    ]
    return PlantedTrial(
        trial_id,
        attempts,
        [PlantedLogRow(0, seq, seq) for seq in range(RECORDS)],
        sent=sent,
        replayed=replayed,
        replays=replays,
    )


def random_trial(seed: int) -> PlantedTrial:
    """Return a random trial: some digests differ, replays lack records, one is by timestamp."""
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    sent = [PlantedSentRow(0, seq, seq) for seq in range(RECORDS) if chance.random() > 0.05]
    first = [
        PlantedReplayRow(
            1, seq, 0, seq, 0, seq, *(chance.choices((usual, 9), (20, 1))[0] for usual in (1, 2, 3))
        )
        for seq in range(RECORDS)
        if chance.random() > 0.05
    ]
    again = [
        row._replace(replay=2, value_digest=chance.choices((row.value_digest, 8), (20, 1))[0])
        for row in first
        if chance.random() > 0.1
    ]
    at_ms = chance.randrange(RECORDS)
    late = [
        row._replace(replay=3) for row in first if row.offset >= at_ms and chance.random() > 0.1
    ]
    acked_offsets = {seq: seq + 1 for seq in range(RECORDS) if chance.random() < 0.1}
    replays = [
        Replay(number=1, begin_offsets={0: 0}),
        Replay(number=2, begin_offsets={0: 10}),
        Replay(number=3, begin_offsets={0: at_ms}, at_ms=at_ms),
    ]
    return trial(f"{seed:03d}-random", sent, first + again + late, replays, acked_offsets)


def plain_fields(planted: PlantedTrial) -> dict[str, tuple[int, int]]:
    """Return compared and differing records by field, counted one record at a time."""
    sent = {row.seq: row for row in planted.sent}
    first = [row for row in planted.replayed if row.replay == 1]
    known = [(row, sent[row.seq]) for row in first if row.seq in sent]
    acked = {row.seq: row.offset for row in planted.attempts}
    counts = {
        field: (len(known), sum(getattr(read, name) != getattr(was, name) for read, was in known))
        for field, name in FIELDS.items()
    }
    return counts | {
        "offset": (len(first), sum(acked[row.seq or 0] != row.offset for row in first))
    }


def plain_replays(planted: PlantedTrial) -> dict[int, tuple[int, int, int]]:
    """Return the counts of each replay: records, differing, absent; one offset at a time."""
    by_replay = {
        replay.number: {
            row.offset: row._replace(replay=0)
            for row in planted.replayed
            if row.replay == replay.number
        }
        for replay in planted.replays
    }
    first, found = by_replay[1], {}
    for replay in planted.replays:
        this = by_replay[replay.number]
        due = {
            of
            for of, row in first.items()
            if (
                row.timestamp_ms >= replay.at_ms
                if replay.at_ms is not None
                else of >= replay.begin_offsets[0]
            )
        }
        found[replay.number] = (
            len(this),
            sum(first.get(of) != row for of, row in this.items()),
            len(due - this.keys()),
        )
    return found


def test_random_fields_and_replays_are_counted_as_by_the_reference(measured: Measure) -> None:
    """A trial without replays has no rows."""
    trials = [random_trial(seed) for seed in range(8)]
    tables = measured(
        *trials, PlantedTrial("900-no-replays", [PlantedAttempt(0, 0)], [PlantedLogRow(0, 0, 0)])
    )
    for planted in trials:
        of_trial = [
            row for row in tables["fields"].to_pylist() if row["trial_id"] == planted.trial_id
        ]
        assert {
            row["field"]: (row["compared_records"], row["differing_records"]) for row in of_trial
        } == plain_fields(planted)
        of_trial = [
            row for row in tables["replays"].to_pylist() if row["trial_id"] == planted.trial_id
        ]
        found = {
            row["replay"]: (row["records"], row["differing_records"], row["absent_records"])
            for row in of_trial
        }
        assert found == plain_replays(planted)
    assert sum(count for planted in trials for _, count, _ in plain_replays(planted).values()) > 10
    assert "900-no-replays" not in {
        *tables["fields"]["trial_id"].to_pylist(),
        *tables["replays"]["trial_id"].to_pylist(),
    }
