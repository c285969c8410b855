"""Run the job with a mutant in place of its module, on planted trials, in this process."""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Final

import pyarrow as pa
import pytest
from mutations.mutator import Mutant
from pyspark.sql import DataFrame, SparkSession
from support.reference.results import PlainTrial, plain_result
from support.reference.spark_results import to_plain_trials

from spark_jobs.io.frames import Frames, frames_from_tables
from spark_jobs.planted import PlantedTrial, combined_tables

NOT_RELOADED: Final = frozenset(
    {"spark_jobs.io.frames", "spark_jobs.io.ledgers", "spark_jobs.planted", "spark_jobs.session"}
)
"""Modules of which the test itself holds objects."""
SMALL_PLANS: Final = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # `PlanCache` tells plans apart by their text, so that must be complete.
    "spark.sql.debug.maxToStringFields": "10000",
    "spark.sql.maxPlanStringLength": str(2**31 - 16),
}
"""For many different plans over a few hundred rows: compiled code would be used only once."""


@dataclass(frozen=True)
class Planted:
    """Planted trials in memory, and the results of the plain reference by trial id."""

    frames: Frames
    trials: Sequence[PlantedTrial]
    truth: Mapping[str, PlainTrial]

    @classmethod
    def of(cls, spark: SparkSession, trials: Sequence[PlantedTrial]) -> Planted:
        """Load trials into memory, and compute their reference results."""
        return cls(
            frames_from_tables(spark, combined_tables(trials)),
            trials,
            {trial.trial_id: plain_result(trial) for trial in trials},
        )


def how_caught(mutant: Mutant, planted: Planted) -> str | None:
    """Return how a mutant is caught: by an error, or by a difference from the reference.

    `None`: it is not caught.
    """
    try:
        with mutant_in_place(mutant):
            found = importlib.import_module("spark_jobs.pipeline").measure_frames(
                planted.frames, [trial.ledger() for trial in planted.trials]
            )
            return None if to_plain_trials(found) == planted.truth else "different results"
    except Exception as error:  # noqa: BLE001 - any error means that the mutant was caught
        return f"{type(error).__name__}: {error}".split("\n", maxsplit=1)[0][:160]
    finally:
        planted.frames.attempts.sparkSession.catalog.clearCache()


def measure_in_memory(spark: SparkSession, *trials: PlantedTrial) -> dict[str, pa.Table]:
    """Return the job's results of trials in memory, with the modules that are now in place."""
    found: dict[str, pa.Table] = importlib.import_module("spark_jobs.pipeline").measure_frames(
        frames_from_tables(spark, combined_tables(trials)), [trial.ledger() for trial in trials]
    )
    return found


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
        if name.startswith(("spark_jobs.", "support.")) and not hasattr(module, "__path__")
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


@dataclass
class PlanCache:
    """A cache of Spark's results by plan.

    A mutant leaves most plans unchanged, so most results need not be computed again.
    """

    results: dict[tuple[str, ...], Any] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    """The tables passed to Spark so far: a plan does not contain their rows."""

    @contextmanager
    def active(self) -> Iterator[None]:
        """Use the cache within the context, for equal plans over equal tables."""
        from pyspark.sql.classic.dataframe import DataFrame as Classic

        self.inputs.clear()
        with pytest.MonkeyPatch.context() as patch:
            for action in ("toArrow", "count"):
                patch.setattr(Classic, action, self._cached(action, getattr(Classic, action)))
            patch.setattr(
                SparkSession, "createDataFrame", self._recorded(SparkSession.createDataFrame)
            )
            yield

    def _cached(self, name: str, compute: Callable[[DataFrame], Any]) -> Callable[[DataFrame], Any]:
        def cached(frame: DataFrame) -> Any:
            key = (
                name,
                *frame.columns,
                frame._jdf.queryExecution().analyzed().canonicalized().toString(),
                *self.inputs,
            )
            if key not in self.results:
                self.results[key] = compute(frame)
            return self.results[key]

        return cached

    def _recorded(self, make: Callable[..., DataFrame]) -> Callable[..., DataFrame]:
        def recorded(spark: SparkSession, rows: Any, *schema: Any) -> DataFrame:
            self.inputs.append(repr(rows.to_pylist() if isinstance(rows, pa.Table) else rows))
            return make(spark, rows, *schema)

        return recorded


@contextmanager
def small_plans(spark: SparkSession) -> Iterator[None]:
    """Configure the session for many small plans within the context."""
    before = {name: spark.conf.get(name, None) for name in SMALL_PLANS}
    for name, value in SMALL_PLANS.items():
        spark.conf.set(name, value)
    logging.disable(logging.CRITICAL)  # an invalid plan of a mutant logs a page of text
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
        for name, value_before in before.items():
            if value_before is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value_before)
