"""A sweep's folder as a run leaves it, without a run: its plan, a sealed ledger for each trial, and results that a test makes up."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from support.builders.result_tables import Counts, write_results

from experiments.sweep.folder import SweepFolder
from experiments.sweep.plan import Plan, TrialSpec
from infra.machine.home import Home
from spark_jobs.planted import PlantedAttempt, PlantedTrial


def swept(
    home: Home, name: str, specs: Sequence[TrialSpec], counts: Callable[[TrialSpec], Counts]
) -> SweepFolder:
    """Return the folder of a sweep that was run and measured.

    Args:
        home: below which it lies.
        name: the experiment's; the sweep's id begins with it.
        specs: its trials, two a cell; the sweep's id is set here.
        counts: what of a trial is not 0.
    """
    sweep = SweepFolder(home.sweeps / f"{name}-20260101T000000-abcd")
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
