"""The DAG is run for real, by Airflow, in a world without brokers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.fakes.surroundings import FakeSurroundings

from experiments.orchestration import steps
from experiments.sweep.folder import SweepFolder


def run(dags: Any, sweep: SweepFolder) -> Any:
    """Run the DAG for a planned sweep; return its run."""
    return dags.get_dag("ackbench_sweep").test(run_conf={"sweep_id": sweep.sweep_id})


def states(dag_run: Any) -> dict[str, set[str]]:
    """Return the states of each task's instances."""
    found: dict[str, set[str]] = {}
    for instance in dag_run.get_task_instances():
        found.setdefault(instance.task_id, set()).add(str(instance.state))
    return found


def test_trials_run_in_the_plans_order(dags: Any, world: FakeSurroundings) -> None:
    """Airflow's own order of mapped tasks is a set's; the plan's shuffled order is part of the experiment."""
    sweep = world.sweep(8)
    dag_run = run(dags, sweep)
    assert dag_run.state == "success"
    assert world.ran() == [trial.trial_id for trial in sweep.plan().trials]


def test_every_step_is_taken_once_and_the_cluster_does_not_wait_for_spark(
    dags: Any, world: FakeSurroundings
) -> None:
    """Provision comes first and the teardown follows the trials."""
    run(dags, world.sweep(1))
    assert sorted(world.did) == ["destroy", "measure", "provision", "track", "trial 000-abcdef"]
    assert world.did[:2] == ["provision", "trial 000-abcdef"]


def test_the_sweep_has_its_page_and_says_on_what_it_ran(dags: Any, world: FakeSurroundings) -> None:
    """Also of trials that nothing was measured of: the page says so."""
    sweep = world.sweep(1)
    run(dags, sweep)
    assert "not measured" in sweep.report.read_text()
    assert "cores" in json.loads((sweep.root / "machine.json").read_text())


def test_a_mapped_task_is_named_after_its_trial(dags: Any, world: FakeSurroundings) -> None:
    """Airflow's page shows the cell, not a number."""
    dag_run = run(dags, world.sweep(2))
    names = {
        instance.rendered_map_index
        for instance in dag_run.get_task_instances()
        if instance.task_id == "trial"
    }
    assert names == {"acks=1 number=0 (000-abcdef)", "acks=1 number=1 (001-abcdef)"}


def test_a_failed_trial_is_not_run_again_and_stops_no_other(
    dags: Any, world: FakeSurroundings
) -> None:
    """Retrying until it passes is survivorship bias; giving up on the others is a waste."""
    world.fails = frozenset({"001-abcdef"})
    run(dags, world.sweep(3))
    assert world.ran() == ["000-abcdef", "001-abcdef", "002-abcdef"]


def test_the_leaf_raises_and_names_the_missing_trial(dags: Any, world: FakeSurroundings) -> None:
    """What was sealed is measured and tracked all the same, and the run fails."""
    world.fails = frozenset({"001-abcdef"})
    dag_run = run(dags, world.sweep(3))
    assert dag_run.state == "failed"
    assert {"measure", "track", "destroy"} <= set(world.did)
    assert (
        steps.RUN_STATE.failures[-1]
        == "verify: 1 of 3 trials are missing: 001-abcdef (NodeFailed: node 3 died)"
    )


def test_going_on_runs_only_what_is_missing(dags: Any, world: FakeSurroundings) -> None:
    """A sealed trial is never run again; one that failed is, once it is asked for."""
    world.fails = frozenset({"001-abcdef"})
    sweep = world.sweep(3)
    run(dags, sweep)
    world.fails, world.did = frozenset(), []
    assert run(dags, sweep).state == "success"
    assert world.ran() == ["001-abcdef"]
    assert not sweep.failed("001-abcdef").exists()


def test_with_nothing_to_run_the_sweep_is_measured_and_tracked_again(
    dags: Any, world: FakeSurroundings
) -> None:
    """A map of length 0 is skipped; what comes after it must not be, and no cluster is started."""
    sweep = world.sweep(2)
    run(dags, sweep)
    world.did = []
    dag_run = run(dags, sweep)
    assert dag_run.state == "success"
    assert sorted(world.did) == ["destroy", "measure", "track"]
    assert states(dag_run)["trial"] == {"skipped"}


def test_without_a_cluster_no_trial_is_begun(dags: Any, world: FakeSurroundings) -> None:
    """Provision's reason comes first among the failures."""
    world.no_cluster = True
    dag_run = run(dags, world.sweep(2))
    assert dag_run.state == "failed"
    assert world.ran() == []
    assert steps.RUN_STATE.failures[0] == "provision: node 2 did not start"


def test_an_interrupt_begins_nothing_else_and_tears_down(
    dags: Any, world: FakeSurroundings
) -> None:
    """Airflow makes a failed task of Ctrl-C and would begin the next trial."""
    world.interrupted_at = "001-abcdef"
    dag_run = run(dags, world.sweep(6))
    assert dag_run.state == "failed"
    assert world.did == ["provision", "trial 000-abcdef", "trial 001-abcdef", "destroy"]


@pytest.mark.parametrize(
    "unknown",
    [{"sweep_id": "nowhere-20260101T000000-0000"}, {"experiment": "quikc"}, {"expriment": "quick"}],
)
def test_what_cannot_be_is_refused_before_anything_starts(
    dags: Any, world: FakeSurroundings, unknown: dict[str, str]
) -> None:
    """Unknown sweeps, experiments and fields of the form; Airflow itself takes unknown fields in silence."""
    dag_run = dags.get_dag("ackbench_sweep").test(run_conf=unknown)
    assert dag_run.state == "failed"
    assert world.did in ([], ["destroy"])
    assert (
        "quick" in steps.RUN_STATE.failures[0]
        or "sweep" in steps.RUN_STATE.failures[0]
        or "experiment" in steps.RUN_STATE.failures[0]
    )
