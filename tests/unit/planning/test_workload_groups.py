"""Consumer groups in an experiment: valid and invalid settings, also with faults of members."""

from typing import Any

import pytest

from ackbench.experiments.messages.errors import ExperimentError
from ackbench.experiments.planning.experiment import parse_experiment
from ackbench.experiments.planning.planner import plan
from ackbench.experiments.sweep.plan import Plan
from ackbench.experiments.sweep.workload import GroupMembers
from ackbench.experiments.verdicts.guarantees.circumstances import circumstances_of

GROUP = {"consumers": 2}
SHORT_TIMEOUTS = {"session.timeout.ms": 2000, "max.poll.interval.ms": 2000}


def planned(fault: str = "none", group: dict[str, Any] | None = GROUP, **rest: Any) -> Plan:
    """Return the plan of one cell."""
    experiment = {
        "name": "x",
        "title": "x",
        "question": "x",
        "controls": False,
        "axes": {"fault": fault},
        "workload": {"duration_s": 10},
        "group": group,
        **rest,
    }
    return plan(parse_experiment(experiment, "x"), "x")


def test_the_order_of_processing_and_commit_is_an_axis() -> None:
    """The default is no group, and a commit after processing."""
    trials = planned(axes={"fault": "none", "group.commit": ["before", "after"]}).trials
    assert {(trial.workload.members, trial.workload.commits) for trial in trials} == {
        (2, "before"),
        (2, "after"),
    }
    assert planned(group=None).trials[0].workload.members == 0
    assert {circumstances_of(trial).commits for trial in trials} == {"before", "after"}


def test_a_client_that_commits_by_itself_has_the_properties_of_that() -> None:
    """And only then; the contract knows what it commits."""
    store = {"consumer.enable.auto.offset.store": [True, False]}
    trials = planned(
        axes={"fault": "none", **store}, group={"consumers": 2, "commit": "auto"}
    ).trials
    assert {trial.consumer["enable.auto.commit"] for trial in trials} == {"true"}
    assert {circumstances_of(trial).stores_offsets_itself for trial in trials} == {True, False}
    (explicit,) = planned(group=GROUP).trials
    assert explicit.consumer["enable.auto.commit"] == "false"
    assert "auto.commit.interval.ms" not in explicit.consumer


def test_java_members_are_planned_with_both_protocols_and_both_ways_to_commit() -> None:
    """Its program commits after each poll, or the client by itself."""
    axes = {
        "fault": "none",
        "group.commit": ["after", "auto"],
        "consumer.group.protocol": ["classic", "consumer"],
    }
    trials = planned(axes=axes, client="java").trials
    assert len(trials) == 4
    assert {(known.client, known.commits) for known in map(circumstances_of, trials)} == {
        ("java", "after"),
        ("java", "auto"),
    }


def test_how_members_commit_is_an_axis_that_the_contract_knows() -> None:
    """Also how many records there are per commit, and whether members are static."""
    axes = {
        "fault": "none",
        "group.commit_every_records": [1, 100],
        "group.asynchronous_commits": [False, True],
        "group.static": [True],
    }
    trials = planned(axes=axes).trials
    assert {
        (known.commit_every_records, known.asynchronous_commits)
        for known in map(circumstances_of, trials)
    } == {(1, False), (1, True), (100, False), (100, True)}
    assert all(trial.workload.group and trial.workload.group.static for trial in trials)


def test_the_settings_of_groups_without_a_number_of_consumers_are_of_one() -> None:
    """No setting of the section is without effect."""
    (trial,) = planned(group={"groups": 2}).trials
    assert trial.workload.group == GroupMembers(consumers=1, groups=2)


