"""Consume-process-produce in an experiment: valid and invalid settings of copiers."""

from pathlib import Path
from typing import Any

import pytest

from ackbench.experiments.messages.errors import ExperimentError
from ackbench.experiments.planning.experiment import parse_experiment
from ackbench.experiments.planning.planner import plan
from ackbench.experiments.sweep.plan import Plan

SHORT_TIMEOUTS = {"session.timeout.ms": 1500, "max.poll.interval.ms": 2000}
COPY = {"copiers": 2}


def planned(axes: dict[str, Any] | None = None, **changes: Any) -> Plan:
    """Return the plan of a small experiment with copiers."""
    file: dict[str, Any] = {
        "name": "copy",
        "title": "t",
        "question": "q",
        "axes": axes or {"fault": "none"},
        "workload": {"duration_s": 10},
        "copy": COPY,
        "controls": False,
    }
    return plan(parse_experiment(file | changes, "copy.yaml"), "sweep")


def test_delivery_decides_when_copiers_commit_and_can_be_an_axis() -> None:
    """The copiers are the members of the consumer group."""
    axes = {
        "copy.delivery": ["at-most-once", "at-least-once", "exactly-once"],
        "enable.idempotence": True,
    }
    loads = {str(trial.cell["copy.delivery"]): trial.workload for trial in planned(axes).trials}
    assert {name: load.commits for name, load in loads.items()} == {
        "at-most-once": "before",
        "at-least-once": "after",
        "exactly-once": "within",
    }
    assert {load.members for load in loads.values()} == {2}


def test_exactly_once_without_idempotence_is_refused_by_the_client() -> None:
    """The client refuses the copiers' own producer; only that cell is refused."""
    made = planned(
        {"copy.delivery": ["at-least-once", "exactly-once"], "enable.idempotence": [False]}
    )
    assert [trial.cell["copy.delivery"] for trial in made.trials] == ["at-least-once"]
    assert [
        "transactional.id" in refused.reason or "idempotence" in refused.reason
        for refused in made.refused
    ] == [True]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"copy": {"copiers": 0}}, "copy.copiers is 0; allowed: 1 or more"),
        (
            {"group": {"consumers": 1}},
            "group and copy are both there; allowed: one of them (copiers are a consumer group)",
        ),
        ({"copy": COPY | {"commit": "before"}}, "unknown key copy.commit"),
        ({"copy": COPY | {"consumers": 1}}, "unknown key copy.consumers"),
        ({"copy": COPY | {"groups": 2}}, "unknown key copy.groups"),
        ({"copy": COPY | {"delivry": "twice"}}, "unknown key copy.delivry; did you mean delivery?"),
        (
            {"copy": COPY | {"slow_members": 3, "slow_records_per_s": 5}},
            "copy.slow_members is 3; allowed: at most the members of a group, which are 2",
        ),
        (
            {"copy": COPY | {"slow_records_per_s": 5}},
            "copy.slow_members is 0 and copy.slow_records_per_s is 5; allowed: both, or neither",
        ),
        (
            {"copy": COPY | {"delivery": "exactly-once", "asynchronous_commits": True}},
            "copy.asynchronous_commits is true and copy.delivery is exactly-once; allowed: false",
        ),
        (
            {"copy": COPY | {"delivery": "at-most-once", "commit_on_revocation": False}},
            "copy.commit_on_revocation is false and copy.delivery is at-most-once; allowed: true",
        ),
        (
            {"client": "franz-go"},
            "copy.copiers is 2 and client is franz-go; allowed: librdkafka or java",
        ),
        (
            {"client": "java", "copy": COPY | {"slow_members": 1, "slow_records_per_s": 5}},
            "copy.slow_members is 1; allowed with client java: 0 (its program processes",
        ),
        (
            {"client": "java", "consumer": {"max.poll.records": 5}},
            "leave it out (its program commits after each poll: copy.commit_every_records decides)",
        ),
        (
            {"client": "java", "copy": {"command": ["true"], "identity": "header"}},
            "copy.identity is header with client java; allowed: value",
        ),
        (
            {"consumer": {"enable.auto.commit": True}},
            (
                "copy.copiers is 2 and enable.auto.commit is true; "
                "allowed: false (copy.delivery decides"
            ),
        ),
        (
            {"copy": COPY | {"delivery": "twice"}},
            "copy.delivery is 'twice'; allowed: at-most-once, at-least-once or exactly-once",
        ),
        (
            {"axes": {"fault": "copier-crash"}, "copy": None, "group": {"consumers": 1}},
            "fault copier-crash is not possible: copy.copiers is 0; allowed: 1 copier or more",
        ),
        (
            {
                "axes": {"fault": "copier-pause"},
                "consumer": SHORT_TIMEOUTS,
                "faults": {"copier-pause": {"pause_s": 1}},
            },
            "pause_s is 1 and a member has left its group",
        ),
    ],
)
def test_invalid_settings_of_copiers_are_refused_in_one_line(
    changes: dict[str, Any], message: str
) -> None:
    """The line names the key, the value and what is allowed."""
    with pytest.raises(ExperimentError) as error:
        planned(**changes)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_comparison_without_copiers_has_one_cell_for_all_their_settings() -> None:
    """0 copiers: the records are not copied, and delivery says nothing."""
    axes = {"copy.copiers": [0, 2], "copy.delivery": ["at-most-once", "at-least-once"]}
    made = planned(axes)
    assert {(trial.cell["copy.copiers"], trial.cell["copy.delivery"]) for trial in made.trials} == {
        (0, None),
        (2, "at-most-once"),
        (2, "at-least-once"),
    }
    assert [trial.workload.members for trial in made.trials if trial.workload.copies is None] == [0]


