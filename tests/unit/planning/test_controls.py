"""Every sweep holds a cell in which nothing may be lost and one in which something must, unless it is told not to."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from support.fakes.client_rules import RULES

from experiments.errors import ExperimentError
from experiments.ledger.record import Role
from experiments.planning.experiment import experiment_of
from experiments.planning.planner import catalogue, load, plan
from experiments.sweep.plan import Plan, TrialSpec

CRASH_BEHIND = {"acks": 1, "fault": "leader-crash-behind"}
CALM = {"acks": "all", "enable.idempotence": True, "fault": "none"}


def planned(axes: Any, **changes: Any) -> Plan:
    """Return the plan of a small experiment with these axes."""
    small = {
        "name": "small",
        "title": "t",
        "question": "q",
        "axes": axes,
        "workload": {"duration_s": 10},
    }
    return plan(experiment_of(small | changes, "small.yaml"), "small-1", RULES)


def in_role(made: Plan, role: Role) -> list[TrialSpec]:
    """Return the trials that have the role."""
    return [trial for trial in made.trials if trial.role is role]


def test_a_sweep_has_a_control_and_a_positive_control() -> None:
    """One loses nothing, by settings and for want of a fault; the other has all its records where the crash takes them."""
    made = planned({"acks": ["all"], "fault": "leader-crash", "partitions": 6})
    control, positive = in_role(made, Role.CONTROL)[0], in_role(made, Role.POSITIVE_CONTROL)[0]

    assert Counter(trial.role for trial in made.trials) == {
        Role.CELL: 1,
        Role.CONTROL: 1,
        Role.POSITIVE_CONTROL: 1,
    }
    assert (
        control.producer["acks"],
        control.producer["enable.idempotence"],
        control.fault.kind,
        control.partitions,
    ) == ("all", "true", "none", 6)
    assert (
        positive.producer["acks"],
        positive.producer["enable.idempotence"],
        positive.fault.kind,
    ) == ("1", "false", "leader-crash-behind")
    assert (
        positive.partitions,
        positive.replication_factor,
        positive.topic["min.insync.replicas"],
    ) == (1, 3, "1")
    assert control.added
    assert positive.added


def test_a_cell_that_is_a_control_already_takes_the_role() -> None:
    """Nothing is run twice, and the cell stays the experiment's own."""
    made = planned([CALM, CRASH_BEHIND])

    assert [len(in_role(made, role)) for role in (Role.CONTROL, Role.POSITIVE_CONTROL)] == [1, 1]
    assert not any(trial.added for trial in made.trials)


@pytest.mark.parametrize(
    "changed",
    [
        {"enable.idempotence": [False], "acks": 0},
        {"replication.factor": 1},
        {"partitions": 6},
        {"fault": "leader-crash"},
    ],
)
def test_a_cell_that_need_not_lose_is_no_positive_control(changed: dict[str, Any]) -> None:
    """With acks=0 nothing was promised, with one replica or an even follower nothing is cut off, with six partitions five are elsewhere."""
    made = planned({**CRASH_BEHIND, **changed})

    assert [trial.added for trial in in_role(made, Role.POSITIVE_CONTROL)] == [True]


def test_an_added_control_runs_half_as_often_as_the_cells_and_in_the_same_shuffle() -> None:
    """A control that ran first or last would say nothing of the time between."""
    made = planned({"acks": ["all"], "fault": "leader-crash"}, repeats=40)
    places = [trial.order for trial in in_role(made, Role.CONTROL)]

    assert len(places) == len(in_role(made, Role.CELL)) // 2 == 20
    assert {trial.seed for trial in in_role(made, Role.CONTROL)} < {
        trial.seed for trial in in_role(made, Role.CELL)
    }
    assert min(places) < 20
    assert max(places) > 42


@pytest.mark.parametrize(("repeats", "controls"), [(1, 1), (2, 2), (3, 2), (5, 3)])
def test_an_added_control_runs_twice_at_least_where_the_cells_do(
    repeats: int, controls: int
) -> None:
    """A sweep of one run a cell has one of it."""
    assert (
        len(
            in_role(
                planned({"acks": ["all"], "fault": "leader-crash"}, repeats=repeats), Role.CONTROL
            )
        )
        == controls
    )


def test_controls_run_on_the_first_cluster() -> None:
    """The harness is the same on all of them; each broker property that is an axis would cost a pair of controls a value."""
    made = planned(
        {"acks": ["all"], "fault": "leader-crash", "broker.session.timeout.ms": [9000, 4000]}
    )

    assert {
        trial.cluster.broker["broker.session.timeout.ms"] for trial in made.trials if trial.added
    } == {"9000"}
    assert [trial.cluster.broker["broker.session.timeout.ms"] for trial in made.trials] == [
        "9000",
        "9000",
        "9000",
        "4000",
    ]


def test_a_positive_control_that_was_added_is_run_twice_at_most() -> None:
    """It shows that loss is seen; how often is not its question. The control is run half as often as the cells, for what it never shows counts."""
    made = planned({"acks": ["all"], "fault": "follower-crash"}, repeats=7)
    assert Counter(trial.role for trial in made.trials) == {
        Role.CELL: 7,
        Role.CONTROL: 4,
        Role.POSITIVE_CONTROL: 2,
    }


