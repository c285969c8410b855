"""Mutants of what turns observations into verdicts and conclusions: its own tests detect each."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import FrameType, ModuleType

import pytest
from mutations.cases import run_cases
from mutations.choosing import select_mutants
from mutations.mutator import Mutant, mutants_of
from support.tiers import examples

TESTS = Path(__file__).parents[1]
MODULES = (
    "results/lessons/criterion",
    "verdicts/guarantees/violations",
    "verdicts/judge",
    "verdicts/statistics",
    "verdicts/power",
)
CASES = {
    f"ackbench.experiments.{module.replace('/', '.')}": (TESTS / module).with_name(
        f"test_{module.rpartition('/')[2]}.py"
    )
    for module in MODULES
}
"""By module, the file whose tests must notice each of its mutants."""
FIXTURES: Mapping[str, Callable[..., None]] = {"says": lambda *_, **__: None}
"""Sentences are compared by the tests themselves; without the fixture they were left out here."""
EQUIVALENT = {
    "self.higher > self.lower -> self.higher >= self.lower": "equal numbers are not significant",
    "pvalue >= 1 - CONFIDENCE -> binomtest(self.higher, self.pairs, 0.5).pvalue > 1 - CONFIDENCE": (
        "no p-value of the sign test is 0.05"
    ),
    "trials_for_width: 0 -> 1 (3)": "with one trial at most, the answer is one",
    "trials_for_width: 1 -> 2 (2)": "the search begins at two, and finds one all the same",
    "trials_for_width: 2 -> 3": "the search begins with wider steps, and finds the same number",
    "_percent: percent < limit -> percent <= limit": "10 and 1 are written without a point",
    "_record_key: 1 -> 2": "any negative number comes before all numbers of producers",
    "_record_key: 1 -> 2 (2)": "any negative number comes before all numbers of records",
}
"""Mutants that change nothing, by the end of their names, with the reason."""
SECONDS = 7200
ENDLESS_S = 300.0
"""A mutant whose cases take longer does not end, so it is caught; they take a few seconds."""


class Endless(BaseException):
    """A mutant does not end. No `Exception`, which hypothesis would try to reproduce."""


def is_caught(mutant: Mutant, cases: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Return whether a test fails with the mutant in the module's place."""
    package, _, name = mutant.module.rpartition(".")
    module = ModuleType(mutant.module)
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, mutant.module, module)
        patched.setattr(import_module(package), name, module)
        try:
            signal.setitimer(signal.ITIMER_REAL, ENDLESS_S)
            # This project's own code, changed in one place.
            exec(compile(mutant.tree(), mutant.module, "exec"), module.__dict__)  # noqa: S102
            run_cases([cases], FIXTURES)
        except (Exception, pytest.fail.Exception, Endless):  # noqa: BLE001 - it was caught
            return True
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    return False


@pytest.fixture(autouse=True)
def _endless_mutants_end() -> Iterator[None]:
    """Interrupt cases that do not end."""
    before = signal.signal(signal.SIGALRM, _interrupt)
    yield
    signal.signal(signal.SIGALRM, before)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise Endless


@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("module", CASES)
def test_every_mutant_of_a_module_that_judges_is_caught(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A verdict or a finding would otherwise be stronger, or weaker, than its figures."""
    file = Path(str(import_module(module).__file__))
    missed = [
        mutant.name
        for mutant in select_mutants(list(mutants_of(module, file)), default=str(examples(3)))
        if not mutant.name.endswith(tuple(EQUIVALENT))
        and not is_caught(mutant, CASES[module], monkeypatch)
    ]
    assert missed == []


@pytest.mark.further("ackbench.experiments.verdicts.statistics")
@pytest.mark.parametrize("module", CASES)
def test_the_cases_hold_without_a_mistake(module: str) -> None:
    """Or else every mistake would seem to be noticed."""
    run_cases([CASES[module]], FIXTURES)
