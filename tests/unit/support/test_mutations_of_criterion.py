"""Mutants of the rule that turns a criterion into a conclusion: its own tests detect each."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest
from mutations.cases import run_cases
from mutations.choosing import select_mutants
from mutations.mutator import Mutant, mutants_of

from experiments import lessons
from experiments.lessons import criterion

CASES = [Path(__file__).parents[1] / "lessons" / "test_criterion.py"]
EQUIVALENT = {
    "self.higher > self.lower -> self.higher >= self.lower": "equal numbers are not significant",
    "pvalue >= 1 - CONFIDENCE -> binomtest(self.higher, self.pairs, 0.5).pvalue > 1 - CONFIDENCE": (
        "no p-value of the sign test is 0.05"
    ),
}
"""Mutants that change nothing, by the end of their names, with the reason."""
SECONDS = 900


def is_caught(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Return whether a test fails with the mutant in the module's place."""
    module = ModuleType(mutant.module)
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, mutant.module, module)
        patched.setattr(lessons, "criterion", module)
        try:
            # This project's own code, changed in one place.
            exec(compile(mutant.tree(), mutant.module, "exec"), module.__dict__)  # noqa: S102
            run_cases(CASES, {})
        except (Exception, pytest.fail.Exception):  # noqa: BLE001 - any error: it was caught
            return True
    return False


@pytest.mark.timeout(SECONDS)
def test_every_mutant_of_the_criterion_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A finding would otherwise be stronger, or weaker, than its figures."""
    mutants = list(mutants_of(criterion.__name__, Path(criterion.__file__)))
    missed = [
        mutant.name
        for mutant in select_mutants(mutants, default="10")
        if not mutant.name.endswith(tuple(EQUIVALENT)) and not is_caught(mutant, monkeypatch)
    ]
    assert missed == []


def test_the_cases_hold_without_a_mistake() -> None:
    """Or else every mistake would seem to be noticed."""
    run_cases(CASES, {})
