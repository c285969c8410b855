"""The process that `ackbench run` starts: its steps, exit code and last line of output."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.fakes.infrastructure import FakeInfrastructure
from support.modes import accessible_to_others

from ackbench.experiments.orchestration import alerts, batches, runner, step_context, steps
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.infra.errors import HarnessError, InputError
from ackbench.infra.machine.home import Home
from ackbench.infra.process.waiting import wait_until

FAKE_RUN = Path(__file__).parents[2] / "support" / "fakes" / "run_steps.py"
LIMIT_S = 280
"""Less than pytest's own limit of a test."""


@contextmanager
def started(home: Path, mode: str, umask: int = 0o022) -> Iterator[subprocess.Popen[str]]:
    """Start a run of three trials; it is killed at the end if it runs still."""
    environment = {**os.environ, "ACKBENCH_HOME": str(home), "ACKBENCH_ONE_MACHINE": "1"}
    with subprocess.Popen(
        [sys.executable, str(FAKE_RUN), mode],
        env=environment,
        umask=umask,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as run:
        try:
            yield run
        finally:
            run.kill()  # no effect on one that has ended


def ended(home: Path, mode: str, umask: int = 0o022) -> tuple[int, str]:
    """Return the exit code and the output of a run."""
    with started(home, mode, umask) as run:
        output, _ = run.communicate(timeout=LIMIT_S)
    return run.returncode, output


def executed_steps(home: Path) -> list[str]:
    """Return the steps that the run executed, in order."""
    return (home / "steps").read_text().splitlines()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeInfrastructure:
    """Return fakes of brokers, Spark and MLflow; the steps run in this process."""
    world = FakeInfrastructure(Home(tmp_path))
    world.install(monkeypatch.setattr)
    monkeypatch.setattr(step_context, "RUN_STATE", step_context.RunState())
    monkeypatch.setenv("ACKBENCH_HOME", str(tmp_path))
    monkeypatch.setenv("ACKBENCH_ONE_MACHINE", "1")
    return world


def breaks(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let a step fail."""

    def fail(_sweep_id: str) -> None:
        with step_context.report_failure(name):
            raise HarnessError("it is broken")

    monkeypatch.setattr(steps, name, fail)


@pytest.mark.parametrize("umask", [0o000, 0o777])
def test_a_successful_run_leaves_nothing_that_others_can_read(tmp_path: Path, umask: int) -> None:
    """Whatever the umask. What is there already becomes private."""
    tmp_path.chmod(0o755)
    code, output = ended(tmp_path, "completes", umask)
    assert code == 0, output
    assert accessible_to_others(tmp_path) == {}
    assert executed_steps(tmp_path) == [
        "provision",
        "trial 000-abcdef",
        "destroy",
        "measure",
        "track",
    ]


def test_a_failed_run_exits_with_1_and_prints_the_first_failure_last(tmp_path: Path) -> None:
    """The later failures followed from it."""
    code, output = ended(tmp_path, "fails")
    assert code == 1
    assert output.splitlines()[-1] == "trial: trial 001-abcdef (acks=1 number=1): node 3 died"
    assert "Traceback" not in output


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_interrupts_the_trial_and_only_the_cluster_is_destroyed(
    tmp_path: Path, number: signal.Signals
) -> None:
    """Nothing is measured, and the command says how to resume."""
    with started(tmp_path, "hangs") as run:
        wait_until((tmp_path / "under-way").exists, awaiting="the second trial", timeout_s=LIMIT_S)
        run.send_signal(number)
        output, _ = run.communicate(timeout=LIMIT_S)
    assert (run.returncode, output.splitlines()[-1]) == (1, "interrupted")
    assert executed_steps(tmp_path) == [
        "provision",
        "trial 000-abcdef",
        "trial 001-abcdef",
        "destroy",
    ]


def test_without_a_cluster_no_trial_starts(tmp_path: Path) -> None:
    """The first failure is that of provision."""
    code, output = ended(tmp_path, "no-cluster")
    assert code == 1
    assert output.splitlines()[-1] == "provision: node 2 did not start"
    assert not [step for step in executed_steps(tmp_path) if step.startswith("trial")]


def test_a_failed_trial_is_not_repeated_and_the_others_still_run(world: FakeInfrastructure) -> None:
    """Repeating a trial until it passes is survivorship bias; what was sealed is tracked."""
    world.fails = frozenset({"001-abcdef"})

    assert not runner.run_steps(world.sweep(3).sweep_id)
    assert world.started_trials() == ["000-abcdef", "001-abcdef", "002-abcdef"]
    assert world.steps[-2:] == ["measure", "track"]
    assert (
        step_context.RUN_STATE.failures[-1]
        == "verify: 1 of 3 trials are missing: 001-abcdef (NodeFailed: node 3 died)"
    )


@pytest.mark.parametrize("broken", ["report", "track"])
def test_missing_trials_are_named_and_reported_without_the_report_and_mlflow(
    world: FakeInfrastructure, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    """And the sweep is not complete."""
    reported: list[str] = []
    monkeypatch.setattr(alerts, "alert", lambda sweep_id, _: reported.append(sweep_id))
    breaks(monkeypatch, broken)
    world.fails = frozenset({"001-abcdef"})
    sweep = world.sweep(2)

    assert not runner.run_steps(sweep.sweep_id)
    assert any("1 of 2 trials are missing" in one for one in step_context.RUN_STATE.failures)
    assert reported == [sweep.sweep_id]


def test_a_sweep_that_cannot_be_measured_is_verified_and_is_not_complete(
    world: FakeInfrastructure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its trials are published; there is nothing to track."""
    breaks(monkeypatch, "measure")
    verified: list[str] = []
    monkeypatch.setattr(steps, "verify", verified.append)
    sweep = world.sweep(1)

    assert not runner.run_steps(sweep.sweep_id)
    assert verified == [sweep.sweep_id]
    assert "track" not in world.steps
    assert stage(sweep) != "done"


def test_a_run_that_leaves_topics_in_an_external_cluster_fails_and_is_measured(
    world: FakeInfrastructure,
) -> None:
    """Whoever owns the cluster has to know; the results are not affected."""
    world.left = "topics of quick may be left"
    sweep = world.sweep(1)

    assert not runner.run_steps(sweep.sweep_id)
    assert step_context.RUN_STATE.failures == ("destroy: topics of quick may be left",)
    assert world.steps[-2:] == ["measure", "track"]
    assert stage(sweep) == "done"


def test_an_alert_that_fails_does_not_fail_the_run(
    world: FakeInfrastructure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A webhook is no part of the sweep."""

    def broken(sweep_id: str, _: object) -> None:
        raise RuntimeError(f"no alert of {sweep_id}")

    monkeypatch.setattr(alerts, "alert", broken)
    sweep = world.sweep(1)

    assert runner.run_steps(sweep.sweep_id)
    assert stage(sweep) == "done"


def test_trials_that_cannot_be_listed_are_named_as_the_failure(
    world: FakeInfrastructure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An invalid setting of batches is such a failure."""

    def refuse(_: str) -> None:
        raise InputError("ACKBENCH_BATCH_TRIALS=x is invalid")

    monkeypatch.setattr(batches, "list_batches", refuse)

    assert not runner.run_steps(world.sweep(1).sweep_id)
    assert step_context.RUN_STATE.failures[0].startswith("list_trials: ACKBENCH_BATCH_TRIALS=x")


def stage(sweep: SweepFolder) -> str:
    """Return the last stage that the sweep's folder names."""
    activity = sweep.activity()
    assert activity
    return activity.stage
