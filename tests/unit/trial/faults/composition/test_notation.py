"""The notation of faults: parsing, its canonical form, and errors that name the place."""

from __future__ import annotations

import pytest
from support.fakes.client_rules import RULES

from ackbench.experiments.messages.errors import ExperimentError
from ackbench.experiments.planning.experiment import parse_experiment
from ackbench.experiments.planning.overrides import Overrides, apply_overrides, parse_override
from ackbench.experiments.planning.planner import plan
from ackbench.experiments.planning.yaml_reader import parse_yaml
from ackbench.experiments.sweep.plan import Plan
from ackbench.experiments.trial.faults.composition.notation import format_fault, parse_fault


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("leader-crash", "leader-crash"),
        (" ( leader-crash ) ", "leader-crash"),
        (
            "leader-crash( at_s = 1,restart_after_s=4.5 )",
            "leader-crash(at_s=1, restart_after_s=4.5)",
        ),
        (
            "leader-crash&follower-crash>>leader-pause",
            "leader-crash & follower-crash >> leader-pause",
        ),
        (
            "(leader-crash & follower-crash) >> leader-pause",
            "leader-crash & follower-crash >> leader-pause",
        ),
        (
            "leader-crash & (follower-crash >> leader-pause)",
            "leader-crash & (follower-crash >> leader-pause)",
        ),
        (
            "leader-crash >> (follower-crash >> leader-pause)",
            "leader-crash >> follower-crash >> leader-pause",
        ),
    ],
)
def test_a_fault_has_one_canonical_form(text: str, canonical: str) -> None:
    """Spaces and redundant parentheses make no other fault, and so no other cell."""
    assert format_fault(parse_fault(text)) == canonical
    assert parse_fault(canonical) == parse_fault(text)


def test_parallel_binds_tighter_than_sequence() -> None:
    """As multiplication binds tighter than addition: two in parallel, then a third."""
    request = parse_fault("leader-crash & follower-crash >> leader-pause")
    assert (request.joined, [part.kind for part in request.parts]) == (
        ">>",
        ["leader-crash & follower-crash", "leader-pause"],
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a fault without a name"),
        ("leader-crush", "unknown fault leader-crush; did you mean leader-crash"),
        (
            "leader-crash & folower-crash",
            "unknown fault folower-crash at character 16; did you mean follower-crash",
        ),
        ("leader-crash &", "expected the name of a fault, found the end"),
        ("leader-crash > leader-pause", "expected `&`, `>>` or the end, found `>` at character 14"),
        (
            "leader-crash leader-pause",
            "expected `&`, `>>` or the end, found `leader-pause` at character 14",
        ),
        (
            "leader-crash(at_s=1",
            (
                "expected `)`, found the end; "
                "in a list in square brackets, quote a fault that contains a comma"
            ),
        ),
        ("leader-crash()", "expected a parameter of leader-crash, found `)` at character 14"),
        (
            "leader-crash(at=1)",
            "at is not a parameter of leader-crash at character 14; did you mean at_s?",
        ),
        ("leader-crash(at_s=1, at_s=2)", "at_s is given twice at character 22"),
        ("leader-crash >> none", "none at character 17 must be the only fault"),
        ("(" * 60, "allowed: 1000 and 50 at most"),
        (" & ".join(["leader-crash"] * 17), "17 faults joined; allowed: 16 at most"),
    ],
)
def test_an_error_is_one_line_that_names_the_place(text: str, message: str) -> None:
    """Characters are counted from 1."""
    with pytest.raises(ExperimentError) as raised:
        parse_fault(text)
    assert message in str(raised.value)


COMBINED = "leader-crash(at_s=1, restart_after_s=4) >> follower-crash & leader-pause(pause_s=3)"


def planned(text: str, **changes: object) -> Plan:
    """Return the plan of an experiment with a fault, which is written in YAML."""
    data = parse_yaml(
        f"name: joined\ntitle: t\nquestion: q\naxes:\n  acks: [all]\n  fault:\n    - {text}\n",
        "joined.yaml",
    )
    data |= {
        "controls": False,
        "producer": {"socket.timeout.ms": 1000},
        "workload": {"duration_s": 60},
        **changes,
    }
    return plan(parse_experiment(data, "joined.yaml"), "joined-1", RULES)


def test_the_notation_is_the_same_in_a_file_and_on_the_command_line() -> None:
    """And in the trigger form, whose fields are parsed like the command line."""
    in_file = planned(COMBINED)
    data = {
        "name": "joined",
        "title": "t",
        "question": "q",
        "axes": {"acks": ["all"]},
        "controls": False,
        "workload": {"duration_s": 60},
    }
    overrides = Overrides(
        dict(
            [parse_override(f"fault={COMBINED}"), parse_override("producer.socket.timeout.ms=1000")]
        )
    )
    on_command_line = plan(
        apply_overrides(parse_experiment(data, "joined.yaml"), overrides, RULES), "joined-1", RULES
    )
    assert [trial.fault for trial in on_command_line.trials] == [
        trial.fault for trial in in_file.trials
    ]


def test_parameters_come_from_the_parentheses_then_the_axis_then_the_section() -> None:
    """The value nearest to the fault counts."""
    sweep_plan = planned(
        COMBINED,
        axes={"fault": [COMBINED], "fault.at_s": [7]},
        faults={"follower-crash": {"restart_after_s": 9, "at_s": 8}},
    )
    crash, follower, pause = sweep_plan.trials[0].fault.leaves()
    assert (crash.parameters["at_s"], crash.parameters["restart_after_s"]) == (1, 4)
    assert (follower.parameters["at_s"], follower.parameters["restart_after_s"]) == (7, 9)
    assert (pause.parameters["at_s"], pause.parameters["pause_s"]) == (7, 3)


def test_an_axis_that_a_fault_sets_in_its_parentheses_adds_no_cells() -> None:
    """Two equal cells would be one cell, measured twice."""
    sweep_plan = planned(
        "x",
        axes={
            "acks": [1],
            "fault": ["leader-crash(at_s=1)", "leader-pause", "none"],
            "fault.at_s": [1, 2],
        },
    )
    assert sorted(str(trial.cell["fault"]) for trial in sweep_plan.trials) == [
        "leader-crash(at_s=1)",
        "leader-pause",
        "leader-pause",
        "none",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "leader-crash(at_s=20) >> leader-crash(at_s=20) >> leader-crash(at_s=20)",
            "begins at 20 s and lasts until 75 s; allowed: before the load ends, at 60 s",
        ),
        (
            "leader-crash & leader-pause(pause_s=0.5)",
            "would go unnoticed: leader-pause: pause_s is 0.5 and the client waits 1000 ms",
        ),
        ("leader-crash(at_s=soon)", "faults.leader-crash.at_s is 'soon'; allowed: a number"),
    ],
)
def test_impossible_combinations_are_rejected_by_planning(text: str, message: str) -> None:
    """In sequence, times add up; a part that would go unnoticed is named."""
    with pytest.raises(ExperimentError) as raised:
        planned(text)
    assert message in str(raised.value)
