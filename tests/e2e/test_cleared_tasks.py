"""A person clears tasks on Airflow's page, with the scheduler and the API server of `ackbench up`.

They share one DAG run, whose states are fixtures that follow each other: the tests may run in any
order.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from e2e.command import AckbenchCommand
from e2e.services import DagRun, run_under_load

pytestmark = [pytest.mark.cluster, pytest.mark.further, pytest.mark.timeout(900)]
EXPERIMENT = """\
name: cleared
title: Cleared
question: Does the same sweep go on?
axes: {acks: all, enable.idempotence: true, replication.factor: 3, partitions: 1, fault: none}
workload: {rate_records_per_s: 500, record_size_bytes: 100, duration_s: 4, producers: 1}
controls: false
repeats: 2
"""


@dataclass(frozen=True)
class KilledTrial:
    """A DAG run whose first trial of two was killed during its load."""

    bench: AckbenchCommand
    run: DagRun
    trial_id: str
    map_index: int
    """Of the task that ran it."""

    def sealed(self) -> dict[str, int]:
        """Return when each sealed trial was sealed, in ns."""
        found = self.bench.home.sweeps.glob("*/trials/*/trial.json")
        return {path.parent.name: path.stat().st_mtime_ns for path in found}

    def sweep_ids(self) -> list[str]:
        """Return the sweeps of the home."""
        return [path.parent.name for path in self.bench.home.sweeps.glob("*/plan.json")]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KilledTrial]:
    """Start a sweep of two trials, and kill the process of the first trial's task."""
    folder = tmp_path_factory.mktemp("cleared")
    files = {"cleared.yaml": EXPERIMENT, "broken.yaml": "name: ["}
    with run_under_load(folder, files, "cleared.yaml") as (bench, run):
        (partial,) = bench.home.sweeps.glob("*/trials/*.partial")
        (running,) = (task for task in run.tasks("trial") if task["state"] == "running")
        os.kill(running["pid"], signal.SIGKILL)
        yield KilledTrial(
            bench, run, partial.name.removesuffix(".partial"), int(running["map_index"])
        )


@dataclass(frozen=True)
class Ended:
    """The end of the DAG run."""

    state: str
    trials: list[str | None]
    """The states of the trials' tasks."""
    sealed: dict[str, int]


def ended(killed: KilledTrial) -> Ended:
    """Wait for the end of the run."""
    state = killed.run.wait()
    return Ended(state, killed.run.states("trial"), killed.sealed())


@pytest.fixture(scope="module")
def failed(killed: KilledTrial) -> Ended:
    """Return how the run ended in which a trial was killed."""
    return ended(killed)


@pytest.fixture(scope="module")
def completed(killed: KilledTrial, failed: Ended) -> Ended:
    """Clear the killed trial, and what follows it; return how the run ended then."""
    del failed
    killed.run.clear(("trial", killed.map_index), downstream=True)
    return ended(killed)


@pytest.fixture(scope="module")
def skipped(killed: KilledTrial, completed: Ended) -> Ended:
    """Clear a trial that is sealed; return how the run ended then."""
    del completed
    killed.run.clear(("trial", 1))
    return ended(killed)


def test_a_trial_whose_process_is_killed_fails_and_so_does_the_run(
    killed: KilledTrial, failed: Ended
) -> None:
    """Nobody repeats it but a person; the other trial is sealed."""
    assert failed.state == "failed"
    assert failed.trials[killed.map_index] == "failed"
    assert len(failed.sealed) == 1


def test_a_killed_trial_that_is_cleared_is_sealed_and_the_sweep_is_conclusive(
    killed: KilledTrial, completed: Ended
) -> None:
    """The lock of the killed process is released."""
    assert completed.state == "success"
    assert killed.trial_id in completed.sealed
    (cell,) = killed.bench.show()["cells"]
    loss = cell["judgements"][0]
    assert (loss["guarantee"], loss["verdict"], loss["share"]["of"]) == ("no-acked-loss", "HELD", 2)


def test_a_sealed_trial_that_is_cleared_is_skipped_and_runs_nothing(
    completed: Ended, skipped: Ended
) -> None:
    """The page does not show it as a trial that was run."""
    assert skipped == Ended("success", ["success", "skipped"], completed.sealed)


@pytest.mark.parametrize("tasks", [("plan",), ()], ids=["plan", "the run"])
def test_clearing_the_plan_or_the_run_resumes_the_same_sweep(
    killed: KilledTrial, skipped: Ended, tasks: tuple[str, ...]
) -> None:
    """Its sealed trials are kept, and no second sweep appears."""
    sweep_id = killed.run.handed_on("plan")
    killed.run.clear(*tasks, downstream=True)

    assert killed.run.wait() == "success"
    assert killed.run.handed_on("plan") == sweep_id
    assert killed.sweep_ids() == [sweep_id]
    assert killed.sealed() == skipped.sealed


def test_a_file_that_does_not_parse_is_a_dag_that_says_so(killed: KilledTrial) -> None:
    """The others run beside it."""
    api, dag_id = killed.run.api, "ackbench_unreadable.broken"
    api.unpause(dag_id)
    run = api.trigger({}, dag_id)

    assert run.wait() == "failed"
    (line,) = run.logged(*run.tasks())
    assert "broken.yaml" in line
    assert api.ask("GET", "importErrors")["total_entries"] == 0
