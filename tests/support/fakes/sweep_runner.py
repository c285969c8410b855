"""Runs a sweep, or measures it, without doing anything: `sweep_runner.py <kind> <sweep id>`.

It prints `ready` once it holds what the real process holds, and ends at the end of its input.
Kinds: `command` (`ackbench run`), `task` (a task of the DAG run `dag/one`), `measure`.
"""

from __future__ import annotations

import signal
import sys
from contextlib import ExitStack
from unittest import mock

from ackbench.experiments.commands import cli
from ackbench.experiments.orchestration.step_context import TASK_START_GRACE_S
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.lock import SweepLock, TaskLock
from ackbench.infra.machine.home import Home
from ackbench.infra.process.load_lock import hold_machine_lock_for_command


def wait(*_arguments: object, **_options: object) -> None:
    """Wait until nobody writes to the standard input any more."""
    print("ready", flush=True)  # noqa: T201 - the test reads it
    sys.stdin.read()


def main(kind: str, sweep_id: str) -> None:
    """Hold what the process of this kind holds."""
    # Where the tests run in the background, SIGINT is ignored, and this process inherits that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    home = Home.from_environment()
    sweep = SweepFolder(home.sweeps / sweep_id)
    if kind == "measure":
        sys.argv = ["ackbench", "measure", sweep_id]
        with mock.patch("ackbench.experiments.results.spark_job.measure", wait):
            cli.main()
    with ExitStack() as held:
        if kind == "task":
            held.enter_context(TaskLock(home, sweep, "dag/one", TASK_START_GRACE_S))
        else:
            held.enter_context(SweepLock(home, sweep))
        held.enter_context(hold_machine_lock_for_command(home, sweep_id, sys.stderr.write))
        wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
