"""`--until` adds trials for the width of an interval, not for its position, up to the limits."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from support.fakes.client_rules import RULES

from ackbench.experiments.commands.run_until import RepeatLimits, limited, repeats_needed, too_wide
from ackbench.experiments.ledger.trial_manifest import Cell
from ackbench.experiments.messages.errors import ExperimentError
from ackbench.experiments.planning.cells import cell_key
from ackbench.experiments.planning.experiment import parse_experiment
from ackbench.experiments.planning.planner import extend_plan, plan
from ackbench.experiments.results.models import CellResult
from ackbench.experiments.sweep.plan import Plan, TrialSpec
from ackbench.experiments.verdicts.statistics import share


def a_cell(acks: int | str, seen: int, of: int, **changes: Any) -> CellResult:
    """Return a cell with loss in `seen` of `of` trials, and without duplicates."""
    cell: Cell = {"acks": acks, "fault": "leader-crash"}
    row = CellResult(
        cell=cell,
        label=f"acks={acks}",
        planned_trials=of,
        sealed_trials=of,
        loss=share(seen, of),
        duplication=share(0, of),
    )
    return row.model_copy(update=changes)


def more(*cells: CellResult, width: float = 0.3, max_repeats: int = 1000) -> list[int]:
    """Return the repeats that are added to each cell, without cells that get none."""
    return list(repeats_needed(cells, RepeatLimits(width=width, max_repeats=max_repeats)).values())


@pytest.mark.parametrize(
    ("text", "width"), [("ci<0.1", 0.1), ("ci < 10%", 0.1), (" ci<.25 ", 0.25)]
)
def test_a_width_is_a_share_or_a_percentage(text: str, width: float) -> None:
    """Spaces do not matter."""
    assert RepeatLimits.of(text).width == width


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("30m", 1800), ("1.5h", 5400)])
def test_a_budget_has_its_unit(text: str, seconds: float) -> None:
    """Seconds, minutes or hours."""
    assert RepeatLimits.of("ci<0.1", text).budget_s == seconds


@pytest.mark.parametrize(
    "text", ["ci<0", "ci<1", "ci<100%", "ci<", "ci>0.1", "0.1", "ci<0.1<0.2", "ci<1e-1"]
)
def test_any_other_goal_is_refused(text: str) -> None:
    """The message names what is allowed."""
    with pytest.raises(ExperimentError, match=r"--until is .*; allowed: ci<WIDTH"):
        RepeatLimits.of(text)


def test_a_cell_first_gets_the_minimum_for_the_width() -> None:
    """0 of 11 and 11 of 11 have intervals below 0.3; no share of fewer trials has."""
    assert more(a_cell(1, 0, 1), a_cell("all", 1, 1)) == [10, 10]


def test_a_cell_that_is_narrow_enough_gets_no_repeats() -> None:
    """The share itself does not matter."""
    assert more(a_cell(1, 11, 11), a_cell("all", 0, 11)) == []


def test_a_cell_then_gets_the_repeats_that_its_share_needs_but_at_most_doubles() -> None:
    """6 of 12 would need 48 trials for 0.3, but that is an estimate from twelve trials."""
    given = more(a_cell(1, 6, 12), a_cell("all", 20, 40))

    assert given[0] == 12
    assert 0 < given[1] < 12


@pytest.mark.parametrize(
    ("seen", "of"), [(seen, of) for of in (1, 2, 5, 12, 30) for seen in range(of + 1)]
)
def test_every_interval_becomes_narrow_enough_in_a_few_rounds(seen: int, of: int) -> None:
    """Given that the share stays the same."""
    part = seen / of
    rounds = 0
    while too_wide([cell := a_cell(1, round(part * of), of)], 0.2):
        of += more(cell, width=0.2)[0]
        rounds += 1
    assert rounds <= 6


def test_duplicates_count_like_losses() -> None:
    """The wider of both intervals decides."""
    assert more(a_cell(1, 0, 20, duplication=share(10, 20))) == more(a_cell(1, 10, 20))


def test_no_cell_exceeds_the_maximum_of_repeats() -> None:
    """Void and failed trials count as planned."""
    assert more(
        a_cell(1, 0, 1, planned_trials=4), a_cell("all", 0, 6, planned_trials=6), max_repeats=6
    ) == [2]


def test_controls_refused_cells_and_always_void_cells_get_no_repeats() -> None:
    """Controls do not answer the question; always void cells would never end."""
    nothing: dict[str, Any] = {"sealed_trials": 0, "loss": None, "duplication": None}
    assert (
        more(
            a_cell(1, 0, 1, added=True),
            a_cell(2, 0, 1, refused="no"),
            a_cell(0, 0, 1, void_trials=3, **nothing),
        )
        == []
    )


def test_a_cell_whose_only_trial_was_void_gets_another() -> None:
    """It gets one until a trial is sealed."""
    assert more(a_cell(0, 0, 1, sealed_trials=0, void_trials=1, loss=None, duplication=None)) == [1]


def test_a_limit_is_distributed_one_repeat_at_a_time() -> None:
    """Cells get their repeats in turn."""
    needed = {"a": 3, "b": 1, "c": 2}

    assert limited(needed, 4) == {"a": 2, "b": 1, "c": 1}
    assert limited(needed, 100) == needed
    assert limited(needed, -1) == {}


def a_plan(**changes: Any) -> Plan:
    """Return a plan of three cells and a refused one."""
    axes = [
        {"acks": [0, 1, "all"], "fault": "leader-crash"},
        {"acks": 1, "enable.idempotence": True},
    ]
    small = {
        "name": "small",
        "title": "t",
        "question": "q",
        "axes": axes,
        "workload": {"duration_s": 10},
    }
    return plan(parse_experiment(small | changes, "small.yaml"), "small-1", RULES)


def without_position(trials: Sequence[TrialSpec]) -> dict[int, TrialSpec]:
    """Return the trials by repeat, without the fields that depend on their position."""
    return {trial.repeat: trial.model_copy(update={"trial_id": "", "order": 0}) for trial in trials}


def test_added_repeats_equal_those_of_a_larger_plan() -> None:
    """Cells, seeds and settings are equal; only position and id differ."""
    few, many = a_plan(repeats=2), a_plan(repeats=5)
    key = cell_key(few.trials[0].cell)
    added = extend_plan(few, {key: 3}).trials[len(few.trials) :]
    expected = [trial for trial in many.trials if cell_key(trial.cell) == key and trial.repeat >= 2]

    assert without_position(added) == without_position(expected)


def test_added_repeats_follow_all_planned_trials() -> None:
    """Ids, also those of refused cells, and orders stay unique, also after two extensions."""
    few = a_plan()
    key = cell_key(few.trials[0].cell)
    twice = extend_plan(extend_plan(few, {key: 2}), {key: 1, cell_key(few.trials[1].cell): 4})
    ids = [*(trial.trial_id for trial in twice.trials), *(cell.trial_id for cell in twice.refused)]
    orders = [trial.order for trial in twice.trials]

    assert twice.trials[: len(few.trials)] == few.trials
    assert len(ids) == len(set(ids)) == len(few.trials) + len(few.refused) + 7
    assert orders == sorted(set(orders))
    assert [trial.trial_id for trial in twice.trials] == sorted(
        trial.trial_id for trial in twice.trials
    )


def test_added_repeats_are_grouped_by_cluster() -> None:
    """The cluster changes once per group, not once per trial."""
    few = a_plan(
        axes={
            "acks": [0, 1, "all"],
            "fault": "leader-crash",
            "broker.session.timeout.ms": [4000, 9000],
        }
    )
    added = extend_plan(few, {cell_key(trial.cell): 2 for trial in few.trials}).trials[
        len(few.trials) :
    ]
    changes = sum(before.cluster != after.cluster for before, after in itertools.pairwise(added))

    assert changes == 1
