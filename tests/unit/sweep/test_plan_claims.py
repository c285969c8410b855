"""The lessons' claims in the catalogue: each has its experiment, its finding and its texts, and an override that empties the question is refused."""

from __future__ import annotations

from typing import Any

import pytest
from support.command_line import ackbench

from experiments.errors import ExperimentError
from experiments.ledger.record import Cell
from experiments.lessons.findings import finding_names, load_finding
from experiments.planning.catalog import catalog_experiments
from experiments.planning.experiment import Experiment
from experiments.planning.planner import plan
from experiments.sweep.plan import Claim, check_claim
from experiments.sweep.progress import expected_minutes
from infra.machine.home import Home

CLAIMS = [experiment for experiment in catalog_experiments() if experiment.claim]
TEXTS: dict[str, Any] = {
    "lesson": 5,
    "finding": "acks_levels",
    "says": "It loses.",
    "mechanism": "So.",
    "method": "Thus.",
    "refuted_by": "No loss.",
}


@pytest.fixture
def home(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Home:
    """An empty home."""
    monkeypatch.setenv("ACKBENCH_HOME", str(tmp_path / "home"))
    return Home.from_environment()


def claim_of(experiment: Experiment) -> Claim:
    """Return the claim of an experiment that has one."""
    assert experiment.claim
    return experiment.claim


def test_each_claim_has_one_experiment_and_one_finding() -> None:
    """Both ways: a finding without an experiment would never be made."""
    lessons = [claim_of(experiment).lesson for experiment in CLAIMS]
    findings = [claim_of(experiment).finding for experiment in CLAIMS]
    assert sorted(lessons) == list(range(1, len(CLAIMS) + 1))
    assert sorted(findings) == sorted(finding_names())
    assert all(callable(load_finding(finding)) for finding in findings)


def test_an_unknown_finding_is_rejected_before_the_sweep() -> None:
    """The message is one line and suggests a name."""
    experiment = next(one for one in CLAIMS if one.name == "acks-levels")
    claim = claim_of(experiment).model_copy(update={"finding": "acks_level"})
    with pytest.raises(
        ExperimentError, match=r"claim\.finding is acks_level, .*did you mean acks_levels"
    ):
        plan(experiment.model_copy(update={"claim": claim}), "sweep")


@pytest.mark.parametrize("experiment", CLAIMS, ids=lambda experiment: experiment.name)
def test_what_a_claim_varies_is_an_axis_of_its_experiment(experiment: Experiment) -> None:
    """Otherwise every run of it would be refused."""
    axes = {axis for cross in experiment.axes for axis in cross}
    assert set(claim_of(experiment).varies) <= axes


@pytest.mark.parametrize("experiment", CLAIMS, ids=lambda experiment: experiment.name)
def test_each_claim_says_what_to_set_in_production(experiment: Experiment) -> None:
    """Its chapter and its page end with it."""
    assert experiment.claim is not None
    assert experiment.claim.in_production


@pytest.mark.parametrize("experiment", CLAIMS, ids=lambda experiment: experiment.name)
def test_each_claim_is_answered_in_about_four_minutes(experiment: Experiment) -> None:
    """As it stands in the catalogue; more repeats take longer."""
    assert expected_minutes(plan(experiment, "sweep")) <= 4


def test_the_consumer_that_names_its_rack_is_told_to() -> None:
    """A property that both clients know is the producer's unless it says otherwise, and a producer reads nothing."""
    planned = plan(next(one for one in CLAIMS if one.name == "leader-only"), "leader-only-1")
    named = {
        trial.consumer.get("client.rack")
        for trial in planned.trials
        if trial.cell.get("consumer.client.rack")
    }
    assert (named, any("client.rack" in trial.producer for trial in planned.trials)) == (
        {"rack-2"},
        False,
    )


@pytest.mark.parametrize(
    ("asks", "cells", "why"),
    [
        ({"needs_fault": True}, [{"fault": "none"}, {"acks": 1}], "fault is none in every cell"),
        (
            {"varies": ["acks"]},
            [{"acks": 1, "fault": "none"}, {"acks": 1, "fault": "leader-crash"}],
            "acks is 1 in every cell",
        ),
        (
            {"min_nodes": 3},
            [{"nodes": 1}, {}],
            "nodes is 2; the question needs at least 3 nodes",
        ),
    ],
)
def test_what_empties_the_question_is_refused_with_the_reason(
    asks: dict[str, Any], cells: list[Cell], why: str
) -> None:
    """A failover without a fault, a comparison of one value, too few nodes."""
    with pytest.raises(ExperimentError, match=why):
        check_claim(Claim.model_validate(TEXTS | asks), cells, nodes=2)


def test_what_leaves_the_question_whole_is_taken() -> None:
    """A fault in one cell, two values, enough nodes."""
    claim = Claim.model_validate(TEXTS | {"needs_fault": True, "varies": ["acks"], "min_nodes": 3})
    check_claim(
        claim, [{"acks": 1, "fault": "none"}, {"acks": "all", "fault": "leader-crash"}], nodes=3
    )


def test_a_run_without_its_fault_is_refused_in_one_line(home: Home) -> None:
    """Exit code 2, and nothing is made."""
    result = ackbench("run", "one-node-or-three", "--set", "fault=none")
    assert (result.exit_code, result.stderr.count("\n"), home.sweeps.exists()) == (2, 1, False)
    assert "one-node-or-three: fault is none in every cell" in result.stderr


def test_an_experiment_is_explained_before_it_is_run(home: Home) -> None:
    """The claim, how Kafka does it, what will be done, what would refute it, and how long it takes."""
    result = ackbench("explain", "acks-levels")
    assert result.exit_code == 0
    for head in (
        "the question",
        "what the lesson says (lesson 5)",
        "how Kafka does it",
        "what is done",
        "what would refute it",
        "minutes",
    ):
        assert head in result.stdout
    assert not home.sweeps.exists()


def test_a_name_that_is_none_is_told_its_nearest() -> None:
    """As everywhere."""
    result = ackbench("explain", "acks-level")
    assert (result.exit_code, "did you mean acks-levels?" in result.stderr) == (2, True)