def test_a_load_too_short_for_a_crash_goes_on_longer_in_the_positive_control() -> None:
    """The cells keep theirs."""
    made = planned({"acks": ["all"], "fault": "none"}, workload={"duration_s": 3})

    assert [trial.workload.duration_s for trial in in_role(made, Role.POSITIVE_CONTROL)] == [9.5]
    assert {
        trial.workload.duration_s
        for trial in made.trials
        if trial.role is not Role.POSITIVE_CONTROL
    } == {3}


def test_a_control_has_the_experiments_own_load_and_faults_parameters() -> None:
    """It is to say what this experiment would have seen."""
    parameters = {"leader-crash-behind": {"at_s": 1, "behind_s": 0.25, "restart_after_s": 4}}
    made = planned(
        {"acks": ["all"], "fault": "leader-crash", "fault.at_s": [3]},
        workload={"rate_records_per_s": 50, "duration_s": 9},
        faults=parameters,
    )
    positive = in_role(made, Role.POSITIVE_CONTROL)[0]

    assert (positive.workload.rate_records_per_s, positive.workload.duration_s) == (50, 9)
    assert {
        name: positive.fault.parameters[name] for name in ("at_s", "behind_s", "restart_after_s")
    } == {"at_s": 1, "behind_s": 0.25, "restart_after_s": 4}
    assert positive.cell["fault.at_s"] == 1


def test_other_axes_are_in_a_control_as_in_the_first_cell() -> None:
    """A control's cell has the same axes as any other."""
    made = planned(
        {"acks": ["all"], "fault": "leader-crash", "linger.ms": [7, 50], "fault.patience_s": [3]}
    )

    assert {
        (trial.cell["linger.ms"], trial.producer["linger.ms"])
        for trial in made.trials
        if trial.added
    } == {(7, "7")}
    assert [trial.cell["fault.patience_s"] for trial in in_role(made, Role.CONTROL)] == [None]


def test_on_one_node_what_must_be_lost_was_on_its_way() -> None:
    """No follower can be behind where there is none."""
    positive = in_role(planned({"acks": ["all"], "fault": "none"}, nodes=1), Role.POSITIVE_CONTROL)[
        0
    ]

    assert (positive.producer["acks"], positive.fault.kind, positive.replication_factor) == (
        "0",
        "leader-crash",
        1,
    )


def test_where_the_client_refuses_idempotence_the_control_does_without() -> None:
    """Settings of the experiment may not go with it; without a fault nothing is sent twice."""

    def refuse(settings: Any) -> str | None:
        return (
            "`retries` must be >= 1"
            if settings.get("enable.idempotence") == "true" and settings.get("retries") == "0"
            else None
        )

    rules = type(RULES)(
        RULES.producer, RULES.consumer, refuse, RULES.producer_settings, RULES.consumer_settings
    )
    small = {
        "name": "small",
        "title": "t",
        "question": "q",
        "axes": {"acks": 1, "fault": "none"},
        "producer": {"retries": 0},
    }
    made = plan(experiment_of(small, "small.yaml"), "small-1", rules)

    assert [
        (trial.producer["acks"], trial.producer["enable.idempotence"])
        for trial in in_role(made, Role.CONTROL)
    ] == [("all", "false")]


def test_a_control_that_cannot_be_run_is_told_with_the_way_out() -> None:
    """In one line."""

    def refuse(settings: Any) -> str | None:
        return "never\nacks=1" if settings.get("acks") == "1" else None

    rules = type(RULES)(
        RULES.producer, RULES.consumer, refuse, RULES.producer_settings, RULES.consumer_settings
    )
    small = {
        "name": "small",
        "title": "t",
        "question": "q",
        "axes": {"acks": "all", "fault": "none"},
    }
    with pytest.raises(
        ExperimentError,
        match=r"^the positive-control cannot be run: the client says: never acks=1; .*--no-controls, leaves the controls out$",
    ):
        plan(experiment_of(small, "small.yaml"), "small-1", rules)


def test_an_experiment_that_no_client_accepts_gets_no_controls() -> None:
    """There is nothing to believe or to doubt."""
    assert planned({"acks": 1, "enable.idempotence": True}).trials == ()


def test_an_experiment_can_do_without() -> None:
    """`controls: false`."""
    made = planned({"acks": ["all"], "fault": "leader-crash"}, controls=False)

    assert [trial.role for trial in made.trials] == [Role.CELL]


@pytest.mark.parametrize("name", [entry.name for entry in catalogue()])
def test_every_catalogue_entry_has_both(name: str) -> None:
    """And each cell of a plan is there once, so that no control is counted among a cell's trials."""
    made = plan(load(name), "x")
    of_cell = Counter((str(trial.cell), trial.repeat) for trial in made.trials)

    assert in_role(made, Role.CONTROL)
    assert in_role(made, Role.POSITIVE_CONTROL)
    assert set(of_cell.values()) == {1}
