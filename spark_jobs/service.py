"""A measuring service: one Spark application that measures several sweeps, one after the other.

    python -m ackbench.spark_jobs.service --socket DESCRIPTOR [--master ...] [--conf key=value ...]

The start of Spark takes longer than the measurement of most sweeps, and a tour has a sweep every
few minutes. The socket is inherited from the process that starts the service, so requests wait
until Spark runs. A request is one connection with the sweep's location as a line, after
`SKIP_UNFIT` if unfit trials are to be left out. The answer is a line: `ok`, or what
`spark_jobs.measure` prints for the same error. The service ends with SIGINT, when the process that
started it has ended, or at the next request once Spark's JVM has ended.
"""

from __future__ import annotations

import argparse
import signal
import socket
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from ackbench.experiments.ledger.spark_settings import SparkSetupError, parse_settings
from ackbench.spark_jobs.application import Application
from ackbench.spark_jobs.measure import (
    add_spark_options,
    context_request,
    error_line,
    measure_in,
    spark_application,
)
from ackbench.spark_jobs.python_daemon import forgo_pandas

OK: Final = "ok"
SKIP_UNFIT: Final = "skip-unfit "
"""No location begins with it: each is an absolute path or a URI."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer requests until the process is interrupted; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="ackbench.spark_jobs.service",
        description="Measure sweeps on request, in one application.",
    )
    parser.add_argument(
        "--socket", type=int, required=True, help="the descriptor of a socket that listens"
    )
    add_spark_options(parser)
    options = parser.parse_args(arguments)
    with (
        tempfile.TemporaryDirectory(prefix="ackbench-spark-", dir=options.work) as work,
        socket.socket(fileno=options.socket) as listener,
        suppress(KeyboardInterrupt),
    ):
        try:
            request = context_request(options, Path(work), parse_settings(options.conf))
            with spark_application(request) as running:
                while not running.has_ended:
                    _answer(listener, running)
        except SparkSetupError as error:
            while True:  # each request gets the reason
                _answer(listener, error)
    return 0


def _answer(listener: socket.socket, running: Application | SparkSetupError) -> None:
    """Measure the sweep that the next request names; an error is the answer.

    There is none if Spark's JVM has ended in the meantime: the sweep is then measured elsewhere.
    """
    connection, _ = listener.accept()
    with connection, connection.makefile("rw", encoding="utf-8") as stream:
        if isinstance(running, Application) and running.has_ended:
            return
        answer = _measured(stream.readline().rstrip("\n"), running)
        with suppress(OSError):  # whoever asked has been interrupted
            stream.write(f"{answer}\n")
            stream.flush()


def _measured(sweep: str, running: Application | SparkSetupError) -> str:
    """Carry out the request for a sweep and return the answer."""
    if isinstance(running, SparkSetupError):
        return error_line(running)
    try:
        location = sweep.removeprefix(SKIP_UNFIT)
        measure_in(running, location, skip_unfit=location != sweep)
    except Exception as error:  # noqa: BLE001 - the next sweep can be measured all the same
        return error_line(error)
    return OK


if __name__ == "__main__":
    forgo_pandas()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    raise SystemExit(main())
