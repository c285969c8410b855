"""Lesson 19: a late commit and the next transaction."""

from __future__ import annotations

from itertools import product

import pytest
from support.builders.findings import a_trial, finding_input_of_trials
from support.golden_files import Says

from ackbench.experiments.ledger.quantities import TransactionCounts
from ackbench.experiments.results.lessons.finding import Conclusion, Finding
from ackbench.experiments.results.lessons.of_sweep import load_finding
from ackbench.experiments.results.models import FaultResult, TrialResult

FAULT = "end-txn-delayed"
find = load_finding("delayed_commit")
CASES = tuple(product(("librdkafka", "java"), (1, 2)))
EXPECTED = {("librdkafka", 1): 1, ("librdkafka", 2): 1, ("java", 1): 1, ("java", 2): 0}


def trial(client: str, level: int, fault: str, torn: int, aborted_visible: int = 0) -> TrialResult:
    """Return a trial with these violations of atomicity."""
    version = 5 if (client, level) == ("java", 2) else 1
    counts = TransactionCounts(
        committed=1, aborted=1, unknown=0, torn=torn, aborted_visible=aborted_visible
    )
    held = f"a relay held EndTxn v{version} to node 1, held for 1.00 s, delivered in the next"
    evidence = (f"{held} transaction, answered with error {90 if version == 5 else 0}: NAME",)
    return a_trial(
        {"client": client, "transaction.version": level, "fault": fault}, transactions=counts
    ).model_copy(update={"fault": FaultResult(kind=fault, took_effect=True, evidence=evidence)})


def found(torn: dict[tuple[str, int], int], *, undisturbed: int = 0, repeats: int = 3) -> Finding:
    """Return the finding when each trial of a case has so many torn transactions."""
    trials = [
        one
        for client, level in CASES
        for one in (
            trial(client, level, "none", undisturbed),
            trial(client, level, FAULT, torn[client, level]),
        )
        for _ in range(repeats)
    ]
    return find(finding_input_of_trials(trials))


def test_transactions_torn_except_with_java_and_transaction_version_2_support_the_claim(
    says: Says,
) -> None:
    """The sentences have each client's version of EndTxn."""
    finding = found(EXPECTED)
    assert finding.conclusion is Conclusion.SUPPORTED
    says(finding.sentence)


@pytest.mark.parametrize("case", CASES)
def test_any_other_outcome_of_a_case_refutes_the_claim(case: tuple[str, int]) -> None:
    """A torn transaction where none may be, or none where the late commit decides."""
    assert found({**EXPECTED, case: 1 - EXPECTED[case]}).conclusion is Conclusion.REFUTED


def test_a_torn_transaction_without_a_fault_refutes_the_claim() -> None:
    """Then something else tears them."""
    assert found(EXPECTED, undisturbed=1).conclusion is Conclusion.REFUTED


def test_too_few_trials_are_inconclusive() -> None:
    """Twice as many as a finding needs would be enough."""
    finding = found(EXPECTED, repeats=2)
    assert (finding.conclusion, finding.repeats_needed) == (Conclusion.INCONCLUSIVE, 6)
    assert find(finding_input_of_trials([])).conclusion is Conclusion.INCONCLUSIVE


def test_a_visible_record_of_an_aborted_transaction_counts_as_torn() -> None:
    """All of its records may be visible."""
    trials = [trial("java", 2, FAULT, 0, aborted_visible=5) for _ in range(3)]
    assert find(finding_input_of_trials(trials)).conclusion is Conclusion.REFUTED
