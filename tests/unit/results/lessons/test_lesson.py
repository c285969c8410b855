"""A lesson as data: patterns, texts whose figures have no value, and errors that name the key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.builders.findings import a_trial, finding_input_of_trials

from ackbench.experiments.messages.errors import ExperimentError
from ackbench.experiments.planning.yaml_reader import dump_yaml
from ackbench.experiments.results.lessons import lesson as lesson_module
from ackbench.experiments.results.lessons.evaluation import find
from ackbench.experiments.results.lessons.figures import matches
from ackbench.experiments.results.lessons.finding import Finding
from ackbench.experiments.results.lessons.lesson import Lesson, load_lesson
from ackbench.experiments.results.models import TrialResult

LESSON: dict[str, Any] = {
    "cases": {"all": {"by": {"fault": {"leader-*": "the leader", "*": "{}"}}, "name": "{fault}"}},
    "observations": {"loses": {"cases": "all", "quantity": "lost", "is": "some"}},
    "criterion": {"required": [{"refuted_if": ["loses"], "needs": ["known loses"]}]},
    "sentences": [{"cases": "all", "says": "{name}: {lost:share}[, {missed:sum} missed]."}],
    "remarks": {
        "supported": "Nothing was lost.",
        "refuted": ["Lost with {loses:cases}.", {"says": "No loss.", "if": ["not loses"]}],
        "inconclusive": "Too few.",
    },
    "plot": {
        "kind": "shares",
        "caption": "Loss",
        "rows": [{"cases": "all", "name": "{name}", "quantities": {"lost": "lost"}}],
    },
}


def _lost(fault: str, lost: int, missed: int | None = None) -> list[TrialResult]:
    return [a_trial({"fault": fault}, lost=(lost, lost), missed=missed) for _ in range(3)]


def _found(trials: list[TrialResult]) -> Finding:
    return find(Lesson.model_validate(LESSON), finding_input_of_trials(trials))


@pytest.mark.parametrize(
    ("value", "pattern", "matched"),
    [
        ("all-power-loss", "all-*", True),
        ("leader-crash", "all-*", False),
        (0, "*", True),
        (None, "*", False),
        (None, "unset", True),
        (0, "unset", False),
        (1, 1, True),
        ("1", 1, True),
        (True, 1, False),
        ("a.b", "a?b", False),
        ("a+b", "a+b", True),
    ],
)
def test_a_pattern_matches_text_and_only_its_star_is_special(
    value: Any, pattern: Any, matched: bool
) -> None:
    """`*` is any value, and `unset` is none."""
    assert matches(value, pattern) is matched


def test_cases_have_one_value_each_and_the_order_of_their_words() -> None:
    """Two faults that share a word are two cases: their trials are not pooled."""
    faults = ("node-crash", "leader-pause", "leader-crash")
    finding = _found([trial for fault in faults for trial in _lost(fault, 0)])
    assert [sentence.partition(":")[0] for sentence in finding.sentences] == [
        "the leader",
        "the leader",
        "node-crash",
    ]
    assert all("0 of 3 trials" in sentence for sentence in finding.sentences)


def test_a_part_of_a_text_is_left_out_where_its_figure_has_no_value() -> None:
    """A figure that is known, if only 0, is written."""
    assert _found(_lost("none", 0, missed=None)).sentence.endswith("(below 71 %).")
    assert _found(_lost("none", 0, missed=2)).sentence.endswith("(below 71 %), 6 missed.")


def test_a_remark_names_the_cases_that_show_an_observation() -> None:
    """A text whose condition does not hold is left out."""
    trials = [*_lost("leader-crash", 5), *_lost("node-crash", 0)]
    assert _found(trials).remark == "Lost with the leader."


def test_twice_the_repeats_of_the_largest_cell_may_be_enough() -> None:
    """At least six: a case needs three."""
    unknown = [a_trial({"fault": "none"}, lost=(0, 4)) for _ in range(5)]
    assert _found(unknown).repeats_needed == 10
    assert _found(unknown[:1]).repeats_needed == 6


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"word": 1}, "unknown key word"),
        ({"observations": {}}, "observations.loses is missing"),
        ({"cases": {"other": {}}}, "cases.all is missing; cases.other is not used"),
        (
            {"figures": {"lost_twice": {"sum_of": ["lots"]}}},
            "lots is neither in figures nor a quantity of a trial; did you mean lost?",
        ),
        (
            {"sentences": [{"cases": "all", "says": "{lots:share}"}]},
            "lots is neither in figures nor a quantity of a trial; did you mean lost?",
        ),
        ({"remarks": {"supported": "Yes."}}, "remarks.inconclusive is missing"),
    ],
)
def test_an_error_names_the_key(
    change: dict[str, Any], problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lesson that does not hold together is refused before any sweep is read."""
    (tmp_path / "broken.yaml").write_text(dump_yaml({**LESSON, **change}))
    monkeypatch.setattr(lesson_module, "FINDINGS", tmp_path)
    monkeypatch.setattr(lesson_module, "check_finding", lambda _name: None)
    load_lesson.cache_clear()
    with pytest.raises(ExperimentError) as error:
        load_lesson("broken")
    assert problem in str(error.value)
