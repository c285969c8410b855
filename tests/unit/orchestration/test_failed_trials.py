"""Any exception in a trial ends as a failed trial with its reason, and a full disk is named."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.fakes.infrastructure import FakeInfrastructure

from ackbench.experiments.messages.errors import TrialFailed
from ackbench.experiments.orchestration import step_context, steps, trials
from ackbench.experiments.sweep import folder
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.infra.errors import InputError, MachineError
from ackbench.infra.machine.home import Home

FIRST = "000-abcdef"


@pytest.fixture(name="world")
def fake_infrastructure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeInfrastructure:
    """Return fakes of clusters, trials, Spark and MLflow, installed for the steps."""
    infrastructure = FakeInfrastructure(Home(tmp_path))
    infrastructure.install(monkeypatch.setattr)
    monkeypatch.setenv("ACKBENCH_HOME", str(tmp_path))
    monkeypatch.setenv("ACKBENCH_ONE_MACHINE", "1")
    monkeypatch.setattr(step_context, "RUN_STATE", step_context.RunState())
    return infrastructure


@pytest.mark.parametrize(
    "error",
    [
        InputError("the environment variable KAFKA_PASSWORD is not set"),
        MachineError("no free ports from 20000 to 29999"),
        KeyError("listeners"),
        OSError(errno.ECONNREFUSED, "Connection refused"),
    ],
)
def test_a_trial_that_gets_no_cluster_has_failed_with_the_reason(
    world: FakeInfrastructure, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Whatever the exception is; `verify` names it, and the next run begins with other trials."""

    def refuse(*_: object) -> None:
        raise error

    sweep = world.sweep(2)
    monkeypatch.setattr("ackbench.experiments.orchestration.clusters.assign_cluster", refuse)
    with pytest.raises((type(error), TrialFailed)):
        trials.run_next_trial(sweep.sweep_id, lambda _: None)
    reason = (sweep.failed(FIRST) / "reason.txt").read_text()
    assert (type(error).__name__ in reason, str(error) in reason) == (True, True)
    following = trials.next_trial(sweep)
    assert following
    assert following.trial_id == "001-abcdef"


def test_without_a_cluster_every_trial_has_a_reason(
    world: FakeInfrastructure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trial that needed it has failed, and the others say why they were not run."""

    def refuse(*_: object) -> None:
        raise InputError("cannot reach kafka.example:9092")

    sweep = world.sweep(2)
    monkeypatch.setattr("ackbench.experiments.orchestration.clusters.provision", refuse)
    with pytest.raises(InputError):
        steps.provision(sweep.sweep_id)
    with pytest.raises(TrialFailed) as failure:
        steps.verify(sweep.sweep_id)
    assert str(failure.value).count("cannot reach kafka.example:9092") == 2


def test_a_resumed_sweep_gets_its_cluster_and_runs_all_trials(
    world: FakeInfrastructure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason of the earlier run does not stop it."""
    sweep = world.sweep(2)
    with monkeypatch.context() as patch:
        patch.setattr(world, "no_cluster", True)
        with pytest.raises(Exception, match="node 2 did not start"):
            steps.provision(sweep.sweep_id)
    steps.plan_sweep({"experiment": "quick", "sweep_id": sweep.sweep_id})
    steps.provision(sweep.sweep_id)
    for _ in range(2):
        trials.run_next_trial(sweep.sweep_id, lambda _: None)
    assert sweep.pending() == ()


def test_an_interrupted_trial_has_not_failed(
    world: FakeInfrastructure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither by Ctrl-C nor because the run is stopping."""
    sweep = world.sweep(1)
    monkeypatch.setattr(step_context.RUN_STATE, "stopping", True)
    with pytest.raises(step_context.Interrupted):
        trials.run_next_trial(sweep.sweep_id, lambda _: None)
    assert not sweep.failed(FIRST).exists()


def test_a_truncated_record_names_its_file_and_the_remedy_and_blocks_nothing(
    world: FakeInfrastructure,
) -> None:
    """The other trials run, and all that are fit are measured."""
    sweep = world.sweep(2)
    trials.run_next_trial(sweep.sweep_id, lambda _: None)
    record = sweep.trial(FIRST) / "trial.json"
    record.write_bytes(record.read_bytes()[:100])
    trials.run_next_trial(sweep.sweep_id, lambda _: None)
    steps.measure(sweep.sweep_id)
    assert world.steps[-1] == "measure"
    assert world.started_trials() == [FIRST, "001-abcdef"]


def test_a_full_disk_is_named_with_its_place_and_the_remedy(
    world: FakeInfrastructure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the failure of the step, whatever it was."""

    def measure(_sweep: SweepFolder, _home: Home, **_options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/full/results")

    sweep = world.sweep(1)
    trials.run_next_trial(sweep.sweep_id, lambda _: None)
    monkeypatch.setattr("ackbench.experiments.results.spark_job.measure", measure)
    with pytest.raises(MachineError, match=r"the disk of .* is full \(\d+ MiB free\)"):
        steps.measure(sweep.sweep_id)
    (failure,) = step_context.RUN_STATE.failures
    assert "/full/results" in failure


@pytest.mark.parametrize("ask", [trials.trials_in_order, trials.next_trial, SweepFolder.pending])
def test_each_task_reads_the_plan_once_for_the_trials_that_are_left(
    world: FakeInfrastructure, monkeypatch: pytest.MonkeyPatch, ask: Callable[[SweepFolder], object]
) -> None:
    """The largest sweep has a thousand tasks, and a plan of megabytes."""
    sweep, read = world.sweep(2), []

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def count(*arguments: object) -> object:
            read.append(arguments)
            return function(*arguments)

        return count

    for name in ("read_document", "read_planned"):
        monkeypatch.setattr(folder, name, counted(getattr(folder, name)))
    ask(sweep)

    assert len(read) == 1
