"""Every sweep has a control and a positive control, unless the experiment omits them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from support.fakes.client_rules import RULES

from ackbench.experiments.ledger.trial_manifest import Role
from ackbench.experiments.messages.errors import ExperimentError
from ackbench.experiments.planning.catalog.loading import catalog_experiments, load_experiment
from ackbench.experiments.planning.experiment import parse_experiment
from ackbench.experiments.planning.planner import plan
from ackbench.experiments.sweep.plan import Plan, TrialSpec
from ackbench.experiments.verdicts.contract import clauses_of
from ackbench.experiments.verdicts.guarantees.circumstances import circumstances_of
from ackbench.experiments.verdicts.guarantees.last_value_kept import LAST_VALUE_KEPT

CRASH_BEHIND = {"acks": 1, "fault": "leader-crash-behind"}
NO_FAULT = {"acks": "all", "enable.idempotence": True, "fault": "none"}


def planned(axes: Any, **changes: Any) -> Plan:
    """Return the plan of a small experiment with these axes."""
    small = {
        "name": "small",
        "title": "t",
        "question": "q",
        "axes": axes,
        "workload": {"duration_s": 10},
    }
    return plan(parse_experiment(small | changes, "small.yaml"), "small-1", RULES)


def in_role(made: Plan, role: Role) -> list[TrialSpec]:
    """Return the trials with this role."""
    return [trial for trial in made.trials if trial.role is role]


def test_a_sweep_has_a_control_and_a_positive_control() -> None:
    """The control has safe settings and no fault; in the other, a crash affects all records."""
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


def test_a_cell_that_qualifies_as_a_control_takes_the_role() -> None:
    """No control is added, and the cell remains one of the experiment's."""
    made = planned([NO_FAULT, CRASH_BEHIND])

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
def test_a_cell_that_may_lose_nothing_is_no_positive_control(changed: dict[str, Any]) -> None:
    """With acks=0 nothing is acknowledged, and with six partitions a crash affects some only.

    With one replica or followers that are in sync, nothing is truncated.
    """
    made = planned({**CRASH_BEHIND, **changed})

    assert [trial.added for trial in in_role(made, Role.POSITIVE_CONTROL)] == [True]


def test_an_added_control_has_half_the_repeats_in_the_same_shuffled_order() -> None:
    """A control that ran only first or last would not cover the time between."""
    made = planned({"acks": ["all"], "fault": "leader-crash"}, repeats=40)
    places = [trial.order for trial in in_role(made, Role.CONTROL)]

    assert len(places) == len(in_role(made, Role.CELL)) // 2 == 20
    assert {trial.seed for trial in in_role(made, Role.CONTROL)} < {
        trial.seed for trial in in_role(made, Role.CELL)
    }
    assert min(places) < 20
    assert max(places) > 42


@pytest.mark.parametrize(("repeats", "controls"), [(1, 1), (2, 2), (3, 2), (5, 3)])
def test_an_added_control_has_at_least_two_repeats_if_the_cells_have(
    repeats: int, controls: int
) -> None:
    """A sweep with one trial per cell has one trial of the control."""
    assert (
        len(
            in_role(
                planned({"acks": ["all"], "fault": "leader-crash"}, repeats=repeats), Role.CONTROL
            )
        )
        == controls
    )


def test_controls_run_on_the_first_cluster() -> None:
    """The harness is the same on all clusters, so one pair of controls is enough."""
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


def test_an_added_positive_control_has_at_most_two_repeats() -> None:
    """It only shows that loss is detected. The control has half the repeats of the cells."""
    made = planned({"acks": ["all"], "fault": "follower-crash"}, repeats=7)
    assert Counter(trial.role for trial in made.trials) == {
        Role.CELL: 7,
        Role.CONTROL: 4,
        Role.POSITIVE_CONTROL: 2,
    }


def test_a_load_too_short_for_a_crash_is_prolonged_in_the_positive_control() -> None:
    """The cells keep their duration."""
    made = planned({"acks": ["all"], "fault": "none"}, workload={"duration_s": 3})

    assert [trial.workload.duration_s for trial in in_role(made, Role.POSITIVE_CONTROL)] == [9.5]
    assert {
        trial.workload.duration_s
        for trial in made.trials
        if trial.role is not Role.POSITIVE_CONTROL
    } == {3}


def test_a_control_has_the_experiments_own_load_and_faults_parameters() -> None:
    """The control shows what this experiment can detect."""
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


