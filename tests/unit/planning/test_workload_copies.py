"""Consume-process-produce in an experiment: valid and invalid settings of copiers."""

from typing import Any

import pytest

from ackbench.experiments.errors import ExperimentError
from ackbench.experiments.planning.experiment import parse_experiment
from ackbench.experiments.planning.planner import plan
from ackbench.experiments.sweep.plan import Plan

SHORT_TIMEOUTS = {"session.timeout.ms": 1500, "max.poll.interval.ms": 2000}
COPY = {"kind": "copy", "copiers": 2, "duration_s": 10}


def planned(axes: dict[str, Any] | None = None, **changes: Any) -> Plan:
    """Return the plan of a small experiment with copiers."""
    file: dict[str, Any] = {
        "name": "copy",
        "title": "t",
        "question": "q",
        "axes": axes or {"fault": "none"},
        "workload": COPY,
        "controls": False,
    }
    return plan(parse_experiment(file | changes, "copy.yaml"), "sweep")


def test_delivery_decides_when_copiers_commit_and_can_be_an_axis() -> None:
    """The copiers are the members of the consumer group."""
    axes = {
        "workload.delivery": ["at-most-once", "at-least-once", "exactly-once"],
        "enable.idempotence": True,
    }
    loads = {str(trial.cell["workload.delivery"]): trial.workload for trial in planned(axes).trials}
    assert {name: load.commits for name, load in loads.items()} == {
        "at-most-once": "before",
        "at-least-once": "after",
        "exactly-once": "within",
    }
    assert {load.members for load in loads.values()} == {2}


def test_exactly_once_without_idempotence_is_refused_by_the_client() -> None:
    """The client refuses the copiers' own producer; only that cell is refused."""
    made = planned(
        {"workload.delivery": ["at-least-once", "exactly-once"], "enable.idempotence": [False]}
    )
    assert [trial.workload.delivery for trial in made.trials] == ["at-least-once"]
    assert [
        "transactional.id" in refused.reason or "idempotence" in refused.reason
        for refused in made.refused
    ] == [True]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"workload": {"duration_s": 10, "copiers": 2}},
            "workload.kind is produce and workload.copiers is 2; allowed: 0, or workload.kind copy",
        ),
        (
            {"workload": {"duration_s": 10, "delivery": "exactly-once"}},
            "workload.kind is produce and workload.delivery is exactly-once; allowed: leave it out",
        ),
        (
            {"workload": COPY | {"copiers": 0}},
            "workload.kind is copy and workload.copiers is 0; allowed: 1 copier or more",
        ),
        (
            {"workload": COPY | {"consumers": 1}},
            (
                "workload.kind is copy and workload.consumers is 1; "
                "allowed: 0 (the copiers are the consumer group)"
            ),
        ),
        (
            {"workload": COPY | {"commit": "before"}},
            "workload.kind is copy and workload.commit is before; allowed: leave it out",
        ),
        ({"client": "java"}, "workload.kind is copy and client is java; allowed: librdkafka"),
        (
            {"consumer": {"enable.auto.commit": True}},
            (
                "workload.copiers is 2 and enable.auto.commit is true; "
                "allowed: false (workload.delivery decides"
            ),
        ),
        (
            {"workload": COPY | {"delivery": "twice"}},
            "workload.delivery is 'twice'; allowed: at-most-once, at-least-once or exactly-once",
        ),
        (
            {"workload": COPY | {"kind": "move"}},
            "workload.kind is 'move'; allowed: produce or copy",
        ),
        (
            {"axes": {"fault": "copier-crash"}, "workload": {"duration_s": 10}},
            "fault copier-crash is not possible: workload.kind is produce; allowed: copy",
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


def test_a_positive_control_neither_copies_nor_has_transactions() -> None:
    """It must lose records, and the settings that transactions need would not."""
    made = planned(
        {"workload.delivery": ["exactly-once"], "enable.idempotence": [True]}, controls=True
    )
    (control,) = [trial for trial in made.trials if trial.role == "positive-control"]
    assert (control.workload.kind, control.workload.members) == ("produce", 0)
