"""Measure planted trials with a mutant in place of its module, in this process."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Final

import pyarrow as pa
from mutations.mutator import Mutant
from support.measured import shrink_row_groups
from support.reference.results import PlainTrial, plain_result
from support.reference.spark_results import to_plain_trials

from ackbench.spark_jobs.planted import PlantedTrial

NOT_RELOADED: Final = frozenset({"ackbench.spark_jobs.planted"})
"""Modules of which the test itself holds objects."""
UNIT_RECORDS: Final = 3
"""Small units, so that almost every planted trial is divided into several."""
DIVIDED: Final = 3
"""One trial of so many is measured in units as well: their files take most of a mutant's time."""


@dataclass(frozen=True)
class Planted:
    """Planted trials, and the results of the plain reference by trial id."""

    trials: Sequence[PlantedTrial]
    sweep: Path
    """The folder with some of the trials' sealed ledgers."""
    truth: Mapping[str, PlainTrial]

    @classmethod
    def of(cls, trials: Sequence[PlantedTrial], sweep: Path) -> Planted:
        """Write the trials' ledgers, and compute their reference results."""
        for trial in trials[::DIVIDED]:
            shrink_row_groups(trial.plant(sweep))
        return cls(trials, sweep, {trial.trial_id: plain_result(trial) for trial in trials})


def how_caught(mutant: Mutant, planted: Planted) -> str | None:
    """Return how a mutant is caught: by an error, or by a difference from the reference.

    `None`: it is not caught.
    """
    try:
        with mutant_in_place(mutant):
            for found in _results(planted):
                if any(planted.truth[trial_id] != plain for trial_id, plain in found.items()):
                    return "different results"
    except Exception as error:  # noqa: BLE001 - any error means that the mutant was caught
        return f"{type(error).__name__}: {error}".split("\n", maxsplit=1)[0][:160]
    return None


def _results(planted: Planted) -> Iterator[Mapping[str, PlainTrial]]:
    """Yield each trial's results as measured in one unit, then those of some in small units."""
    for trial in planted.trials:
        yield to_plain_trials(measure_in_memory(trial))
    yield to_plain_trials(measure_in_units(planted.sweep))


def measure_in_memory(*trials: PlantedTrial) -> dict[str, pa.Table]:
    """Return the results of trials in memory, with the modules that are now in place."""
    pipeline = importlib.import_module("ackbench.spark_jobs.pipeline")
    measured = {
        trial.trial_id: pipeline.trial_tables(pipeline.measure_unit(trial.rows()))
        for trial in trials
    }
    tables: dict[str, pa.Table] = pipeline.sweep_tables(measured)
    return tables


def measure_in_units(sweep: Path) -> dict[str, pa.Table]:
    """Return the results of sealed trials, each divided into small units."""
    ledgers = importlib.import_module("ackbench.spark_jobs.io.ledgers").open_ledgers(str(sweep))
    units = importlib.import_module("ackbench.spark_jobs.io.units")
    pipeline = importlib.import_module("ackbench.spark_jobs.pipeline")
    measured: dict[str, object] = {}
    for unit in units.split(ledgers.trials, UNIT_RECORDS):
        trial_id, measures = pipeline.verify_and_measure(ledgers.location, unit)
        if isinstance(measures, Exception):
            raise measures
        before = measured.get(trial_id)
        measured[trial_id] = pipeline.merge_units(before, measures) if before else measures
    tables: dict[str, pa.Table] = pipeline.sweep_tables(
        {trial_id: pipeline.trial_tables(measures) for trial_id, measures in measured.items()}
    )
    return tables


@contextmanager
def mutant_in_place(mutant: Mutant) -> Iterator[None]:
    """Replace a module by its mutant for all imports within the context."""
    before = _loaded_modules()
    try:
        _forget(set(before) - (NOT_RELOADED - {mutant.module}))
        module = ModuleType(mutant.module)
        _register(module)
        # This project's own code, changed in one place.
        exec(compile(mutant.tree(), mutant.module, "exec"), module.__dict__)  # noqa: S102
        yield
    finally:
        _forget(set(_loaded_modules()))
        for module in before.values():
            _register(module)


def _loaded_modules() -> dict[str, ModuleType]:
    """Return the job's modules, and those of the tests that may hold objects of them.

    Packages are not among them: they hold no code, and a module is registered in its package.
    """
    return {
        name: module
        for name, module in sys.modules.items()
        if name.startswith(("ackbench.spark_jobs.", "support.")) and not hasattr(module, "__path__")
    }


def _register(module: ModuleType) -> None:
    """Register a module by its name and as an attribute of its package, for both import forms."""
    sys.modules[module.__name__] = module
    package, _, name = module.__name__.rpartition(".")
    setattr(sys.modules[package], name, module)


def _forget(names: AbstractSet[str]) -> None:
    for name in names:
        del sys.modules[name]
        package, _, part = name.rpartition(".")
        vars(sys.modules[package]).pop(part, None)
