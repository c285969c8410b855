"""A pause that no producer could notice is refused before anything starts."""

from __future__ import annotations

from typing import Any

import pytest
from support.fakes.client_rules import RULES

from ackbench.experiments.messages.errors import ExperimentError
from ackbench.experiments.planning.experiment import parse_experiment
from ackbench.experiments.planning.planner import plan
from ackbench.experiments.sweep.plan import Plan


def planned(acks: int | str, pause_s: float, **producer: Any) -> Plan:
    """Return the plan of a pause; the client waits 60 s for a response unless set otherwise."""
    experiment: dict[str, Any] = {
        "name": "pause",
        "title": "t",
        "question": "q",
        "workload": {"duration_s": 90},
        "controls": False,
    }
    settings = {name.replace("_", "."): value for name, value in producer.items()}
    experiment |= {
        "axes": {"acks": [acks], "fault": ["leader-pause"]},
        "producer": settings,
        "faults": {"leader-pause": {"pause_s": pause_s}},
    }
    return plan(parse_experiment(experiment, "pause.yaml"), "pause-1", RULES)


@pytest.mark.parametrize(
    ("pause_s", "producer"),
    [(2, {"socket_timeout_ms": 2000}), (3, {"socket_timeout_ms": 10_000}), (50, {})],
)
def test_a_pause_no_longer_than_the_client_waits_is_refused(
    pause_s: float, producer: dict[str, Any]
) -> None:
    """The message names both durations; without a setting, the client's default counts."""
    waits = (
        r"the client waits \d+ ms for an answer \(socket\.timeout\.ms; java: request\.timeout\.ms\)"
    )
    with pytest.raises(
        ExperimentError, match=rf"pause_s is \d+ and {waits}; allowed: a longer pause"
    ):
        planned("all", pause_s, **producer)


def test_a_longer_pause_is_planned() -> None:
    """One millisecond is enough."""
    assert len(planned(1, 2.001, socket_timeout_ms=2000).trials) == 1


def test_with_acks_0_a_pause_of_any_length_is_planned() -> None:
    """With acks=0 no request can time out; the trial shows what happens to the records."""
    assert len(planned(0, 1).trials) == 1


def rolling(duration_s: float, nodes: int = 3, session_timeout_ms: int = 4000) -> Plan:
    """Return the plan of a rolling restart."""
    experiment: dict[str, Any] = {
        "name": "rolling",
        "title": "t",
        "question": "q",
        "workload": {"duration_s": duration_s},
        "controls": False,
        "nodes": nodes,
        "axes": {"acks": ["all"], "fault": ["rolling-restart-hard"]},
        "broker": {"broker.session.timeout.ms": session_timeout_ms},
    }
    return plan(parse_experiment(experiment, "rolling.yaml"), "rolling-1", RULES)


@pytest.mark.parametrize(
    ("nodes", "session_timeout_ms", "needed_s"), [(3, 4000, 31), (3, 8000, 45), (5, 4000, 50)]
)
def test_a_load_that_is_too_short_for_a_rolling_restart_is_refused(
    nodes: int, session_timeout_ms: int, needed_s: int
) -> None:
    """Each node is down until its session has ended; the message has a length that is enough."""
    enough = rf"long enough: --set workload\.duration_s={needed_s}\)"
    with pytest.raises(ExperimentError, match=enough):
        rolling(needed_s - 1, nodes, session_timeout_ms)
    assert len(rolling(needed_s, nodes, session_timeout_ms).trials) == 1
