"""A sealed trial as a run would leave it, in a sweep that commands find: two partitions, a loss, a copy, all of it read to the end."""

from __future__ import annotations

import json

from experiments.sweep.folder import SweepFolder
from experiments.sweep.plan import Plan
from infra.machine.home import Home
from spark_jobs.planted import (
    PlantedAttempt,
    PlantedEvent,
    PlantedLogRow,
    PlantedRead,
    PlantedTrial,
)

TRIAL = "000-real01"
MS = 1_000_000


def a_real_looking_trial(records: int = 2_000) -> PlantedTrial:
    """Return a trial of one producer, whose every hundredth record is lost, and every hundred-and-first is there twice."""
    attempts = [
        PlantedAttempt(
            0, seq, "acked", seq * MS, (seq + 3) * MS + seq, partition=seq % 2, sent_ns=seq * MS
        )
        for seq in range(records)
    ]
    log: list[PlantedLogRow] = []
    for partition in (0, 1):
        kept = [row.seq for row in attempts if row.partition == partition and row.seq % 100]
        copied = [seq for seq in kept for _ in range(2 if seq % 101 == 0 else 1)]
        log += [
            PlantedLogRow(0, seq, offset, partition, timestamp_ms=seq, leader_epoch=1)
            for offset, seq in enumerate(copied)
        ]
    reads = [
        PlantedRead(
            0, row.seq, row.offset, (row.seq or 0) * MS, ((row.seq or 0) + 9) * MS, row.partition
        )
        for row in log
    ]
    ended = PlantedEvent(
        11 * 10**9,
        "reader",
        detail=json.dumps({"records": len(reads), "at_end": True, "where": ""}),
    )
    return PlantedTrial(TRIAL, attempts, log, reads, events=[ended])


def a_sweep_of(home: Home, *trials: PlantedTrial) -> SweepFolder:
    """Plant trials as a sweep of a home."""
    sweep = SweepFolder(home.sweeps / "quick-20260102T030405-ab12")
    sweep.write_plan(
        Plan(
            sweep_id=sweep.sweep_id,
            experiment="quick",
            question="?",
            seed=0,
            repeats=1,
            trials=(),
            refused=(),
        )
    )
    for trial in trials:
        trial.plant(sweep.root)
    return sweep
