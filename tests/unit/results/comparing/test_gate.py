"""What passes the gate of one sweep, and what fails it."""

from __future__ import annotations

import pytest
from support.builders.sweeps import SAFE, TRUTHS, measured_sweep
from support.golden_files import Says

from ackbench.experiments.ledger.trial_manifest import Role, Status
from ackbench.experiments.results.comparing.gate import NO_GATE, Gate
from ackbench.experiments.results.comparing.sentences import failure_sentence, inspected_sentence
from ackbench.experiments.results.expectations import expectation_results
from ackbench.experiments.results.models import SweepResults
from ackbench.experiments.sweep.expectations import Expectation, Relation
from ackbench.infra.errors import InputError

SAFE_TRIALS = [f"000-{repeat:06d}" for repeat in range(5)]
"""The ids of the first cell's trials."""


def failures(results: SweepResults, *expressions: str) -> list[str]:
    """Return the reasons of the gate with these expressions, without the sweep's name."""
    reasons = Gate.parse(expressions or ["violated"]).sweep_failures(results)
    return [failure_sentence(one).replace(f"{results.sweep_id}: ", "") for one in reasons]


def with_status(results: SweepResults, role: Role, status: Status) -> SweepResults:
    """Return results in which all trials of one role have this status."""
    trials = tuple(
        trial.model_copy(update={"status": status}) if trial.role is role else trial
        for trial in results.trials
    )
    return results.model_copy(update={"trials": trials})


def test_a_sweep_that_was_judged_without_a_violation_passes() -> None:
    """Records that are lost or duplicated without a guarantee are no violation."""
    assert failures(measured_sweep().results) == []


@pytest.mark.parametrize(
    ("role", "name"), [(Role.CONTROL, "control"), (Role.POSITIVE_CONTROL, "positive control")]
)
@pytest.mark.parametrize("status", [Status.FAILED, Status.VOID, Status.INCOMPLETE])
@pytest.mark.parametrize("expression", ["violated", "unknown"])
def test_a_control_that_was_not_judged_fails_every_gate(
    role: Role, name: str, status: Status, expression: str
) -> None:
    """Without it nothing shows that the harness loses nothing itself, or that it sees a loss."""
    reasons = failures(with_status(measured_sweep().results, role, status), expression)
    assert any(
        reason.startswith(f"controls: the {name} (") and reason.endswith("was not judged")
        for reason in reasons
    )


@pytest.mark.parametrize("field", ["pending", "unmeasured"])
def test_missing_trials_fail_every_gate(field: str) -> None:
    """Nobody knows what they would have shown."""
    results = measured_sweep().results.model_copy(update={field: ("007-abcdef",)})
    state = {"pending": "not run", "unmeasured": "not measured"}[field]
    assert failures(results) == [f"missing: 1 trial {state} (007-abcdef)"]


def test_a_failed_trial_fails_every_gate() -> None:
    """The sweep has fewer trials than it was to have."""
    results = measured_sweep().results
    first, *others = results.trials
    failed = first.model_copy(update={"status": Status.FAILED})
    assert failures(results.model_copy(update={"trials": (failed, *others)})) == [
        f"missing: 1 trial failed ({first.trial_id})"
    ]


@pytest.mark.parametrize("expression", ["violated", "unknown"])
def test_a_client_that_hung_fails_every_gate(expression: str) -> None:
    """Such a trial is sealed; its client would have stopped an application."""
    results = measured_sweep().results
    first, *others = results.trials
    hung = first.model_copy(update={"hung_clients": ("copier 1.0: commit() had not returned",)})
    reasons = failures(results.model_copy(update={"trials": (hung, *others)}), expression)
    assert f"hung: in trial {first.trial_id}: copier 1.0: commit() had not returned" in reasons


def test_a_cell_without_a_trial_that_counts_fails_the_gate_on_violations() -> None:
    """All of its faults were void: it has verdicts, and each is "nothing to judge"."""
    reasons = failures(measured_sweep(void=SAFE_TRIALS).results)
    assert len(reasons) == 1
    assert reasons[0].startswith("missing: acks=all")
    assert reasons[0].endswith("no trial counts: nothing was judged")


def expecting(results: SweepResults, measure: str) -> SweepResults:
    """Return results of an experiment that expects none of a measure in its cells."""
    none = Expectation(measure=measure, relation=Relation.EQUAL, bound=0)
    found = tuple(expectation_results([none], results.cells, results.trials))
    return results.model_copy(update={"expectations": found})


@pytest.mark.parametrize(
    ("measure", "cells"),
    [("lost", ["acks=1 "]), ("duplicates", ["acks=all ", "acks=1 "]), ("reordered", [])],
)
def test_what_is_not_as_expected_fails_guaranteed_or_not(measure: str, cells: list[str]) -> None:
    """Without any other gate; each cell has its own line, with its figure and its trials."""
    results = expecting(measured_sweep().results, measure)
    reasons = [failure_sentence(one) for one in NO_GATE.sweep_failures(results)]
    begins = [f"not expected: {results.sweep_id}: {measure} = 0 with {cell}" for cell in cells]
    assert len(reasons) == len(cells)
    assert all(map(str.startswith, reasons, begins))
    assert all(": not met: " in reason and " trial" in reason for reason in reasons)


def test_a_sweep_with_expectations_and_missing_trials_fails() -> None:
    """What was not run is not as expected."""
    results = expecting(measured_sweep().results, "reordered")
    pending = results.model_copy(update={"pending": ("007-abcdef",)})
    assert list(NO_GATE.sweep_failures(results)) == []
    assert len(list(NO_GATE.sweep_failures(pending))) == 1


def test_the_gate_says_what_it_looked_at_and_what_was_lost_without_a_guarantee(says: Says) -> None:
    """A reader of "passed" sees how much that was worth."""
    summary = Gate.parse(["violated"]).sweep_summary(measured_sweep(TRUTHS).results)
    verdicts, *observed = map(inspected_sentence, summary)
    says(verdicts)
    says(observed)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("vio", "; did you mean violated?"),
        ("violatd", "; did you mean violated?"),
        ("unknwon", "; did you mean unknown?"),
        ("lost=0", " (allowed: violated, unknown; for any bound: run --expect lost=0)"),
    ],
)
def test_the_gate_of_one_sweep_names_what_it_takes(expression: str, message: str) -> None:
    """A limit needs two sweeps, so it is not offered."""
    with pytest.raises(InputError) as refused:
        Gate.parse([expression])
    assert str(refused.value) == f"invalid value for --fail-on: {expression!r}{message}"


def test_without_a_gate_nothing_fails() -> None:
    """Whatever is missing."""
    results = measured_sweep((SAFE,), void=SAFE_TRIALS).results
    assert list(NO_GATE.sweep_failures(results)) == []
