"""A mutant put in its module's place, in this process, and the job run over planted trials: who notices?"""

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
from support.reference.results import PlainTrial, plain
from support.reference.spark_results import in_plain_words

from spark_jobs.io.frames import Frames, frames_from_tables
from spark_jobs.planted import PlantedTrial, combined_tables

STAYS: Final = frozenset(
    {"spark_jobs.io.frames", "spark_jobs.io.ledgers", "spark_jobs.planted", "spark_jobs.session"}
)
"""Modules that the test itself holds objects of."""
SMALL: Final = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.debug.maxToStringFields": "10000",
}
"""A few hundred rows, and each plan new: what is compiled for them would be used once."""


@dataclass(frozen=True)
class Planted:
    """Trials in memory, and the truth of each."""

    frames: Frames
    trials: Sequence[PlantedTrial]
    truth: Mapping[str, PlainTrial]

    @classmethod
    def of(cls, spark: SparkSession, trials: Sequence[PlantedTrial]) -> Planted:
        """Put trials into memory."""
        return cls(
            frames_from_tables(spark, combined_tables(trials)),
            trials,
            {trial.trial_id: plain(trial) for trial in trials},
        )


def how_caught(mutant: Mutant, planted: Planted) -> str | None:
    """Return how a mutant is noticed: the job refuses or breaks, or finds something else than the plain loops; `None`: not at all."""
    try:
        with in_place(mutant):
            found = importlib.import_module("spark_jobs.pipeline").measure_frames(
                planted.frames, [trial.ledger() for trial in planted.trials]
            )
            return None if in_plain_words(found) == planted.truth else "found something else"
    except Exception as error:  # noqa: BLE001 - whatever a mistake leads to, it was noticed
        return f"{type(error).__name__}: {error}".split("\n", maxsplit=1)[0][:160]
    finally:
        planted.frames.attempts.sparkSession.catalog.clearCache()


def measured_in_memory(spark: SparkSession, *trials: PlantedTrial) -> dict[str, pa.Table]:
    """Return what the job, with whatever is in place of its modules, finds of trials in memory."""
    found: dict[str, pa.Table] = importlib.import_module("spark_jobs.pipeline").measure_frames(
        frames_from_tables(spark, combined_tables(trials)), [of.ledger() for of in trials]
    )
    return found


@contextmanager
def in_place(mutant: Mutant) -> Iterator[None]:
    """Let what is imported within the context find the mutant, and not its module."""
    before = _present()
    try:
        _forget(set(before) - (STAYS - {mutant.module}))
        module = ModuleType(mutant.module)
        _put(module)
        exec(compile(mutant.tree(), mutant.module, "exec"), module.__dict__)  # noqa: S102 - our own code, changed in one place
        yield
    finally:
        _forget(set(_present()))
        for module in before.values():
            _put(module)


def _present() -> dict[str, ModuleType]:
    """Return the job's modules, and the tests' own that may hold objects of theirs."""
    return {
        name: module
        for name, module in sys.modules.items()
        if name.startswith(("spark_jobs.", "support."))
    }


def _put(module: ModuleType) -> None:
    """Let both ways to import find the module: by its name, and as a part of its package."""
    sys.modules[module.__name__] = module
    package, _, name = module.__name__.rpartition(".")
    setattr(sys.modules[package], name, module)


def _forget(names: AbstractSet[str]) -> None:
    for name in names:
        del sys.modules[name]
        package, _, part = name.rpartition(".")
        vars(sys.modules[package]).pop(part, None)


@dataclass
class Remembered:
    """What Spark answered to a plan; a mutant leaves most plans as they are, and what they give need not be computed again."""

    answers: dict[tuple[str, ...], Any] = field(default_factory=dict)
    given: list[str] = field(default_factory=list)
    """What tables were handed to Spark meanwhile: a plan does not tell what is in them."""

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Answer from memory within the context, where the same was asked before of the same tables."""
        from pyspark.sql.classic.dataframe import DataFrame as Classic

        self.given.clear()
        with pytest.MonkeyPatch.context() as patch:
            for asked in ("toArrow", "count"):
                patch.setattr(Classic, asked, self._asked(asked, getattr(Classic, asked)))
            patch.setattr(
                SparkSession, "createDataFrame", self._noted(SparkSession.createDataFrame)
            )
            yield

    def _asked(self, name: str, compute: Callable[[DataFrame], Any]) -> Callable[[DataFrame], Any]:
        def answer(frame: DataFrame) -> Any:
            key = (
                name,
                *frame.columns,
                frame._jdf.queryExecution().analyzed().canonicalized().toString(),
                *self.given,
            )
            if key not in self.answers:
                self.answers[key] = compute(frame)
            return self.answers[key]

        return answer

    def _noted(self, make: Callable[..., DataFrame]) -> Callable[..., DataFrame]:
        def made(spark: SparkSession, rows: Any, *schema: Any) -> DataFrame:
            self.given.append(repr(rows.to_pylist() if isinstance(rows, pa.Table) else rows))
            return make(spark, rows, *schema)

        return made


@contextmanager
def small_plans(spark: SparkSession) -> Iterator[None]:
    """Set the session to many small plans, and back."""
    before = {name: spark.conf.get(name, None) for name in SMALL}
    for name, value in SMALL.items():
        spark.conf.set(name, value)
    logging.disable(logging.CRITICAL)  # a plan that a mutant made impossible is a page of text
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
        for name, was in before.items():
            if was is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, was)
