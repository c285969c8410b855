"""The stated criterion decides: the same rule for every lesson."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builders.findings import a_trial, finding_input_of_trials
from support.golden_files import Says

from ackbench.experiments.planning.catalog.loading import finding_names
from ackbench.experiments.results.lessons.criterion import (
    Outcome,
    PairedOrder,
    conclude,
    outcome,
    paired_order,
)
from ackbench.experiments.results.lessons.finding import Conclusion
from ackbench.experiments.results.lessons.of_sweep import load_finding
from ackbench.experiments.results.models import TrialResult

OUTCOMES = st.lists(st.sampled_from(Outcome))


@given(required=OUTCOMES, further=OUTCOMES, limited=st.booleans())
def test_an_observation_that_refutes_always_decides(
    required: list[Outcome], further: list[Outcome], limited: bool
) -> None:
    """Whatever else was or was not measured; and without one, nothing refutes."""
    refuted = conclude(required, further, limited=limited) is Conclusion.REFUTED
    assert refuted == (Outcome.MET in required + further)


@given(required=OUTCOMES, further=OUTCOMES, limited=st.booleans())
def test_nothing_is_supported_that_was_not_measured(
    required: list[Outcome], further: list[Outcome], limited: bool
) -> None:
    """Supported: every part was measured, there is one, and no case limits the claim."""
    supported = conclude(required, further, limited=limited) is Conclusion.SUPPORTED
    measured = set(required + further) == {Outcome.NOT_MET}
    assert supported == (bool(required) and measured and not limited)


@given(further=OUTCOMES, limited=st.booleans())
def test_an_undecided_required_part_is_never_supported_in_part(
    further: list[Outcome], limited: bool
) -> None:
    """What holds of the rest is in the sentences."""
    found = conclude([Outcome.NOT_MET, Outcome.UNDECIDED], further, limited=limited)
    assert found in {Conclusion.INCONCLUSIVE, Conclusion.REFUTED}


def test_a_claim_is_not_limited_unless_it_is_said() -> None:
    """A case outside of the criterion is named by the finding."""
    assert conclude([Outcome.NOT_MET]) is Conclusion.SUPPORTED
    assert conclude([Outcome.NOT_MET], limited=True) is Conclusion.PARTLY_SUPPORTED


def test_a_single_refuting_observation_needs_no_further_trials() -> None:
    """An absence needs enough trials."""
    assert outcome(met=True, measured=False) is Outcome.MET
    assert outcome(met=False, measured=True) is Outcome.NOT_MET
    assert outcome(met=False, measured=False) is Outcome.UNDECIDED


@pytest.mark.parametrize(
    ("higher", "lower", "expected"),
    [
        (5, 0, Outcome.UNDECIDED),  # p = 0.0625
        (6, 0, Outcome.NOT_MET),  # p = 0.03125
        (0, 6, Outcome.MET),
        (6, 1, Outcome.UNDECIDED),  # p = 0.125
        (8, 1, Outcome.NOT_MET),  # p = 0.039
        (0, 0, Outcome.UNDECIDED),
    ],
)
def test_an_order_is_decided_by_the_sign_test(higher: int, lower: int, expected: Outcome) -> None:
    """Six pairs that agree are the fewest with a two-sided p below 0.05."""
    assert PairedOrder(higher, lower).outcome is expected


def test_pairs_are_trials_of_one_repeat(says: Says) -> None:
    """A trial without a figure or a partner has no pair; equal figures count for neither."""

    def trials(values: list[float | None]) -> list[TrialResult]:
        return [
            a_trial({"fault": "none"}).model_copy(
                update={"repeat": repeat, "unavailable_ms": value}
            )
            for repeat, value in enumerate(values)
        ]

    order = paired_order(
        trials([1, 5, 3, None, 7]), trials([2, 4, 3, 9]), lambda trial: trial.unavailable_ms
    )
    assert (order.higher, order.lower, order.pairs) == (1, 1, 2)
    says(order.text)


@pytest.mark.parametrize("name", finding_names())
def test_a_sweep_without_trials_is_inconclusive(name: str) -> None:
    """No claim is supported or refuted by nothing."""
    finding = load_finding(name)(finding_input_of_trials([]))
    assert finding.conclusion is Conclusion.INCONCLUSIVE
    assert finding.repeats_needed
