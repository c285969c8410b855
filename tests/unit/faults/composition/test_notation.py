"""Faults as one value: what it reads as, the one way in which it is written, and what is wrong with it, in one line that names the place."""

from __future__ import annotations

import pytest
from support.fakes.client_rules import RULES

from experiments.errors import ExperimentError
from experiments.faults.composition.notation import format_fault, parse_fault
from experiments.planning.experiment import parse_experiment
from experiments.planning.overrides import Overrides, apply_overrides, parse_override
from experiments.planning.planner import plan
from experiments.planning.yaml_reader import parse_yaml
from experiments.sweep.plan import Plan


@pytest.mark.parametrize(
    ("text", "one_way"),
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
def test_a_fault_is_written_in_one_way(text: str, one_way: str) -> None:
    """Spaces and needless brackets make no other fault, so no other cell; what was written reads back."""
    assert format_fault(parse_fault(text)) == one_way
    assert parse_fault(one_way) == parse_fault(text)


def test_and_binds_tighter_than_then() -> None:
    """As multiplication does than addition: two at once, then a third."""
    request = parse_fault("leader-crash & follower-crash >> leader-pause")
    assert (request.joined, [part.kind for part in request.parts]) == (
        ">>",
        ["leader-crash & follower-crash", "leader-pause"],
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "a fault without a name"),
        ("leader-crush", "unknown fault leader-crush; did you mean leader-crash"),
        (
            "leader-crash & folower-crash",
            "unknown fault folower-crash at character 16; did you mean follower-crash",
        ),
        ("leader-crash &", "where the name of a fault is due, it ends"),
        (
            "leader-crash > leader-pause",
            "where `&`, `>>` or the end is due, there is `>` at character 14",
        ),
        (
            "leader-crash leader-pause",
            "where `&`, `>>` or the end is due, there is `leader-pause` at character 14",
        ),
        (
            "leader-crash(at_s=1",
            "where `)` is due, it ends; in a list in square brackets, quote a fault that holds a comma",
        ),
        (
            "leader-crash()",
            "where a parameter of leader-crash is due, there is `)` at character 14",
        ),
        (
            "leader-crash(at=1)",
            "at is no parameter of leader-crash at character 14; did you mean at_s?",
        ),
        ("leader-crash(at_s=1, at_s=2)", "at_s stands twice at character 22"),
        ("leader-crash >> none", "none at character 17 stands alone, or not at all"),
        ("(" * 60, "allowed: 1000 and 50 at most"),
        (" & ".join(["leader-crash"] * 17), "17 faults joined; allowed: 16 at most"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_that_names_the_place(text: str, words: str) -> None:
    """Characters are counted from 1."""
    with pytest.raises(ExperimentError) as raised:
        parse_fault(text)
    assert words in str(raised.value)


JOINED = "leader-crash(at_s=1, restart_after_s=4) >> follower-crash & leader-pause(pause_s=3)"


def planned(text: str, **changes: object) -> Plan:
    """Return the plan of an experiment with that fault, written in YAML."""
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


def test_it_reads_the_same_in_a_file_and_on_the_command_line() -> None:
    """And so in the trigger form, whose fields are read as the command line's."""
    in_file = planned(JOINED)
    data = {
        "name": "joined",
        "title": "t",
        "question": "q",
        "axes": {"acks": ["all"]},
        "controls": False,
        "workload": {"duration_s": 60},
    }
    overrides = Overrides(
        dict([parse_override(f"fault={JOINED}"), parse_override("producer.socket.timeout.ms=1000")])
    )
    on_line = plan(
        apply_overrides(parse_experiment(data, "joined.yaml"), overrides, RULES), "joined-1", RULES
    )
    assert [trial.fault for trial in on_line.trials] == [trial.fault for trial in in_file.trials]


def test_each_part_gets_its_parameters_from_its_brackets_then_the_axis_then_the_section() -> None:
    """What stands nearest to the fault counts."""
    made = planned(
        JOINED,
        axes={"fault": [JOINED], "fault.at_s": [7]},
        faults={"follower-crash": {"restart_after_s": 9, "at_s": 8}},
    )
    crash, follower, pause = made.trials[0].fault.leaves()
    assert (crash.parameters["at_s"], crash.parameters["restart_after_s"]) == (1, 4)
    assert (follower.parameters["at_s"], follower.parameters["restart_after_s"]) == (7, 9)
    assert (pause.parameters["at_s"], pause.parameters["pause_s"]) == (7, 3)


def test_an_axis_that_every_fault_fixes_in_its_brackets_makes_no_cells() -> None:
    """Two cells that differ in nothing would be one measured twice."""
    made = planned(
        "x",
        axes={
            "acks": [1],
            "fault": ["leader-crash(at_s=1)", "leader-pause", "none"],
            "fault.at_s": [1, 2],
        },
    )
    assert sorted(str(trial.cell["fault"]) for trial in made.trials) == [
        "leader-crash(at_s=1)",
        "leader-pause",
        "leader-pause",
        "none",
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "leader-crash(at_s=20) >> leader-crash(at_s=20) >> leader-crash(at_s=20)",
            "begins at 20 s and heals at 75 s; allowed: before the load ends, at 60 s",
        ),
        (
            "leader-crash & leader-pause(pause_s=0.5)",
            "would go unnoticed: leader-pause: pause_s is 0.5 and the client waits 1000 ms",
        ),
        ("leader-crash(at_s=soon)", "faults.leader-crash.at_s is 'soon'; allowed: a number"),
    ],
)
def test_joined_faults_that_cannot_be_are_refused_at_planning(text: str, words: str) -> None:
    """In turn, times add up; a part that nobody could notice is named."""
    with pytest.raises(ExperimentError) as raised:
        planned(text)
    assert words in str(raised.value)
