"""Run the steps of a planned sweep in this process, one after the other, without Airflow.

`python -m ackbench.experiments.orchestration.runner <sweep_id>`. The exit code is 0 if the sweep is
complete, else 1. The last line of the output is the first failure. SIGINT, SIGTERM and SIGHUP
interrupt the current trial; no other step starts except `destroy`.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

from ackbench.experiments.messages.log_records import keep_log_records_visible
from ackbench.experiments.messages.terminal import echo_error
from ackbench.experiments.orchestration import alerts, batches, step_context, steps
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.progress import report_queued
from ackbench.infra.errors import AckbenchError, says_all
from ackbench.infra.machine.home import Home, keep_files_private
from ackbench.infra.process.interrupts import handled_by
from ackbench.infra.process.load_lock import COMMAND_MAX_WAIT_S, hold_machine_lock

_LOG: Final = logging.getLogger(__name__)


def main(arguments: list[str]) -> int:
    """Run the sweep whose id is the only argument; return the exit code."""
    if len(arguments) != 1:
        sys.exit("usage: python -m ackbench.experiments.orchestration.runner <sweep_id>")
    keep_files_private()
    log_to_output()
    home = Home.from_environment()
    sweep = SweepFolder(home.sweeps / arguments[0])
    waiting, complete = partial(report_queued, sweep), False
    try:
        with (
            handled_by(step_context.interrupt),
            hold_machine_lock(home, sweep.sweep_id, waiting, COMMAND_MAX_WAIT_S),
        ):
            complete = run_steps(sweep.sweep_id)
    except KeyboardInterrupt:
        step_context.RUN_STATE.stopping = True
    except AckbenchError as error:
        step_context.RUN_STATE.failures = (*step_context.RUN_STATE.failures, str(error))
    _print_failures(complete)
    return 0 if complete else 1


def run_steps(sweep_id: str) -> bool:
    """Run what the DAG runs (`ackbench.dags.tasks`), in an order of it; return whether it did all.

    As there, a trial that fails stops no other one, and whatever failed, what was sealed is
    measured, missing trials are named, and the alert is sent.

    Raises:
        KeyboardInterrupt: the run was interrupted; the cluster is destroyed.
    """
    try:
        if _succeeds(steps.provision, sweep_id):
            _succeeds(_run_trials, sweep_id)
        imports = _import_ahead()
    finally:
        destroyed = _succeeds(steps.destroy, sweep_id)
    measured = _succeeds(steps.measure, sweep_id)
    verified = _succeeds(steps.verify, sweep_id)
    tracked = measured and _succeeds(steps.report, sweep_id) and _succeeds(steps.track, sweep_id)
    finished = verified and tracked and _succeeds(steps.finish, sweep_id)
    _succeeds(alerts.alert, sweep_id, {"dag": None})  # notifiers of Airflow look for a DAG
    imports.join()
    return finished and destroyed


def _import_ahead() -> threading.Thread:
    """Begin to import what draws the report and writes to MLflow: three seconds of one CPU.

    Until they are needed this process waits for the cluster to end and for Spark. A package that
    cannot be imported is the error of the step that needs it.
    """

    def load() -> None:
        with suppress(ImportError):
            from ackbench.experiments.orchestration.tracking.store import load_mlflow
            from ackbench.experiments.pages.report import page  # noqa: F401 - imported ahead
            from ackbench.experiments.pages.report.drawing import load_matplotlib

            load_matplotlib(Home.from_environment())
            load_mlflow()

    thread = threading.Thread(target=load, name="imports", daemon=True)
    thread.start()
    return thread


def _run_trials(sweep_id: str) -> None:
    with step_context.report_failure("list_trials"):
        listed = batches.list_batches(sweep_id)
    for planned in listed:
        _succeeds(batches.run_planned, sweep_id, planned, lambda _: None)


def _succeeds(step: Callable[..., object], *arguments: Any) -> bool:
    """Run a step and log why it fails; the state of the run has the reason as well."""
    try:
        step(*arguments)
    except Exception as error:  # noqa: BLE001 - one step does not end the others
        _LOG.error("%s", error, exc_info=None if says_all(error) else error)
        return False
    return True


def log_to_output() -> None:
    """Write the log to standard error."""
    keep_log_records_visible()
    logging.captureWarnings(capture=True)
    logging.basicConfig(
        format="%(asctime)s %(levelname)-7s %(name)s: %(message)s", stream=sys.stderr
    )
    logging.getLogger("ackbench").setLevel(logging.INFO)


def _print_failures(complete: bool) -> None:
    """Print the failures, the first one last: the later ones followed from it."""
    lines = [*reversed(step_context.RUN_STATE.failures)]
    if step_context.RUN_STATE.stopping:
        lines = ["interrupted"]
    elif not lines and not complete:
        lines = ["the run failed without a reason"]
    sys.stdout.flush()
    for line in lines:
        # The last line of the caller's log file.
        echo_error(" ".join(line.split()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
