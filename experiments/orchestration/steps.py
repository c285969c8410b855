"""What the DAG's tasks do, one function each; none of it knows Airflow. Everything they share lies in the sweep's folder."""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from experiments.errors import HealFailed, TrialFailed, UnknownName
from experiments.orchestration.machine_lock import LONGEST_WAIT_S, alone
from experiments.sweep.folder import SweepFolder
from experiments.sweep.plan import TrialSpec
from infra.errors import HarnessError
from infra.machine.home import Home

EMBEDDED: Final = "ACKBENCH_EMBEDDED"
"""Set where one process runs the whole DAG; unset, each task is a process of its own."""
EMBEDDED_WAIT_S: Final = 1200.0
BETWEEN_TASKS_S: Final = 120.0
"""How long a cluster outlives the task that used it last: until the scheduler has started the next one."""
_LOG: Final = logging.getLogger(__name__)


class Interrupted(HarnessError):
    """The run was asked to end; what was not begun is not begun any more."""


@dataclass
class StepState:
    """What this process knows of the run it carries out."""

    stopping: bool = False
    """Somebody asked for the end: a task's exception is all that Airflow makes of Ctrl-C, and it would begin the next one."""
    failures: tuple[str, ...] = ()
    """`step: reason`, in order."""


RUN: Final = StepState()


def holder_grace_s() -> float:
    """How long a cluster outlives this process."""
    return 0.0 if os.environ.get(EMBEDDED) else BETWEEN_TASKS_S


def plan_sweep(form: Mapping[str, Any]) -> str:
    """Return the id of the sweep to run: a new one as the form asks, or the one it names.

    Raises:
        InputError: the request cannot be; one line, nothing was started.
    """
    from experiments.orchestration.request import SweepRequest
    from experiments.planning.new_sweep import new_sweep
    from experiments.sweep.lookup import find_sweep

    with _step("plan"):
        home, request = Home.from_environment(), SweepRequest.of(form)
        if request.sweep_id:
            named = find_sweep(home, request.sweep_id)
            named.stopped.unlink(missing_ok=True)
            return named.sweep_id
        return new_sweep(home, request.experiment, request.overrides(), _LOG.info).sweep_id


def turns(sweep_id: str) -> list[int]:
    """Return one number for each trial that is not whole yet: what the DAG's trial task is mapped over."""
    return list(range(len(_sweep(sweep_id).pending())))


def next_trial(sweep: SweepFolder) -> TrialSpec | None:
    """Return the trial whose turn it is; `None` when all are whole.

    The plan's order, and after that those that failed, the one that failed first before the others. A turn is not bound to a
    trial beforehand because Airflow starts mapped tasks in the order of their indexes only under a scheduler: `dag.test()`
    goes through them as a set's hashes have it, and the plan's order is part of the experiment.
    """
    plan, pending = sweep.plan(), sweep.pending()
    failed = sorted(
        (t for t in pending if sweep.failed(t).is_dir()),
        key=lambda t: sweep.failed(t).stat().st_mtime_ns,
    )
    needs_own_cluster = [trial_id for trial_id in pending if trial_id not in failed]
    return next((plan.trial(trial_id) for trial_id in (*needs_own_cluster, *failed)), None)


def provision(sweep_id: str) -> str:
    """Start the cluster that the first trial needs; return the cluster's folder, empty when no trial is left to run.

    Raises:
        InputError, HarnessError: it did not start; nothing of it is left but logs.
    """
    from experiments.clients.process.fork_server import open_fork_server
    from experiments.orchestration import clusters

    sweep = _sweep(sweep_id)
    with _step("provision", sweep, "starting the cluster"):
        trial = next_trial(sweep)
        if trial is None:
            return ""
        _note_machine(sweep)
        with _alone(sweep, "provision"):
            if os.environ.get(EMBEDDED):
                open_fork_server()  # gets ready while the cluster starts; elsewhere it would end with this task
            return str(
                clusters.provision(
                    Home.from_environment(), sweep_id, trial.cluster, holder_grace_s()
                ).folder
            )


def _note_machine(sweep: SweepFolder) -> None:
    """Keep what the trials run on: figures of two machines are not each other's."""
    import platform

    from infra.machine.resources import GIB, this_machine

    machine = this_machine(sweep.root)
    noted = {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cores": machine.cores,
        "free memory, GiB": machine.memory_bytes // GIB,
    }
    (sweep.root / "machine.json").write_text(json.dumps(noted))


def take_turn(sweep_id: str, name_it: Callable[[str], None]) -> str:
    """Run the next trial; return its id, empty when none is left.

    Args:
        sweep_id: whose trials.
        name_it: told what the trial is called, before it begins.

    Raises:
        HarnessError: as `run_trial`.
        Interrupted: a fault of an earlier trial could not be undone.
    """
    sweep = _sweep(sweep_id)
    spec = next_trial(sweep)
    if spec is None:
        return ""
    if sweep.stopped.is_file():
        raise Interrupted(f"not begun: {sweep.stopped.read_text()}")
    name_it(f"{spec.label} ({spec.trial_id})")
    run_trial(sweep_id, spec.trial_id)
    return spec.trial_id


