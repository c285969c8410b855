"""A person clears tasks of a DAG run: killed trials run again, and the same sweep continues."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.fakes.infrastructure import FakeInfrastructure

from ackbench.experiments.orchestration import step_context, steps, trials
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.published import locks_location
from ackbench.experiments.sweep.trial_lock import read_locks, take_lock
from ackbench.infra.airflow.environment import ONE_MACHINE
from ackbench.infra.errors import HarnessError
from ackbench.infra.machine.home import Home

KILLED = """
import sys
from pathlib import Path
from ackbench.experiments.ledger.location import open_location
from ackbench.experiments.sweep.trial_lock import take_lock
assert take_lock(open_location(sys.argv[1]), sys.argv[2])
"""


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeInfrastructure:
    """Return fakes of brokers; this process is a task that was cleared."""
    world = FakeInfrastructure(Home(tmp_path))
    world.install(monkeypatch.setattr)
    monkeypatch.setattr(step_context, "RUN_STATE", step_context.RunState())
    for name, value in {
        "ACKBENCH_HOME": str(tmp_path),
        ONE_MACHINE: "1",
        "AIRFLOW_CTX_DAG_ID": "ackbench_sweep",
        "AIRFLOW_CTX_DAG_RUN_ID": "manual",
        "AIRFLOW_CTX_TRY_NUMBER": "2",
    }.items():
        monkeypatch.setenv(name, value)
    return world


def leave_lock(sweep: SweepFolder, trial_id: str) -> None:
    """Leave the lock of a process that has ended, as SIGKILL does."""
    where = locks_location(sweep).uri
    subprocess.run([sys.executable, "-c", KILLED, where, trial_id], check=True)


def test_a_killed_trial_that_a_person_clears_runs_again(world: FakeInfrastructure) -> None:
    """Its lock belongs to a process of the same DAG run, which has ended."""
    sweep = world.sweep(1)
    leave_lock(sweep, "000-abcdef")

    assert trials.run_next_trial(sweep.sweep_id, lambda _: None) == "000-abcdef"
    assert not read_locks(locks_location(sweep))


def test_a_trial_that_was_killed_is_not_repeated_by_another_task_of_the_run(
    world: FakeInfrastructure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a person decides that: tasks in their first try release nothing."""
    monkeypatch.setenv("AIRFLOW_CTX_TRY_NUMBER", "1")
    sweep = world.sweep(1)
    leave_lock(sweep, "000-abcdef")

    assert trials.run_next_trial(sweep.sweep_id, lambda _: None) == ""


def test_an_interrupted_trial_is_not_repeated_by_another_task_of_the_run(
    world: FakeInfrastructure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person has marked it as failed; it stays locked until its task is cleared."""
    sweep = world.sweep(1)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt("SIGTERM")

    with monkeypatch.context() as patch:
        patch.setattr("ackbench.experiments.trial.run.run_trial", interrupted)
        with pytest.raises(KeyboardInterrupt):
            trials.run_next_trial(sweep.sweep_id, lambda _: None)
    step_context.RUN_STATE.stopping = False  # the next task is another process
    assert trials.run_next_trial(sweep.sweep_id, lambda _: None) == ""
    with pytest.raises(HarnessError, match=r"000-abcdef \(locked by .*, which did not finish it\)"):
        steps.verify(sweep.sweep_id)


def test_clearing_releases_no_lock_of_a_living_process_or_of_another_run(
    world: FakeInfrastructure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may run the trial."""
    sweep = world.sweep(2)
    assert take_lock(locks_location(sweep), "000-abcdef")
    monkeypatch.setenv("AIRFLOW_CTX_DAG_RUN_ID", "another")
    leave_lock(sweep, "001-abcdef")
    monkeypatch.setenv("AIRFLOW_CTX_DAG_RUN_ID", "manual")

    assert trials.run_next_trial(sweep.sweep_id, lambda _: None) == ""
    assert len(read_locks(locks_location(sweep))) == 2


def test_clearing_the_plan_resumes_the_sweep_that_it_has_planned(world: FakeInfrastructure) -> None:
    """Its sealed trials are kept, and no second sweep appears."""
    sweep = world.sweep(1)
    (sweep.root / "dag-run.txt").write_text("ackbench_sweep/manual")

    assert steps.plan_sweep({"experiment": "quick"}) == sweep.sweep_id
    assert [path.name for path in world.home.sweeps.iterdir()] == [sweep.sweep_id]
