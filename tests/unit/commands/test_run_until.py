"""`--until`: more trials for the width of an interval, never for where it lies, and no more than is allowed."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from support.fakes.client_rules import RULES

from experiments.commands.run_until import RepeatLimits, limited, repeats_needed, too_wide
from experiments.errors import ExperimentError
from experiments.ledger.record import Cell
from experiments.planning.cells import cell_key
from experiments.planning.experiment import parse_experiment
from experiments.planning.planner import extend_plan, plan
from experiments.results.models import CellResult
from experiments.sweep.plan import Plan, TrialSpec
from experiments.verdicts.statistics import share


def a_cell(acks: int | str, seen: int, of: int, **changes: Any) -> CellResult:
    """Return a cell of which so many trials lost, and none repeated."""
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
    """Return how many repeats the cells are given, those with none left out."""
    return list(repeats_needed(cells, RepeatLimits(width=width, max_repeats=max_repeats)).values())


@pytest.mark.parametrize(
    ("text", "width"), [("ci<0.1", 0.1), ("ci < 10%", 0.1), (" ci<.25 ", 0.25)]
)
def test_a_width_is_a_share_or_a_percentage(text: str, width: float) -> None:
    """However it is spaced."""
    assert RepeatLimits.of(text).width == width


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("30m", 1800), ("1.5h", 5400)])
def test_a_budget_has_its_unit(text: str, seconds: float) -> None:
    """A bare number would be anybody's guess."""
    assert RepeatLimits.of("ci<0.1", text).budget_s == seconds


@pytest.mark.parametrize(
    "text", ["ci<0", "ci<1", "ci<100%", "ci<", "ci>0.1", "0.1", "ci<0.1<0.2", "ci<1e-1"]
)
def test_any_other_goal_is_refused(text: str) -> None:
    """With what is allowed."""
    with pytest.raises(ExperimentError, match=r"--until is .*; allowed: ci<WIDTH"):
        RepeatLimits.of(text)


def test_at_first_a_cell_is_given_what_the_width_takes_at_least() -> None:
    """Below 0.3 lie 0 of 11 and 11 of 11, and no share of fewer trials."""
    assert more(a_cell(1, 0, 1), a_cell("all", 1, 1)) == [10, 10]


def test_a_cell_that_is_narrow_enough_is_given_none() -> None:
    """However much was lost in it."""
    assert more(a_cell(1, 11, 11), a_cell("all", 0, 11)) == []


def test_then_as_many_as_the_share_that_was_seen_asks_for_but_no_more_than_there_are() -> None:
    """Half of 12 would take 48 for 0.3 if half it is; that is an estimate of twelve trials."""
    given = more(a_cell(1, 6, 12), a_cell("all", 20, 40))

    assert given[0] == 12
    assert 0 < given[1] < 12


@pytest.mark.parametrize(
    ("seen", "of"), [(seen, of) for of in (1, 2, 5, 12, 30) for seen in range(of + 1)]
)
def test_what_is_asked_for_is_reached_at_last(seen: int, of: int) -> None:
    """Trials that go on as they began make every interval narrow enough in a few rounds."""
    part = seen / of
    rounds = 0
    while too_wide([cell := a_cell(1, round(part * of), of)], 0.2):
        of += more(cell, width=0.2)[0]
        rounds += 1
    assert rounds <= 6


def test_duplicates_count_as_losses_do() -> None:
    """The wider of both intervals decides."""
    assert more(a_cell(1, 0, 20, duplication=share(10, 20))) == more(a_cell(1, 10, 20))


def test_no_cell_goes_beyond_the_most_repeats() -> None:
    """Void and failed trials were planned too."""
    assert more(
        a_cell(1, 0, 1, planned_trials=4), a_cell("all", 0, 6, planned_trials=6), max_repeats=6
    ) == [2]


def test_controls_refused_cells_and_cells_that_are_always_void_are_given_none() -> None:
    """The first say nothing of the question, the second cannot be run, the third would go on for ever."""
    nothing: dict[str, Any] = {"sealed_trials": 0, "loss": None, "duplication": None}
    assert (
        more(
            a_cell(1, 0, 1, added=True),
            a_cell(2, 0, 1, refused="no"),
            a_cell(0, 0, 1, void_trials=3, **nothing),
        )
        == []
    )


def test_a_cell_whose_only_trial_was_void_is_given_another() -> None:
    """One, until it is known what its trials show."""
    assert more(a_cell(0, 0, 1, sealed_trials=0, void_trials=1, loss=None, duplication=None)) == [1]


def test_a_cut_is_shared_out_a_repeat_at_a_time() -> None:
    """No cell is ahead of another by more than it asked for."""
    overrides = {"a": 3, "b": 1, "c": 2}

    assert limited(overrides, 4) == {"a": 2, "b": 1, "c": 1}
    assert limited(overrides, 100) == overrides
    assert limited(overrides, -1) == {}


def a_plan(**changes: Any) -> Plan:
    """Return a plan of three cells and one that is refused."""
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


def without_place(trials: Sequence[TrialSpec]) -> dict[int, TrialSpec]:
    """Return the trials by repeat, rid of what only their place in the plan decides."""
    return {trial.repeat: trial.model_copy(update={"trial_id": "", "order": 0}) for trial in trials}


def test_added_repeats_are_what_the_plan_would_have_held() -> None:
    """The same cells, seeds and settings as if they had been asked for at once; only place and number differ."""
    few, many = a_plan(repeats=2), a_plan(repeats=5)
    key = cell_key(few.trials[0].cell)
    added = extend_plan(few, {key: 3}).trials[len(few.trials) :]
    wanted = [trial for trial in many.trials if cell_key(trial.cell) == key and trial.repeat >= 2]

    assert without_place(added) == without_place(wanted)


def test_added_repeats_stand_behind_all_that_was_planned() -> None:
    """No id is given twice, to refused cells neither, and orders go on; also when it is done twice."""
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


def test_added_repeats_keep_to_their_cluster() -> None:
    """A cluster a group, not a cluster a trial."""
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
