"""Mistakes planted in the code that says why: its own planted cases must tell each from the right one."""

from pathlib import Path

import pytest
from mutations.cases import a_case_fails, run
from mutations.choosing import BY_CASES, drawn, mutants_in, tried

CASES = [
    Path(__file__).parents[2] / "spark" / "causes" / name
    for name in ("test_rules.py", "test_attribution.py", "test_outages.py")
]
SECONDS = 1800


def test_the_cases_hold_without_a_mistake() -> None:
    """Or else every mistake would seem to be noticed."""
    run(CASES, given={})


@pytest.mark.timeout(SECONDS)
def test_every_mistake_is_noticed() -> None:
    """But for those that are listed as no mistakes, and of those none."""
    tried(
        drawn(mutants_in(BY_CASES), unless_asked="60"),
        lambda mutant: a_case_fails(mutant, CASES, given={}),
    )
