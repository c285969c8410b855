"""The second half of `make setup`: jars, start-up caches, compiled clients, databases.

Run as `python -m experiments.commands.setup`. A second call finds everything and returns at once.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from experiments.clients.librdkafka.code_cache import cache_folder
from experiments.orchestration.environment import database_of, ensure_database
from experiments.results.spark_job import ensure_spark_ready
from experiments.tracking.store import ensure_store
from infra.cluster.setup import ensure_kafka_ready
from infra.errors import AckbenchError
from infra.kafka.spec import ClusterSpec
from infra.machine.home import Home, keep_files_private
from infra.process.load_lock import hold_machine_lock_for_command

COMPILED_MODULES: Final = (
    "experiments.clients.consumer.loop",
    "experiments.clients.producer.loop",
)
"""Importing them compiles what the clients run, into Numba's cache."""
_COMPILED: Final = "compiled"
"""The file in the cache that marks the compiled code as complete."""


def main() -> int:
    """Make what is missing and print the time it took; return the exit code."""
    keep_files_private()
    home = Home.from_environment()
    try:
        home.ensure_writable()
        start_s = time.monotonic()
        if make_ready(home, _say):
            _say(f"ready ({time.monotonic() - start_s:.0f} s)")
    except AckbenchError as error:
        sys.stderr.write(f"setup: {error}\n")
        return error.exit_code
    return 0


def make_ready(home: Home, say: Callable[[str], None]) -> bool:
    """Make everything that a sweep would otherwise wait for.

    Args:
        home: the home whose cache and databases are filled.
        say: called with one line before each step that takes long.

    Returns:
        Whether anything was missing.

    Raises:
        MachineError: jars cannot be fetched, or `ACKBENCH_JAVA_HOME` is not a JVM.
        HarnessError: a training run for a start-up cache failed.
        ClientLibraryError: librdkafka was not found, or has a version that is not verified.
    """
    steps: list[str] = []

    def announce(text: str) -> None:
        steps.append(text)
        say(text)

    load = partial(hold_machine_lock_for_command, home, "set-up")
    ensure_kafka_ready(home.cache, ClusterSpec(), announce, load)
    ensure_compiled(announce)
    ensure_spark_ready(home, announce)
    if not database_of(home).is_file():
        announce("making Airflow's database (once; about 10 seconds)")
    ensure_database(home, announce)
    ensure_store(home, announce)
    return bool(steps)


def ensure_compiled(say: Callable[[str], None]) -> None:
    """Compile the clients' loops into the cache, unless they are there.

    Args:
        say: called with one line before the compiling.

    Raises:
        ClientLibraryError: librdkafka was not found, or has a version that is not verified.
        OSError: the cache cannot be written.
    """
    done = cache_folder() / _COMPILED
    if done.exists():
        return
    say("compiling the clients (once; about 10 seconds)")
    for module in COMPILED_MODULES:
        importlib.import_module(module)
    done.parent.mkdir(parents=True, exist_ok=True)
    done.touch()


def _say(text: str) -> None:
    sys.stdout.write(f"setup: {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
