"""The test cases of a sweep, for JUnit's XML. Pure.

A guarantee of a cell is a test case. VIOLATED is a failure; a verdict that the trials do not allow
is skipped; a trial that the harness could not complete is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ackbench.experiments.ledger.trial_manifest import Status
from ackbench.experiments.results.expectations import expectation_sentence
from ackbench.experiments.results.formats.junit import Outcome, TestCase
from ackbench.experiments.results.models import ExpectationOutcome, ExpectationResult, SweepResults
from ackbench.experiments.results.sentences import describe_set_aside
from ackbench.experiments.results.wording import verdict_text
from ackbench.experiments.verdicts.judge import Judgement, Verdict

_OUTCOMES: Final[dict[Verdict, Outcome]] = {
    Verdict.HELD: "passed",
    Verdict.NOT_GUARANTEED: "passed",
    Verdict.VIOLATED: "failure",
    Verdict.UNKNOWN: "skipped",
}
_OUTCOMES_OF_EXPECTATIONS: Final[dict[ExpectationOutcome, Outcome]] = {
    ExpectationOutcome.MET: "passed",
    ExpectationOutcome.NOT_MET: "failure",
    ExpectationOutcome.UNKNOWN: "failure",
}
"""An expectation that no trial shows to be met fails, as `ackbench run` does."""
_OUTCOMES_OF_TRIALS: Final[dict[Status, Outcome]] = {
    Status.FAILED: "error",
    Status.VOID: "skipped",
    Status.INCOMPLETE: "skipped",
}
"""Of those that are set aside."""
_TRIALS: Final = "trials"


def sweep_cases(results: SweepResults) -> Iterator[TestCase]:
    """Yield the test cases of a sweep: by cell, guarantees and what is expected; then trials.

    Those of trials are about trials that are set aside or were not run.
    """
    expected: dict[str, list[ExpectationResult]] = {}
    for one in results.expectations:
        expected.setdefault(one.label, []).append(one)
    for cell in results.cells:
        for judgement in cell.judgements:
            yield _case(cell.label, judgement)
        for one in expected.get(cell.label, ()):
            yield TestCase(
                suite=cell.label,
                name=f"expected {one.expectation}",
                outcome=_OUTCOMES_OF_EXPECTATIONS[one.outcome],
                message=expectation_sentence(one),
            )
    for trial in results.trials:
        if outcome := _OUTCOMES_OF_TRIALS.get(trial.status):
            name = f"{trial.trial_id} ({trial.label})"
            yield TestCase(_TRIALS, name, outcome, describe_set_aside(trial))
    for trial_id in results.pending:
        yield TestCase(_TRIALS, trial_id, "skipped", "planned, not run yet")


def _case(label: str, judgement: Judgement) -> TestCase:
    return TestCase(
        suite=label,
        name=judgement.guarantee.name,
        outcome=_OUTCOMES[judgement.verdict],
        message=verdict_text(judgement),
        text="\n".join(judgement.reasons),
    )