def test_a_control_has_the_first_cells_values_of_other_axes() -> None:
    """The cell of a control has the same axes as all cells."""
    made = planned(
        {"acks": ["all"], "fault": "leader-crash", "linger.ms": [7, 50], "fault.patience_s": [3]}
    )

    assert {
        (trial.cell["linger.ms"], trial.producer["linger.ms"])
        for trial in made.trials
        if trial.added
    } == {(7, "7")}
    assert [trial.cell["fault.patience_s"] for trial in in_role(made, Role.CONTROL)] == [None]


def test_on_one_node_the_positive_control_loses_records_in_flight() -> None:
    """On one node there is no follower that could be behind."""
    positive = in_role(planned({"acks": ["all"], "fault": "none"}, nodes=1), Role.POSITIVE_CONTROL)[
        0
    ]

    assert (positive.producer["acks"], positive.fault.kind, positive.replication_factor) == (
        "0",
        "leader-crash",
        1,
    )


def test_the_control_has_no_idempotence_if_the_client_refuses_it() -> None:
    """Settings of the experiment can exclude it; without a fault, no record is sent twice."""

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
    made = plan(parse_experiment(small, "small.yaml"), "small-1", rules)

    assert [
        (trial.producer["acks"], trial.producer["enable.idempotence"])
        for trial in in_role(made, Role.CONTROL)
    ] == [("all", "false")]


def test_an_error_of_a_control_says_how_to_omit_the_controls() -> None:
    """The message is one line."""

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
        match=r"^the positive control cannot run: the client refuses it: never acks=1; "
        r".*--no-controls, omits the controls$",
    ):
        plan(parse_experiment(small, "small.yaml"), "small-1", rules)


def test_an_experiment_whose_cells_are_all_refused_has_no_controls() -> None:
    """There are no figures that a control could support."""
    assert planned({"acks": 1, "enable.idempotence": True}).trials == ()


def test_an_experiment_can_omit_the_controls() -> None:
    """With `controls: false` no control is added."""
    made = planned({"acks": ["all"], "fault": "leader-crash"}, controls=False)

    assert [trial.role for trial in made.trials] == [Role.CELL]


SHOWN_WITHOUT_FAULT = frozenset({"librdkafka-3020"})
"""Their bug shows in a control too; the cells of the release without it are the control."""


@pytest.mark.parametrize("name", [entry.name for entry in catalog_experiments()])
def test_every_catalogue_entry_has_both_controls(name: str) -> None:
    """No two trials have the same cell and repeat, so no control counts as a trial of a cell."""
    made = plan(load_experiment(name), "x")
    of_cell = Counter((str(trial.cell), trial.repeat) for trial in made.trials)

    assert set(of_cell.values()) == {1}
    if name in SHOWN_WITHOUT_FAULT:
        assert {trial.fault.kind for trial in made.trials} == {"none"}
        assert len({trial.client_version for trial in made.trials}) == 2
        return
    assert in_role(made, Role.CONTROL)
    assert in_role(made, Role.POSITIVE_CONTROL)


def test_the_positive_control_of_a_compacted_topic_is_not_compacted() -> None:
    """A later record of the same key would explain each lost one; the control stays compacted."""
    axes = {"acks": ["all"], "fault": "leader-crash"}
    compacted = planned(axes, topic={"cleanup.policy": "compact"})
    assert {role: in_role(compacted, role)[0].topic["cleanup.policy"] for role in Role} == {
        Role.CELL: "compact",
        Role.CONTROL: "compact",
        Role.POSITIVE_CONTROL: "delete",
    }
    (positive,) = in_role(planned(axes), Role.POSITIVE_CONTROL)
    assert "cleanup.policy" not in positive.topic


def test_the_compaction_experiment_is_judged_on_last_values() -> None:
    """They are promised with acks=all, and with acks=1 not under a crash."""
    made = plan(load_experiment("compaction"), "compaction-1", RULES)
    promised = {
        (trial.producer["acks"], trial.fault.kind): clause.guaranteed
        for trial in made.trials
        for clause in clauses_of(circumstances_of(trial))
        if clause.guarantee is LAST_VALUE_KEPT
    }
    assert promised == {
        ("all", "none"): True,
        ("all", "leader-crash"): True,
        ("all", "follower-crash"): True,
        ("1", "leader-crash"): False,
    }
