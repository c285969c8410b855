"""Run the DAG for a planned sweep in this process, without a scheduler.

`python -m ackbench.experiments.orchestration.embedded <sweep_id>`. Airflow's `dag.test()` runs the
tasks here, one after the other. The exit code is 0 if the run succeeded, else 1. The last line of
the output is the first failure. SIGINT, SIGTERM and SIGHUP interrupt the current trial; no other
task starts except the teardown.
"""

from __future__ import annotations

import logging
import os
import runpy
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from ackbench.experiments.messages.terminal import echo_error
from ackbench.experiments.orchestration import step_context, steps
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.progress import report_queued
from ackbench.infra.airflow.environment import (
    DAGS_FOLDER,
    EMBEDDED,
    airflow_environment,
    embedded_database,
)
from ackbench.infra.errors import AckbenchError
from ackbench.infra.machine.home import Home, keep_files_private
from ackbench.infra.process.load_lock import COMMAND_MAX_WAIT_S, hold_machine_lock

if TYPE_CHECKING:
    from airflow.sdk.definitions.dag import DAG

FORWARDED_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)
"""Signals that interrupt the run as SIGINT does."""


def main(arguments: list[str]) -> int:
    """Run the sweep whose id is the only argument; return the exit code."""
    if len(arguments) != 1:
        sys.exit("usage: python -m ackbench.experiments.orchestration.embedded <sweep_id>")
    keep_files_private()
    home = Home.from_environment()
    sweep = SweepFolder(home.sweeps / arguments[0])
    try:
        with _interrupt_on_signals():
            succeeded = run(home, sweep)
    except KeyboardInterrupt:
        succeeded = False
    except AckbenchError as error:
        step_context.RUN_STATE.failures = (*step_context.RUN_STATE.failures, str(error))
        succeeded = False
    _print_failures(succeeded)
    return 0 if succeeded else 1


def run(home: Home, sweep: SweepFolder) -> bool:
    """Run the DAG for a planned sweep; return whether it succeeded.

    The sweep's cluster is destroyed in any case.

    Raises:
        HarnessError: another run holds the machine lock, or Airflow's database could not be
            created.
        KeyboardInterrupt: the run was interrupted between two tasks.
    """
    with (
        hold_machine_lock(home, sweep.sweep_id, partial(report_queued, sweep), COMMAND_MAX_WAIT_S),
        embedded_database(home) as database,
    ):
        sweep.report_activity("start")
        os.environ.update(airflow_environment(home, database) | {EMBEDDED: "1"})
        try:
            return bool(_load_dag().test(run_conf={"sweep_id": sweep.sweep_id}).state == "success")
        finally:
            steps.destroy(sweep.sweep_id)


def _load_dag() -> DAG:
    """Load the DAG from its file. This imports Airflow, which reads its environment then."""
    logging.captureWarnings(capture=True)
    dag: Any = runpy.run_path(str(DAGS_FOLDER / "sweep.py"))["ackbench_sweep"]
    return dag  # type: ignore[no-any-return]


@contextmanager
def _interrupt_on_signals() -> Iterator[None]:
    """Raise `KeyboardInterrupt` at the first of the signals; later ones must not break the cleanup.

    Airflow installs a SIGTERM handler of its own for every task, which swallows the signal. So the
    signals are also read from the file descriptor that Python writes each one to
    (`signal.set_wakeup_fd`), and forwarded as SIGINT.
    """

    def interrupt(number: int, _frame: FrameType | None) -> None:
        if not step_context.RUN_STATE.stopping:
            step_context.RUN_STATE.stopping = True
            raise KeyboardInterrupt(signal.Signals(number).name)

    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    handlers = {signal.SIGINT: interrupt, **dict.fromkeys(FORWARDED_SIGNALS, lambda *_: None)}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    wakeup = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=_forward, args=[receiver], name="signals", daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(wakeup)
        sender.close()
        for number, handler in before.items():
            signal.signal(number, handler)


def _forward(receiver: socket.socket) -> None:
    """Send SIGINT to this process for every forwarded signal, until the sender is closed."""
    with receiver:
        while number := receiver.recv(1):
            if number[0] in FORWARDED_SIGNALS:
                os.kill(os.getpid(), signal.SIGINT)


def _print_failures(succeeded: bool) -> None:
    """Print the failures, the first one last: the later ones followed from it."""
    lines = [*reversed(step_context.RUN_STATE.failures)]
    if step_context.RUN_STATE.stopping:
        lines = ["interrupted"]
    elif not lines and not succeeded:
        lines = ["the run failed without a reason"]
    sys.stdout.flush()
    for line in lines:
        # The last line of the caller's log file.
        echo_error(" ".join(line.split()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