def run_trial(sweep_id: str, trial_id: str) -> None:
    """Run a trial and seal its ledger.

    Raises:
        HealFailed: what its fault did could not be undone; no other trial is begun until somebody goes on with the sweep.
        HarnessError: it could not be carried to its end; says nothing about Kafka.
    """
    from experiments.orchestration import clusters
    from experiments.trial import run as story

    sweep = _sweep(sweep_id)
    spec = sweep.plan().trial(trial_id)
    with _step("trial", sweep, "finding the cluster", trial_id), _alone(sweep, "trial", trial_id):
        home = Home.from_environment()
        try:
            lodged = clusters.fit_for(home, spec, holder_grace_s())
        except HarnessError as error:
            _keep_reason(sweep, spec, error)
            raise
        try:
            story.run_trial(sweep, spec, lodged.cluster, home, lodged.cluster_assignment)
        except HealFailed as error:
            sweep.stopped.write_text(" ".join(str(error).split()))
            raise
        finally:
            clusters.used_up(home, spec)
        shutil.rmtree(
            sweep.failed(trial_id), ignore_errors=True
        )  # of an earlier run of this sweep, which this one went on with


def measure(sweep_id: str) -> None:
    """Make the results from the ledgers of all whole trials; nothing where there are none.

    Raises:
        InputError, HarnessError: a ledger is not whole, or Spark failed.
    """
    from experiments.results import spark_job

    sweep = _sweep(sweep_id)
    with _step("measure", sweep, "measuring the ledgers with Spark"):
        if any(True for _ in sweep.whole_trials()):
            with _alone(sweep, "measure"):
                spark_job.measure(sweep, Home.from_environment())


def report(sweep_id: str) -> None:
    """Make the sweep's page, also of a sweep that nothing was measured of.

    Raises:
        InputError: a trial's record or a table of the results cannot be read.
    """
    from experiments.report import page

    sweep = _sweep(sweep_id)
    with _step("report", sweep, "making the page"):
        page.make_report(sweep, Home.from_environment())


def track(sweep_id: str) -> None:
    """Bring the results into MLflow; a second time changes them there and adds nothing.

    Raises:
        HarnessError: MLflow refused.
    """
    from experiments.tracking import store

    sweep = _sweep(sweep_id)
    with _step("track", sweep, "writing to MLflow"):
        store.track(sweep, Home.from_environment())


def destroy(sweep_id: str) -> None:
    """End every cluster of the sweep, whoever made it and whoever died; nothing to do is fine."""
    from experiments.orchestration import clusters

    sweep = _sweep(sweep_id)
    sweep.say("destroy", "taking the cluster down")
    clusters.destroy_all(Home.from_environment(), sweep_id)


def verify(sweep_id: str) -> None:
    """See that every planned trial is whole, sealed or void; a task's state alone would not tell.

    Raises:
        TrialFailed: some are not; says which, and why.
    """
    sweep = _sweep(sweep_id)
    with _step("verify", sweep, "looking for missing trials"):
        missing = sweep.pending()
        if missing:
            told = "; ".join(f"{trial_id} ({_why(sweep, trial_id)})" for trial_id in missing)
            raise TrialFailed(
                f"{len(missing)} of {len(sweep.plan().trials)} trials are missing: {told}"
            )
    sweep.say("done")


def _sweep(sweep_id: str) -> SweepFolder:
    sweep = SweepFolder(Home.from_environment().sweeps / sweep_id)
    if not sweep.root.is_dir():
        raise UnknownName(f"no sweep {sweep_id} in {sweep.root.parent}")
    return sweep


@contextmanager
def _step(
    name: str, sweep: SweepFolder | None = None, doing: str = "", trial_id: str | None = None
) -> Iterator[None]:
    """Frame a step: say what is done, do nothing once the end was asked for, keep why it failed."""
    if RUN.stopping:
        raise Interrupted(f"{name}: not begun, the run was asked to end")
    if sweep:
        sweep.say(name, doing, trial_id)
    try:
        yield
    except KeyboardInterrupt:
        RUN.stopping = True
        raise
    except Exception as error:
        RUN.failures = (*RUN.failures, f"{name}: {error}")
        if sweep:
            sweep.say("failed", str(error), trial_id)
        raise


@contextmanager
def _alone(sweep: SweepFolder, stage: str, trial_id: str | None = None) -> Iterator[None]:
    def waiting(holder: str) -> None:
        sweep.say(stage, f"waiting for {holder}, which has the machine", trial_id)

    with alone(
        Home.from_environment(),
        sweep.sweep_id,
        waiting,
        EMBEDDED_WAIT_S if os.environ.get(EMBEDDED) else LONGEST_WAIT_S,
    ):
        yield


def _keep_reason(sweep: SweepFolder, spec: TrialSpec, error: Exception) -> None:
    """Write a trial down as failed that had no cluster to run on."""
    failed = sweep.failed(spec.trial_id)
    failed.mkdir(parents=True, exist_ok=True)
    (failed / "reason.txt").write_text(f"{type(error).__name__}: {error}\n")
    os.utime(failed)


def _why(sweep: SweepFolder, trial_id: str) -> str:
    reason = sweep.failed(trial_id) / "reason.txt"
    return " ".join(reason.read_text().split()) if reason.is_file() else "never run"
