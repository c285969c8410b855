"""The claims in the catalogue: each has one experiment, one finding and its texts.

An override that removes what a claim is about is rejected.
"""

from __future__ import annotations

from typing import Any

import pytest
from support.command_line import ackbench

from ackbench.experiments.ledger.trial_manifest import Cell
from ackbench.experiments.messages.errors import ExperimentError
from ackbench.experiments.planning.catalog.loading import catalog_experiments, finding_names
from ackbench.experiments.planning.experiment import Experiment
from ackbench.experiments.planning.planner import plan
from ackbench.experiments.results.lessons.of_sweep import load_finding
from ackbench.experiments.sweep.plan import Claim, check_claim
from ackbench.experiments.sweep.progress import expected_minutes
from ackbench.infra.machine.home import Home

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
    """And each finding has an experiment; otherwise it would never be computed."""
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
def test_an_axis_that_a_claim_varies_is_an_axis_of_its_experiment(experiment: Experiment) -> None:
    """Otherwise every run of the experiment would be rejected."""
    axes = {axis for cross in experiment.axes for axis in cross}
    assert set(claim_of(experiment).varies) <= axes


@pytest.mark.parametrize("experiment", CLAIMS, ids=lambda experiment: experiment.name)
def test_each_claim_recommends_settings_for_production(experiment: Experiment) -> None:
    """Its chapter and its page end with the recommendation."""
    assert experiment.claim is not None
    assert experiment.claim.in_production


@pytest.mark.parametrize(
    "experiment", catalog_experiments(), ids=lambda experiment: experiment.name
)
def test_every_experiment_states_what_its_construction_decides(experiment: Experiment) -> None:
    """One or two sentences; the plan carries them to the pages."""
    assert experiment.construction is not None
    assert experiment.construction.rstrip().endswith(".")
    assert 40 <= len(experiment.construction) <= 320


@pytest.mark.parametrize("experiment", CLAIMS, ids=lambda experiment: experiment.name)
def test_each_claim_is_tested_in_at_most_twelve_minutes(experiment: Experiment) -> None:
    """With the repeats of the catalogue; more repeats take longer."""
    planned = plan(experiment, "sweep")
    assert expected_minutes(planned) <= 12
    assert planned.construction == experiment.construction


def test_client_rack_is_set_for_the_consumer_only() -> None:
    """A property that both clients have is the producer's unless it is prefixed."""
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
    ("changes", "cells", "message"),
    [
        ({"needs_fault": True}, [{"fault": "none"}, {"acks": 1}], "fault is none in every cell"),
        (
            {"varies": ["acks"]},
            [{"acks": 1, "fault": "none"}, {"acks": 1, "fault": "leader-crash"}],
            "acks is 1 in every cell",
        ),
        ({"min_nodes": 3}, [{"nodes": 1}, {}], "nodes is 2; the claim needs at least 3 nodes"),
    ],
)
def test_an_experiment_that_no_longer_tests_its_claim_is_rejected(
    changes: dict[str, Any], cells: list[Cell], message: str
) -> None:
    """A failover without a fault, a comparison of one value, too few nodes."""
    with pytest.raises(ExperimentError, match=message):
        check_claim(Claim.model_validate(TEXTS | changes), cells, nodes=2)


def test_an_experiment_that_tests_its_claim_is_accepted() -> None:
    """A fault in one cell, two values, enough nodes."""
    claim = Claim.model_validate(TEXTS | {"needs_fault": True, "varies": ["acks"], "min_nodes": 3})
    check_claim(
        claim, [{"acks": 1, "fault": "none"}, {"acks": "all", "fault": "leader-crash"}], nodes=3
    )


def test_a_run_without_its_fault_is_rejected_in_one_line(home: Home) -> None:
    """The exit code is 2, and no sweep is created."""
    result = ackbench("run", "one-node-or-three", "--set", "fault=none")
    assert (result.exit_code, result.stderr.count("\n"), home.sweeps.exists()) == (2, 1, False)
    assert "one-node-or-three: fault is none in every cell" in result.stderr


def test_explain_describes_an_experiment_without_running_it(home: Home) -> None:
    """The question, what the construction decides, the claim, how it is refuted, the duration."""
    result = ackbench("explain", "acks-levels")
    assert result.exit_code == 0
    for head in (
        "question",
        "decided by the construction",
        "timeouts below their defaults",
        "claim (lesson 5)",
        "mechanism",
        "method",
        "refuted by",
        "minutes",
    ):
        assert head in result.stdout
    assert not home.sweeps.exists()


def test_explain_suggests_the_nearest_name_for_an_unknown_one() -> None:
    """The exit code is 2."""
    result = ackbench("explain", "acks-level")
    assert (result.exit_code, "did you mean acks-levels?" in result.stderr) == (2, True)
