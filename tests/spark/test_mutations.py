"""Mistakes planted in the code that judges: generated histories must tell each from the right one."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from mutations.cases import a_case_fails, run
from mutations.choosing import (
    BY_BOTH,
    BY_CASES,
    BY_HISTORIES,
    drawn,
    equivalents,
    mutants_in,
    tried,
)
from mutations.mutator import Mutant
from mutations.running import Planted, Remembered, how_caught, measured_in_memory, small_plans
from pyspark.sql import SparkSession
from support.builders.corner_cases import CORNERS
from support.builders.generated import histories
from support.builders.histories import played

from experiments.ledger.schema import TABLES
from spark_jobs.planted import PlantedTrial

SEED = 20
HISTORIES = 128
CASES = {
    "spark_jobs.causes.anomalous_records": [
        Path(__file__).parent / "causes" / "test_anomalous_records.py"
    ],
    "spark_jobs.causes.explanations": [Path(__file__).parent / "causes" / "test_explanations.py"],
}
SECONDS = 3600


@pytest.mark.timeout(SECONDS)
def test_every_mistake_is_noticed(spark: SparkSession) -> None:
    """But for those that are listed as no mistakes, and of those none."""
    trials = [
        played(history, f"{number:05d}")
        for number, history in enumerate([*CORNERS, *histories(HISTORIES, SEED)])
    ]
    planted, memory = Planted.of(spark, [backwards(trial) for trial in trials]), Remembered()

    def noticed(mutant: Mutant) -> bool:
        with memory.in_use():
            return how_caught(mutant, planted) is not None or a_case_fails(
                mutant, CASES.get(mutant.module, []), _given(spark)
            )

    with small_plans(spark):
        tried(drawn(mutants_in([*BY_HISTORIES, *BY_BOTH]), unless_asked="16"), noticed)


@pytest.mark.parametrize("module", BY_BOTH)
def test_the_cases_hold_without_a_mistake(spark: SparkSession, module: str) -> None:
    """Or else every mistake would seem to be noticed."""
    run(CASES[f"spark_jobs.{module}"], _given(spark))


def test_what_is_listed_as_no_mistake_can_be_made() -> None:
    """The list holds no name of code that is gone, and each has its reason."""
    names = {mutant.name for mutant in mutants_in([*BY_HISTORIES, *BY_BOTH, *BY_CASES])}
    assert [
        name for name, reason in equivalents().items() if name not in names or not reason.strip()
    ] == []


def backwards(trial: PlantedTrial) -> PlantedTrial:
    """Return a trial with its rows in the opposite order: what forgets to ask for an order must not find it in the files."""
    rows: dict[str, Any] = {name: getattr(trial, name)[::-1] for name in TABLES}
    return replace(trial, **rows)


def _given(spark: SparkSession) -> dict[str, Any]:
    return {"spark": spark, "measured": partial(measured_in_memory, spark)}