def test_a_positive_control_neither_copies_nor_has_transactions() -> None:
    """It must lose records, and the settings that transactions need would not."""
    made = planned({"copy.delivery": ["exactly-once"], "enable.idempotence": [True]}, controls=True)
    (control,) = [trial for trial in made.trials if trial.role == "positive-control"]
    assert (control.workload.copies, control.workload.members) == (None, 0)


def test_a_program_copies_in_the_place_of_copiers_and_is_found_before_a_trial() -> None:
    """The plan has its path; its crash is a fault of its own."""
    (trial,) = planned(
        {"fault": "application-crash"}, copy={"command": ["true", "{input}"], "copiers": 2}
    ).trials
    assert trial.workload.copies is not None
    program, argument = trial.workload.copies.command
    assert (Path(program).is_absolute(), argument) == (True, "{input}")
    assert trial.workload.settings()["copy"]["command"] == f"{program} {{input}}"


@pytest.mark.parametrize(
    ("fault", "copy", "message"),
    [
        ("none", {"command": ["no-such"]}, "copy.command: no such program: 'no-such'"),
        (
            "none",
            {"command": ["true"], "slow_members": 1, "slow_records_per_s": 5},
            "allowed: leave it out (the program",
        ),
        ("copier-crash", {"command": ["true"]}, "allowed: application-crash or application-pause"),
        ("application-crash", {"copiers": 1}, "copy.command is not set; allowed: with a program"),
    ],
)
def test_what_does_not_go_with_a_program_is_refused(
    fault: str, copy: dict[str, Any], message: str
) -> None:
    """In one line."""
    with pytest.raises(ExperimentError) as refused:
        planned({"fault": fault}, copy=copy)
    assert message in str(refused.value)


PROGRAM = {"command": ["true"]}
ORDER = '{"order": "{id}"}'


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"copy": COPY | {"identity": "header"}},
            "copy.identity is header; allowed: with copy.command (ackbench's copiers leave the",
        ),
        ({"copy": COPY | {"value": "x"}}, "copy.value is x; allowed: with copy.command"),
        (
            {"copy": PROGRAM | {"identity": "text"}},
            "copy.identity is text and copy.value is not set; allowed: a value with one {id}",
        ),
        (
            {"copy": PROGRAM | {"identity": "text", "value": "{id}{id}"}},
            "copy.identity is text and copy.value is {id}{id}; allowed: a value with one {id}",
        ),
        (
            {"copy": PROGRAM | {"value": "5 EUR"}},
            "copy.value is 5 EUR and copy.identity is value; allowed: header, key or text",
        ),
        (
            {"copy": PROGRAM | {"identity": "header", "value": ORDER}},
            "{id} in copy.value and copy.identity is header; allowed: with copy.identity text",
        ),
        (
            {"copy": PROGRAM | {"identity": "key"}},
            "keys.count is 64 and copy.identity is key; allowed: 0",
        ),
        (
            {
                "copy": PROGRAM | {"identity": "header"},
                "workload": {"duration_s": 10, "headers": 2},
            },
            "workload.headers is 2 and copy.identity is header; allowed: 0",
        ),
        (
            {
                "copy": PROGRAM | {"identity": "text", "value": ORDER},
                "workload": {"duration_s": 10, "record_size_bytes": 500},
            },
            "workload.record_size_bytes is 500 and copy.value is set; allowed: leave it out",
        ),
        ({"copy": PROGRAM | {"identity": "body"}}, "copy.identity is 'body'; allowed: "),
        ({"copy": PROGRAM | {"value": ""}}, "copy.value is ''; allowed: "),
    ],
)
def test_an_identity_fits_the_values_and_keys_of_the_records(
    changes: dict[str, Any], message: str
) -> None:
    """One line names both settings and what is allowed."""
    with pytest.raises(ExperimentError) as error:
        planned(**changes)
    assert message in str(error.value)


def test_a_value_with_the_identity_in_it_has_its_own_size() -> None:
    """An identity is a text of 80 characters; the key of the records stays a number."""
    (trial,) = planned(copy=PROGRAM | {"identity": "text", "value": ORDER}).trials
    assert trial.workload.record_size_bytes == len(ORDER) - len("{id}") + 80
    assert trial.workload.keys.count == 64


def test_java_copies_with_its_own_names_of_properties_and_a_jvm_for_each_copier() -> None:
    """In a transaction its producers have to be idempotent, as Java's client says itself."""
    made = planned(
        {"copy.delivery": ["at-least-once", "exactly-once"], "enable.idempotence": False},
        client="java",
    )
    (trial,), (refused,) = made.trials, made.refused
    assert trial.client == "java"
    assert trial.workload.commits == "after"
    assert "without also enabling idempotence" in refused.reason
