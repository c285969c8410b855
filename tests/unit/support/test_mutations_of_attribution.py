"""Mutants of the code that attributes causes are caught by its planted cases."""

from pathlib import Path

import pytest
from mutations.cases import is_caught_by_cases, run_cases
from mutations.choosing import (
    JUDGED_BY_CASES,
    assert_caught,
    equivalent_mutants,
    mutants_in,
    select_mutants,
)

CASES = [
    Path(__file__).parents[1] / "spark_jobs" / "causes" / name
    for name in ("test_rules.py", "test_attribution.py", "test_outages.py")
]
SECONDS = 1800


def test_the_cases_pass_without_a_mutant() -> None:
    """If they failed, every mutant would seem to be caught."""
    run_cases(CASES, fixtures={})


def test_an_equivalent_mutant_is_not_caught() -> None:
    """If it were, an error in the replacement of modules could seem to catch every mutant."""
    mutants = [m for m in mutants_in(JUDGED_BY_CASES) if m.name in equivalent_mutants()]
    assert mutants
    assert not any(is_caught_by_cases(mutant, CASES, fixtures={}) for mutant in mutants)


@pytest.mark.further
@pytest.mark.timeout(SECONDS)
def test_every_mutant_is_caught() -> None:
    """The exceptions are the listed equivalent mutants, and none of those is caught."""
    assert_caught(
        select_mutants(mutants_in(JUDGED_BY_CASES), default="60"),
        lambda mutant: "its cases" if is_caught_by_cases(mutant, CASES, fixtures={}) else None,
    )
