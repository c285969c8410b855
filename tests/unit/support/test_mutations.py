"""Mutants of the code that judges: the generated histories must detect each of them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mutations.cases import is_caught_by_cases, run_cases
from mutations.choosing import (
    JUDGED_BY_BOTH,
    JUDGED_BY_CASES,
    JUDGED_BY_HISTORIES,
    assert_caught,
    equivalent_mutants,
    mutants_in,
    select_mutants,
)
from mutations.mutator import Mutant
from mutations.running import Planted, how_caught, measure_in_memory
from support.builders.corner_cases import CORNER_CASES
from support.builders.generated import generate_histories
from support.builders.histories import play

from ackbench.experiments.ledger.schema import TABLES
from ackbench.spark_jobs.planted import PlantedTrial

SEED = 20
HISTORIES = 128
CAUSES = Path(__file__).parents[1] / "spark_jobs" / "causes"
MEASURES = CAUSES.with_name("measures")
CASES = {
    "ackbench.spark_jobs.causes.anomalous_records": [CAUSES / "test_anomalous_records.py"],
    "ackbench.spark_jobs.causes.explanations": [
        CAUSES / "test_explanations.py",
        CAUSES / "test_first_anomalies.py",
    ],
    "ackbench.spark_jobs.measures.availability": [MEASURES / "test_availability.py"],
    "ackbench.spark_jobs.measures.stalls": [MEASURES / "test_availability.py"],
    "ackbench.spark_jobs.measures.stall_rows": [MEASURES / "test_availability.py"],
    "ackbench.spark_jobs.measures.compaction": [MEASURES / "test_compaction.py"],
    "ackbench.spark_jobs.measures.consumed": [MEASURES / "test_consumed.py"],
}
FIXTURES: dict[str, Any] = {"measured": measure_in_memory}
SECONDS = 3600


@pytest.mark.further
@pytest.mark.timeout(SECONDS)
def test_every_mutant_is_caught(tmp_path: Path) -> None:
    """The exceptions are the listed equivalent mutants, and none of those is caught."""
    trials = [
        play(history, f"{number:05d}")
        for number, history in enumerate([*CORNER_CASES, *generate_histories(HISTORIES, SEED)])
    ]
    planted = Planted.of([backwards(trial) for trial in trials], tmp_path / "sweep")

    def how(mutant: Mutant) -> str | None:
        caught = how_caught(mutant, planted)
        if caught is not None:
            return caught
        cases = CASES.get(mutant.module, [])
        return "its cases" if is_caught_by_cases(mutant, cases, FIXTURES) else None

    assert_caught(
        select_mutants(mutants_in([*JUDGED_BY_HISTORIES, *JUDGED_BY_BOTH]), default="4"), how
    )


@pytest.mark.further
@pytest.mark.parametrize("module", JUDGED_BY_BOTH)
def test_the_cases_hold_without_a_mistake(module: str) -> None:
    """Or else every mistake would seem to be noticed."""
    run_cases(CASES[f"ackbench.spark_jobs.{module}"], FIXTURES)


def test_what_is_listed_as_no_mistake_can_be_made() -> None:
    """The list holds no name of code that is gone, and each has its reason."""
    names = {
        mutant.name
        for mutant in mutants_in([*JUDGED_BY_HISTORIES, *JUDGED_BY_BOTH, *JUDGED_BY_CASES])
    }
    assert [
        name
        for name, reason in equivalent_mutants().items()
        if name not in names or not reason.strip()
    ] == []


def backwards(trial: PlantedTrial) -> PlantedTrial:
    """Return a trial with its rows in reverse order.

    Code that forgets to sort must not find the right order in the files.
    """
    rows: dict[str, Any] = {name: getattr(trial, name)[::-1] for name in TABLES}
    return replace(trial, **rows)
