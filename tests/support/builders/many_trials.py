"""A sweep of many trials: copies of the sealed trials of another one, in many cells.

Each copy has a cell and an id of its own, and is sealed again; nothing is measured.
"""

from __future__ import annotations

import shutil
from itertools import cycle
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from ackbench.experiments.ledger.seal import seal_files, write_table
from ackbench.experiments.ledger.trial_manifest import TRIAL_MANIFEST, TrialManifest
from ackbench.experiments.sweep.documents import read_trial_manifest
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.plan import Plan, TrialSpec
from ackbench.infra.machine.home import Home

AXIS: Final = "linger.ms"
"""Each cell has its own value of it."""


def sweep_of_many_trials(
    home: Home, source: SweepFolder, trials: int, repeats: int, name: str = "large"
) -> SweepFolder:
    """Return the folder of a sweep that ran and is not measured.

    Args:
        home: contains the folder.
        source: a sweep with sealed trials, which are copied in turn.
        trials: how many trials.
        repeats: how many of them each cell has.
        name: the experiment; the sweep's id begins with it.
    """
    sweep = SweepFolder(home.sweeps / f"{name}-20260101T000000-abcd")
    plan = source.plan()
    originals = [plan.trial(trial_id) for trial_id in plan_ids(source)]
    copies = [
        _copied(original, sweep.sweep_id, name, number, repeats)
        for number, original in zip(range(trials), cycle(originals), strict=False)
    ]
    sweep.root.mkdir(parents=True)
    sweep.write_plan(
        Plan(
            sweep_id=sweep.sweep_id,
            experiment=name,
            question=plan.question,
            seed=plan.seed,
            repeats=repeats,
            trials=tuple(copies),
            refused=(),
        )
    )
    for copy, original in zip(copies, cycle(originals), strict=False):
        _seal(source.trial(original.trial_id), sweep.trial(copy.trial_id), copy)
    return sweep


def plan_ids(source: SweepFolder) -> list[str]:
    """Return the ids of the sealed trials of a sweep, in the plan's order."""
    pending = set(source.pending())
    return [trial.trial_id for trial in source.plan().trials if trial.trial_id not in pending]


def _copied(original: TrialSpec, sweep_id: str, name: str, number: int, repeats: int) -> TrialSpec:
    value = number // repeats
    return original.model_copy(
        update={
            "sweep_id": sweep_id,
            "experiment": name,
            "trial_id": f"{number:04d}-{number:06x}",
            "cell": {**original.cell, AXIS: value},
            "label": f"{original.label} {AXIS}={value}",
            "producer": {**original.producer, AXIS: str(value)},
            "repeat": number % repeats,
            "order": number,
        }
    )


def _seal(source: Path, target: Path, spec: TrialSpec) -> None:
    partial = target.with_name(f"{target.name}.partial")
    shutil.copytree(source, partial)
    (partial / TRIAL_MANIFEST).unlink()
    for path in partial.glob("*.parquet"):
        write_table(partial, spec.trial_id, path.stem, pq.read_table(path))
    record: TrialManifest = read_trial_manifest(source)
    shared = spec.model_dump(include={"sweep_id", "experiment", "trial_id", "cell", "label"})
    changes = {**shared, "repeat": spec.repeat, "order": spec.order}
    settings = {**record.producer_settings, AXIS: str(spec.cell[AXIS])}
    seal_files(
        partial, target, record.model_copy(update={**changes, "producer_settings": settings})
    )