def test_a_comparison_without_groups_has_one_cell_for_all_their_settings() -> None:
    """0 consumers: only the concurrent consumer reads, and nothing is committed."""
    axes = {"group.consumers": [0, 2], "group.commit": ["before", "after"]}
    for group in (None, GROUP, {"commit_every_records": 100}):
        cells = [trial.cell for trial in planned(axes=axes, group=group).trials]
        assert {(cell["group.consumers"], cell["group.commit"]) for cell in cells} == {
            (0, None),
            (2, "before"),
            (2, "after"),
        }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"fault": "consumer-crash-after-commit", "group": None},
            "group.consumers is 0; allowed: a consumer group of 1 member or more",
        ),
        (
            {
                "fault": "consumer-pause",
                "faults": {"consumer-pause": {"pause_s": 2}},
                "consumer": SHORT_TIMEOUTS,
            },
            "pause_s is 2 and a member has left .* after 2000 ms",
        ),
        (
            {"fault": "consumer-pause"},
            "pause_s is 10 and a member has left its group after 300000 ms",
        ),
        (
            {"client": "sarama", "group": {**GROUP, "commit": "auto"}},
            "group.commit is auto; allowed with client sarama: after",
        ),
        (
            {"client": "sarama", "group": {**GROUP, "commit_every_records": 7}},
            "group.commit_every_records is 7; allowed with client sarama: 500 .it has no max.poll",
        ),
        (
            {"client": "kafkajs", "group": {**GROUP, "static": True}},
            "group.static is true; allowed with client kafkajs: false .it has no group.instance.id",
        ),
        (
            {"client": "java", "group": {**GROUP, "commit": "before"}},
            "group.commit is before; allowed with client java: after or auto .its program commits",
        ),
        (
            {"client": "java", "group": {**GROUP, "asynchronous_commits": True}},
            "group.asynchronous_commits is true; allowed with client java: false",
        ),
        (
            {"client": "java", "group": {**GROUP, "slow_members": 1, "slow_records_per_s": 100}},
            "group.slow_members is 1; allowed with client java: 0",
        ),
        (
            {"client": "java", "group": {**GROUP, "auto_offset_reset": "none"}},
            "group.auto_offset_reset is none; allowed with client java: earliest or latest",
        ),
        (
            {"client": "java", "consumer": {"max.poll.records": 10}},
            "max.poll.records is 10; allowed with client java: leave it out",
        ),
        (
            {"client": "java", "fault": "consumer-crash-before-commit"},
            "client is java, a program that no fault can hold .*: consumer-crash or consumer-pause",
        ),
        (
            {"client": "java", "fault": "consumer-stall"},
            "client is java, a program that no fault can hold",
        ),
        (
            {
                "client": "java",
                "fault": "consumer-crash",
                "faults": {"consumer-crash": {"processing_s": 2}},
            },
            "processing_s is 2 and client is java, .*, or 0",
        ),
        (
            {"fault": "producer-crash", "client": "java", "group": None},
            "client is java; allowed: librdkafka",
        ),
        (
            {"consumer": {"enable.auto.commit": True}},
            "enable.auto.commit is true; allowed: false .group.commit is after; auto leaves",
        ),
        (
            {"group": {**GROUP, "commit": "auto"}, "consumer": {"enable.auto.commit": False}},
            "enable.auto.commit is false; allowed: true",
        ),
        (
            {"consumer": {"auto.commit.interval.ms": 50}},
            "auto.commit.interval.ms is 50; allowed: leave it out .group.commit is after",
        ),
        (
            {"consumer": {"enable.auto.offset.store": False}},
            "enable.auto.offset.store is false; allowed: leave it out",
        ),
        (
            {"group": {**GROUP, "commit": "auto"}, "fault": "consumer-crash-before-commit"},
            "group.commit is auto; allowed: consumer-crash",
        ),
        (
            {"group": {**GROUP, "commit": "auto", "asynchronous_commits": True}},
            "group.asynchronous_commits is true and group.commit is auto; allowed: false",
        ),
        (
            {"group": {**GROUP, "commit": "before", "commit_on_revocation": False}},
            "group.commit_on_revocation is false and group.commit is before; allowed: true",
        ),
        (
            {"group": {**GROUP, "after_failure": "continue"}},
            "group.after_failure is continue and group.fail_every is 0; allowed: with a group.fail",
        ),
        (
            {"client": "java", "group": {**GROUP, "pause_while_processing": True}},
            "group.pause_while_processing is true; allowed with client java: false .its program",
        ),
        (
            {"client": "java", "group": {**GROUP, "fail_every": 2}},
            "group.fail_every is 2; allowed with client java: 0 .its program fails at no record",
        ),
        ({"consumer": {"group.instance.id": "one"}}, "group.instance.id"),
        (
            {"fault": "offsets-reassignment", "group": None},
            "group.consumers is 0; allowed: a consumer group of 1 member or more",
        ),
        (
            {"fault": "offsets-preferred-leader-change", "nodes": 1},
            "one node has no other that could be the group's coordinator",
        ),
        ({"group": {**GROUP, "commit": "during"}}, "group.commit"),
        ({"group": {**GROUP, "delivery": "exactly-once"}}, "unknown key group.delivery"),
        ({"group": {"consumers": 0}}, "group.consumers is 0; allowed: 1 or more"),
        (
            {"group": {**GROUP, "slow_members": 3, "slow_records_per_s": 5}},
            "group.slow_members is 3; allowed: at most the members of a group",
        ),
        (
            {"group": {**GROUP, "slow_members": 1}},
            (
                "group.slow_members is 1 and group.slow_records_per_s is 0; "
                "allowed: both, or neither"
            ),
        ),
        (
            {"consumer": {"group.protocol": "consumer", "session.timeout.ms": 2000}},
            "session.timeout.ms is 2000 and group.protocol is consumer; allowed: leave it out",
        ),
        (
            {"consumer": {"group.protocol": "consumer"}, "kafka.version": "3.9.2"},
            "group.protocol is consumer and kafka.version is 3.9.2; allowed: 4.0",
        ),
        (
            {"consumer": {"group.protocol": "consumer"}, "group.version": 0},
            "group.protocol is consumer and group.version is 0; allowed: 1",
        ),
        (
            {"fault": "consumer-joins", "group": None},
            "group.consumers is 0; allowed: a consumer group of 1 member or more",
        ),
    ],
)
def test_invalid_settings_of_groups_are_refused_in_one_line(
    changes: dict[str, Any], message: str
) -> None:
    """The line names what is allowed."""
    with pytest.raises(ExperimentError, match=message) as refused:
        planned(**changes)
    assert "\n" not in str(refused.value)


def test_a_pause_longer_than_the_members_timeouts_is_planned() -> None:
    """It is longer than session.timeout.ms and max.poll.interval.ms."""
    (trial,) = planned(
        "consumer-pause", consumer=SHORT_TIMEOUTS, faults={"consumer-pause": {"pause_s": 3}}
    ).trials
    assert trial.fault.parameters["pause_s"] == 3
