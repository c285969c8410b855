"""`python -m experiments.orchestration.embedded <sweep_id>`: run the DAG for a planned sweep in this process, with no scheduler.

Airflow's `dag.test()` runs every task here, one after the other. The exit code is 0 when the run succeeded, else 1, and the last
line says what failed first. SIGINT, SIGTERM and SIGHUP end the trial under way, begin nothing else, and run the teardown.
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
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from experiments.orchestration import steps
from experiments.orchestration.environment import DAGS, airflow_environment, own_database
from experiments.orchestration.machine_lock import alone
from experiments.sweep.folder import SweepFolder
from infra.errors import AckbenchError
from infra.machine.home import Home

if TYPE_CHECKING:
    from airflow.sdk.definitions.dag import DAG

TRANSLATED: Final = (signal.SIGTERM, signal.SIGHUP)
"""What asks for the end beside SIGINT."""


def main(arguments: list[str]) -> int:
    """Run the sweep that is named; return the exit code."""
    if len(arguments) != 1:
        sys.exit("usage: python -m experiments.orchestration.embedded <sweep_id>")
    home = Home.from_environment()
    sweep = SweepFolder(home.sweeps / arguments[0])
    try:
        with _ending_on_signals():
            succeeded = run(home, sweep)
    except KeyboardInterrupt:
        succeeded = False
    except AckbenchError as error:
        steps.RUN.failures = (*steps.RUN.failures, str(error))
        succeeded = False
    _last_words(succeeded)
    return 0 if succeeded else 1


def run(home: Home, sweep: SweepFolder) -> bool:
    """Run the DAG for a planned sweep; return whether it succeeded. Its cluster is gone afterwards, whatever happened.

    Raises:
        HarnessError: somebody else has the machine, or Airflow's database could not be made.
        KeyboardInterrupt: the end was asked for between two tasks.
    """

    def waiting(holder: str) -> None:
        sweep.say("plan", f"waiting for {holder}, which has the machine")

    with (
        alone(home, sweep.sweep_id, waiting, steps.EMBEDDED_WAIT_S),
        own_database(home) as database,
    ):
        os.environ.update(airflow_environment(home, database) | {steps.EMBEDDED: "1"})
        try:
            return bool(_dag().test(run_conf={"sweep_id": sweep.sweep_id}).state == "success")
        finally:
            steps.destroy(sweep.sweep_id)


def _dag() -> DAG:
    """Load the DAG from its file, as a scheduler does; imports Airflow, which reads its environment then."""
    logging.captureWarnings(capture=True)
    dag: Any = runpy.run_path(str(DAGS / "sweep.py"))["ackbench_sweep"]
    return dag  # type: ignore[no-any-return]


@contextmanager
def _ending_on_signals() -> Iterator[None]:
    """Make each of the signals an interrupt, once: what unwinds must not be torn by the next one.

    Airflow puts a SIGTERM handler of its own in place for every task, which swallows it. So signals are heard beside their
    handlers, by the file descriptor that Python writes each one to (`signal.set_wakeup_fd`), and sent on as SIGINT.
    """

    def end(number: int, _frame: FrameType | None) -> None:
        if not steps.RUN.stopping:
            steps.RUN.stopping = True
            raise KeyboardInterrupt(signal.Signals(number).name)

    hearing, told = socket.socketpair()
    told.setblocking(False)
    handlers = {signal.SIGINT: end, **dict.fromkeys(TRANSLATED, lambda *_: None)}
    before = {heard: signal.signal(heard, handler) for heard, handler in handlers.items()}
    wakeup = signal.set_wakeup_fd(told.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=_send_on, args=[hearing], name="signals", daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(wakeup)
        told.close()
        for heard, handler in before.items():
            signal.signal(heard, handler)


def _send_on(hearing: socket.socket) -> None:
    """Send SIGINT for every signal that asks for the same in other words, until the other end is closed."""
    with hearing:
        while number := hearing.recv(1):
            if number[0] in TRANSLATED:
                os.kill(os.getpid(), signal.SIGINT)


def _last_words(succeeded: bool) -> None:
    """End the log with what failed first: what failed later followed from it."""
    said = [*reversed(steps.RUN.failures)] or (
        [] if succeeded else ["the run failed without a reason"]
    )
    lines = ["interrupted"] if steps.RUN.stopping else said
    sys.stdout.flush()
    for line in lines:
        print(" ".join(line.split()), file=sys.stderr, flush=True)  # noqa: T201 - the last line of the caller's log file


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
