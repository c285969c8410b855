"""Whether trials meet what an experiment expects of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.golden_files import Says

from ackbench.experiments.ledger.trial_manifest import Status
from ackbench.experiments.results.expectations import expectation_lines, expectation_results
from ackbench.experiments.results.models import (
    CellResult,
    ExpectationOutcome,
    ExpectationResult,
    FaultResult,
    Latencies,
    Quantiles,
    TrialResult,
)
from ackbench.experiments.sweep.expectations import Expectation, Relation

CELL = {"acks": "all", "fault": "leader-crash"}
MET, NOT_MET, UNKNOWN = ExpectationOutcome


def a_trial(number: int = 0, status: Status = Status.SEALED, **values: Any) -> TrialResult:
    """Return a measured trial of the cell."""
    return TrialResult(
        trial_id=f"{number:03d}-abcdef",
        cell=CELL,
        label="acks=all leader-crash",
        repeat=number,
        status=status,
        fault=FaultResult(kind="leader-crash"),
        **{"attempted": 100, **values},
    )


def outcome(expectation: Expectation, *trials: TrialResult, **cell: Any) -> list[ExpectationResult]:
    """Return what trials of the cell show."""
    of_cell = CellResult(cell=CELL, label="acks=all leader-crash", planned_trials=2, **cell)
    return list(expectation_results([expectation], [of_cell], trials))


def nothing_lost(**changes: Any) -> Expectation:
    """Return `lost = 0`."""
    return Expectation(**{"measure": "lost", "relation": Relation.EQUAL, "bound": 0, **changes})


@pytest.mark.parametrize(
    ("lost", "expected"),
    [
        ([(0, 0), (0, 0)], MET),
        ([(0, 0), (3, 3)], NOT_MET),
        ([(0, 0), (1, 5)], NOT_MET),
        ([(0, 0), (0, 5)], UNKNOWN),
        ([(0, 0), None], UNKNOWN),
        ([], UNKNOWN),
    ],
)
def test_every_trial_of_a_cell_has_to_meet_it(
    lost: list[tuple[int, int] | None], expected: ExpectationOutcome
) -> None:
    """One that may have lost a record, or was not measured, is not enough."""
    trials = [a_trial(number, lost=value) for number, value in enumerate(lost)]
    (found,) = outcome(nothing_lost(), *trials)
    assert found.outcome is expected


def test_a_trial_that_is_set_aside_shows_what_it_saw_and_meets_nothing() -> None:
    """A void trial that lost records lost them; one that lost none proves nothing."""
    (saw,) = outcome(nothing_lost(), a_trial(0, Status.VOID, lost=(3, 3)), a_trial(1, lost=(0, 0)))
    (proved,) = outcome(nothing_lost(), a_trial(0, Status.VOID, lost=(0, 0)))
    assert (saw.outcome, saw.not_met_in, saw.worst) == (NOT_MET, ("000-abcdef",), (3, 3))
    assert proved.outcome is UNKNOWN


def test_a_trial_in_which_something_else_died_shows_nothing() -> None:
    """What killed a broker may have lost its records."""
    disturbed = a_trial(0, Status.VOID, lost=(3, 3), disturbances=("node 1 was killed",))
    assert outcome(nothing_lost(), disturbed)[0].outcome is UNKNOWN


@pytest.mark.parametrize("measure", ["unavailable_ms", "ack_p99_ms", "recovered_before_heal"])
def test_times_of_an_overloaded_trial_are_unknown(measure: str) -> None:
    """The machine was too slow, not Kafka; what was lost counts all the same."""
    slow = Quantiles(records=9, negative_records=0, p50=1, p90=2, p99=9e9, p99_9=9e9, max=9e9)
    trial = a_trial(
        overloaded=True,
        unavailable_ms=9e9,
        latency_ms=Latencies(ack=slow),
        recovered_before_heal=False,
        lost=(1, 1),
    )
    bound = True if measure == "recovered_before_heal" else 50
    relation = Relation.EQUAL if measure == "recovered_before_heal" else Relation.LESS
    of_time = Expectation(measure=measure, relation=relation, bound=bound)
    assert outcome(of_time, trial)[0].outcome is UNKNOWN
    assert outcome(of_time, trial.model_copy(update={"overloaded": False}))[0].outcome is NOT_MET
    assert outcome(nothing_lost(), trial)[0].outcome is NOT_MET


def test_an_expectation_is_about_the_cells_that_it_names_and_about_no_added_control() -> None:
    """Nor about a cell that its client refuses."""
    lost = a_trial(lost=(1, 1))
    assert outcome(nothing_lost(where={"acks": (1,)}), lost) == []
    assert outcome(nothing_lost(where={"acks": (1, "all")}), lost)[0].outcome is NOT_MET
    assert outcome(nothing_lost(), lost, added=True) == []
    assert outcome(nothing_lost(), lost, refused="no such setting") == []


def test_the_lines_have_the_worst_figure_and_the_trials(says: Says) -> None:
    """Counts as whole numbers, times with their unit."""
    trials = [a_trial(0, lost=(7, 9), unavailable_ms=250.0), a_trial(1, lost=(0, 0))]
    slow = Expectation(measure="unavailable_ms", relation=Relation.LESS, bound=100)
    lines = [
        line for one in (nothing_lost(), slow) for line in expectation_lines(outcome(one, *trials))
    ]
    says(lines)


@given(st.sampled_from(Relation), st.integers(0, 5), st.integers(0, 5), st.integers(0, 5))
def test_an_interval_meets_a_bound_if_each_of_its_values_does(
    relation: Relation, bound: int, one: int, other: int
) -> None:
    """And does not if none does; else nobody knows."""
    low, high = sorted((one, other))
    expectation = Expectation(measure="lost", relation=relation, bound=bound)
    each = {expectation.holds(value, value) for value in range(low, high + 1)}
    assert expectation.holds(low, high) is (each.pop() if len(each) == 1 else None)
