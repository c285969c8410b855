"""The drawing of an experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.builders.records import a_spec

from ackbench.experiments.planning.catalog import catalog_names
from ackbench.experiments.planning.catalog.loading import load_experiment
from ackbench.experiments.planning.experiment import parse_experiment
from ackbench.experiments.planning.planner import plan
from ackbench.experiments.results.lessons.diagram import draw_experiment
from ackbench.experiments.sweep.plan import FaultRequest, Plan
from ackbench.infra.machine.home import REPOSITORY

LESSONS = sorted((REPOSITORY / "docs" / "lessons").glob("[0-9]*.md"))


def drawing(**keys: Any) -> list[str]:
    """Draw an experiment of three brokers with acks=all, and some keys of its own."""
    data: dict[str, Any] = {
        "name": "mine",
        "title": "One line",
        "question": "Why?",
        "axes": {"acks": ["all"]},
        "controls": False,
        **keys,
    }
    return list(draw_experiment(plan(parse_experiment(data, "mine.yaml"), "s")))


def test_records_go_from_the_producer_to_the_leader_and_its_followers_and_to_the_consumer() -> None:
    """The axes in which cells differ stand beside the arrow, in the order of the results' table."""
    lines = drawing(axes={"acks": [1, "all"], "replication.factor": [1, 3]})
    assert lines[: lines.index("")] == [
        "1 producer, 10,000 records/s",
        "  │  acks: 1, all",
        "  ▼",
        "leader of 1 partition ───▶ 0 or 2 followers    (3 brokers)",
        "  ▼",
        "a consumer reads while the load runs",
    ]


def test_a_fault_is_drawn_to_the_scale_of_the_load() -> None:
    """From its begin to its earliest heal; what it does stands below."""
    lines = drawing(
        axes={"acks": ["all"], "fault": "leader-crash"},
        faults={"leader-crash": {"at_s": 5, "restart_after_s": 5}},
        workload={"duration_s": 20},
    )
    load, fault = (
        next(line for line in lines if line.startswith(name)) for name in ("load  ", "leader-")
    )
    runs = load.count("█")
    begins, heals = (fault.index(sign) - load.index("█") for sign in "x○")
    assert (begins / runs, heals / runs) == pytest.approx((5 / 20, 10 / 20), abs=1.5 / runs)
    assert "x leader-crash: the leader is crashed (SIGKILL) and started again later" in lines


def test_faults_in_turn_are_drawn_one_after_the_other() -> None:
    """The second one's time counts from the heal of the first one; parallel ones from the load."""
    pause = "leader-pause(at_s=1, pause_s=2)"
    joined = {
        notation: [
            line
            for line in drawing(
                axes={"acks": ["all"], "fault": f"{pause} {notation} follower-pause(at_s=1)"},
                workload={"duration_s": 20},
                producer={"socket.timeout.ms": 1000},
            )
            if "-pause  " in line
        ]
        for notation in (">>", "&")
    }
    begins = {notation: [line.index("x") for line in lines] for notation, lines in joined.items()}
    assert begins[">>"][0] < begins[">>"][1]
    assert begins["&"][0] == begins["&"][1]
    assert "4 to 10 s" in joined[">>"][1]


def test_an_experiment_without_a_fault_has_none_in_its_drawing() -> None:
    """The control's cells are drawn as a load that is read."""
    text = "\n".join(drawing())
    assert "x " not in text
    assert "then, once all replicas are in sync" in text


def test_copiers_members_and_a_relay_stand_on_the_path() -> None:
    """Each where the records pass it."""
    copied = drawing(copy={"copiers": 2, "delivery": "at-least-once"})
    grouped = drawing(group={"consumers": 3, "groups": 2})
    relayed = drawing(
        axes={"acks": ["all"], "fault": "relay-held"}, producer={"socket.timeout.ms": 1000}
    )
    assert "2 copiers, at-least-once" in copied
    assert "2 groups of 3 members too, which commit" in grouped
    assert relayed[2] == "a relay, which can hold, drop or change what passes"


def test_a_fault_that_this_version_does_not_have_is_left_out() -> None:
    """A stored plan may be of another version."""
    spec = a_spec(fault=FaultRequest(kind="comet"))
    stored = Plan(
        sweep_id="s", experiment="e", question="?", seed=1, repeats=1, trials=(spec,), refused=()
    )
    assert not any("comet" in line for line in draw_experiment(stored))


@pytest.mark.parametrize("name", catalog_names())
def test_no_line_of_a_drawing_is_wider_than_a_terminal_or_a_page(name: str) -> None:
    """72 characters: `explain` sets them in by two."""
    lines = draw_experiment(plan(load_experiment(name), "s"))
    assert max(map(len, lines)) <= 72
    assert all(line == line.rstrip() for line in lines)


@pytest.mark.parametrize("chapter", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_has_the_drawing_of_its_experiment(chapter: Path) -> None:
    """As it is planned now."""
    lines = draw_experiment(plan(load_experiment(chapter.stem[3:]), "s"))
    assert "\n".join(["```text", *lines, "```"]) in chapter.read_text(encoding="utf-8")
