"""Signs of a violation in a trial, on hand-written facts."""

from __future__ import annotations

import pytest

from ackbench.experiments.ledger.trial_manifest import Status
from ackbench.experiments.verdicts.guarantees.violations import (
    Bounds,
    Count,
    Doubt,
    Violation,
    YesNo,
    is_positive,
)
from ackbench.experiments.verdicts.judge import TrialFacts

REORDERED = Count("reordered")
VALUES = Count("lost_values", tested_by="compacted")
LOST = Bounds("lost")
WRITTEN = YesNo("recovered_before_heal")


def facts(**values: object) -> TrialFacts:
    """Return the facts of a sealed trial."""
    return TrialFacts.model_validate({"trial_id": "000-a", "status": Status.SEALED, **values})


@pytest.mark.parametrize(
    ("violation", "values", "shown", "count"),
    [
        (REORDERED, {}, None, 0),
        (REORDERED, {"reordered": 0}, False, 0),
        (REORDERED, {"reordered": 1}, True, 1),
        (REORDERED, {"reordered": 7}, True, 7),
        (VALUES, {}, None, 0),
        (VALUES, {"lost_values": 0, "compacted": 0}, None, 0),
        (VALUES, {"lost_values": 0, "compacted": 1}, False, 0),
        (VALUES, {"lost_values": 2, "compacted": 0}, True, 2),
        (VALUES, {"compacted": 5}, None, 0),
        (LOST, {}, None, 0),
        (LOST, {"lost": (0, 0)}, False, 0),
        (LOST, {"lost": (0, 1)}, None, 0),
        (LOST, {"lost": (1, 1)}, True, 1),
        (LOST, {"lost": (3, 9)}, True, 3),
        (WRITTEN, {}, None, 0),
        (WRITTEN, {"recovered_before_heal": True}, False, 0),
        (WRITTEN, {"recovered_before_heal": False}, True, 0),
    ],
)
def test_a_trial_shows_a_violation_or_none_or_cannot_tell(
    violation: Violation, values: dict[str, object], shown: bool | None, count: int
) -> None:
    """Zero needs evidence."""
    assert (violation.shown_in(facts(**values)), violation.count(facts(**values))) == (shown, count)


@pytest.mark.parametrize(
    ("violation", "trials", "doubt"),
    [
        (REORDERED, [{}], Doubt.NOT_MEASURABLE),
        (VALUES, [{"compacted": 0}, {"compacted": 0}], Doubt.NOT_TESTED),
        (VALUES, [{"compacted": 0}, {}], Doubt.NOT_MEASURABLE),
        (LOST, [{"lost": (0, 4)}], Doubt.NOT_BOUNDED),
        (LOST, [{"lost": (0, 4)}, {"lost": (0, 2)}], Doubt.NOT_BOUNDED),
        (LOST, [{"lost": (0, 4)}, {}], Doubt.NOT_MEASURABLE),
        (WRITTEN, [{}], Doubt.NOT_MEASURABLE),
        (WRITTEN, [{"kept_up_before_fault": True}], Doubt.NOT_MEASURABLE),
        (WRITTEN, [{}, {"kept_up_before_fault": False}], Doubt.OVERLOADED),
    ],
)
def test_what_a_trial_cannot_tell_has_a_reason(
    violation: Violation, trials: list[dict[str, object]], doubt: Doubt
) -> None:
    """The reason of its kind if it is that of all these trials; else it was not measurable."""
    assert violation.doubt([facts(**values) for values in trials]) is doubt


@pytest.mark.parametrize(
    ("violation", "values", "most"),
    [
        (REORDERED, {}, None),
        (REORDERED, {"reordered": 7}, 7),
        (LOST, {}, None),
        (LOST, {"lost": (3, 9)}, 9),
        (WRITTEN, {"recovered_before_heal": False}, None),
    ],
)
def test_a_trial_has_at_most_as_many_violations_as_its_upper_bound(
    violation: Violation, values: dict[str, object], most: int | None
) -> None:
    """Of what is no number, none is known."""
    assert violation.at_most(facts(**values)) == most


def test_only_what_depends_on_the_length_of_the_fault_is_of_time() -> None:
    """A trial that is set aside shows the others all the same."""
    assert [one.of_time for one in (REORDERED, VALUES, LOST, WRITTEN)] == [
        False,
        False,
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("bounds", "positive"),
    [(None, None), ((0, 0), False), ((0, 1), None), ((1, 1), True), ((2, 5), True)],
)
def test_a_number_is_positive_if_its_lower_bound_is(
    bounds: tuple[int, int] | None, positive: bool | None
) -> None:
    """Between the bounds it is not known."""
    assert is_positive(bounds) == positive
