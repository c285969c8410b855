"""The size of an experiment: cells, trials and minutes.

`make extents` plans the catalogue, and stores the extents beside it.
"""

from __future__ import annotations

from typing import Final

from ackbench.experiments.messages.phrases import list_some
from ackbench.experiments.planning.catalog import (
    EXTENTS,
    ExperimentExtent,
    StoredExtent,
    StoredExtents,
    catalog_names,
    digest_of_file,
)
from ackbench.experiments.planning.catalog.loading import load_experiment
from ackbench.experiments.planning.experiment import Experiment
from ackbench.experiments.planning.new_sweep import plan_experiment
from ackbench.experiments.sweep.cell_names import axis_name, cell_sort_key, values_of, varying_axes
from ackbench.experiments.sweep.plan import Plan
from ackbench.experiments.sweep.progress import expected_minutes
from ackbench.infra.machine.files import replace_file

_SWEEP_ID: Final = "extent"
"""The sweep id of a plan that is only counted."""


def planned_extent(name: str) -> ExperimentExtent:
    """Return the extent of an experiment of the catalogue, by planning it.

    Raises:
        ExperimentError: its file is not a valid experiment.
    """
    experiment = load_experiment(name)
    return extent_of(experiment, plan_experiment(experiment, _SWEEP_ID, name))


def extent_of(experiment: Experiment, plan: Plan) -> ExperimentExtent:
    """Return the extent of an experiment that has been planned."""
    cells = sorted((one.cell for one in plan.trials if not one.added), key=cell_sort_key)
    return ExperimentExtent(
        title=experiment.title,
        lesson=experiment.claim.lesson if experiment.claim else None,
        is_bug=experiment.bug is not None,
        schedule=experiment.schedule,
        compared="; ".join(
            f"{axis_name(axis)} {list_some(values_of(axis, cells))}" for axis in varying_axes(cells)
        ),
        cells=len({trial.label for trial in plan.trials if not trial.added}),
        refused=len(plan.refused),
        repeats=experiment.repeats,
        controls=sum(trial.added for trial in plan.trials),
        minutes=expected_minutes(plan),
    )


def as_json() -> str:
    """Return the content of `extents.json`, as the catalogue has it now."""
    stored = {
        name: StoredExtent(**planned_extent(name).model_dump(), digest=digest_of_file(name))
        for name in catalog_names()
    }
    return f"{StoredExtents(stored).model_dump_json(indent=1)}\n"


if __name__ == "__main__":
    replace_file(EXTENTS, as_json())
