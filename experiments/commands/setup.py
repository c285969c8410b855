"""Compiles what the clients run, once a machine: importing it is enough."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Final

from experiments.clients.librdkafka.code_cache import cache_folder
from experiments.orchestration.environment import database_of, ensure_database
from experiments.results.spark_job import ensure_spark_ready
from experiments.tracking.store import ensure_store
from infra.cluster.setup import ensure_kafka_ready
from infra.errors import AckbenchError
from infra.kafka.spec import ClusterSpec
from infra.machine.home import Home

_DONE: Final = "compiled"


def ensure_compiled(say: Callable[[str], None]) -> None:
    """Compile what the clients run, unless it lies in the cache already; that costs next to nothing to find out.

    Args:
        say: tells a person what takes long.

    Raises:
        ClientLibraryError: librdkafka was not found, or is of a version not verified.
        OSError: the cache cannot be written.
    """
    done = cache_folder() / _DONE
    if done.exists():
        return
    say("compiling the clients (once; about 10 seconds)")

    done.parent.mkdir(parents=True, exist_ok=True)
    done.touch()


# ---------- `make setup`, second half: jars, start-up caches, compiled code, and the databases of Airflow and MLflow. A second call finds all of it and ends.
#
# Run as `python -m experiments.commands.setup`.


def main() -> int:
    """Make what is missing, and say what it cost; return the exit code."""
    home = Home.from_environment()
    try:
        home.ensure_writable()
        began = time.monotonic()
        if make_ready(home, _say):
            _say(f"ready ({time.monotonic() - began:.0f} s)")
    except AckbenchError as error:
        sys.stderr.write(f"setup: {error}\n")
        return error.exit_code
    return 0


def make_ready(home: Home, say: Callable[[str], None]) -> bool:
    """Make everything that a sweep would otherwise wait for; return whether anything was missing.

    Raises:
        MachineError: jars cannot be had, or the JVM that is named is none.
        HarnessError: a program to learn from did not run.
        ClientLibraryError: librdkafka was not found, or is of a version that nobody verified.
    """
    said: list[str] = []

    def tell(text: str) -> None:
        said.append(text)
        say(text)

    ensure_kafka_ready(home.cache, ClusterSpec(), tell)
    ensure_compiled(tell)
    ensure_spark_ready(home, tell)
    if not database_of(home).is_file():
        tell("making Airflow's database (once; about 10 seconds)")
    ensure_database(home)
    ensure_store(home)
    return bool(said)


def _say(text: str) -> None:
    sys.stdout.write(f"setup: {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
