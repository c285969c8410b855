"""Sweep folders with planted trials, without a run: plan, sealed ledgers, and results."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from support.builders.records import planned_as
from support.builders.result_tables import Counts, write_results

from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.plan import Plan, TrialSpec
from ackbench.infra.machine.home import Home
from ackbench.spark_jobs.planted import (
    PlantedAttempt,
    PlantedEvent,
    PlantedLogRow,
    PlantedRead,
    PlantedTrial,
)

TRIAL = "000-real01"
MS = 1_000_000


def measured_sweep_folder(
    home: Home,
    name: str,
    specs: Sequence[TrialSpec],
    counts: Callable[[TrialSpec], Counts],
    planned: str = "20260101T000000",
) -> SweepFolder:
    """Return the folder of a sweep that ran and was measured.

    Args:
        home: contains the folder.
        name: the experiment; the sweep's id begins with it.
        specs: the trials, two per cell; their sweep id is replaced.
        counts: returns the counts of a trial that are not 0.
        planned: when, UTC, as in the sweep's id.
    """
    sweep = SweepFolder(home.sweeps / f"{name}-{planned}-abcd")
    trials = tuple(spec.model_copy(update={"sweep_id": sweep.sweep_id}) for spec in specs)
    sweep.write_plan(
        Plan(
            sweep_id=sweep.sweep_id,
            experiment=name,
            question="Who?",
            seed=42,
            repeats=2,
            trials=trials,
            refused=(),
        )
    )
    for spec in trials:
        PlantedTrial(
            spec.trial_id, [PlantedAttempt(0, 0)], cell=spec.cell, repeat=spec.repeat
        ).plant(sweep.root)
    write_results(sweep, {spec.trial_id: counts(spec) for spec in trials})
    return sweep


def realistic_trial(records: int = 2_000) -> PlantedTrial:
    """Return a trial of one producer, two partitions and a consumer that reached the end.

    Records whose seq is a multiple of 100 are lost, and those of 101 are duplicated.
    """
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
        "consumer_end",
        detail=json.dumps({"records": len(reads), "at_end": True, "where": ""}),
    )
    return PlantedTrial(TRIAL, attempts, log, reads, events=[ended])


def plant_sweep(home: Home, *trials: PlantedTrial) -> SweepFolder:
    """Write a sweep of these trials to a home, where commands find it, and return its folder."""
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
    plant_trials(sweep, *trials)
    return sweep


def plant_trials(sweep: SweepFolder, *trials: PlantedTrial) -> None:
    """Add trials to a sweep's plan, and write them."""
    plan = sweep.plan()
    records = [trial.record(sweep.sweep_id) for trial in trials]
    specs = [planned_as(record.model_copy(update={"kafka_version": "4.3.1"})) for record in records]
    sweep.write_plan(plan.model_copy(update={"trials": (*plan.trials, *specs)}))
    for trial in trials:
        trial.plant(sweep.root)
