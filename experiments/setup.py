"""`make setup`, second half: jars, start-up caches, compiled code, and the databases of Airflow and MLflow. A second call finds all of it and ends.

Run as `python -m experiments.setup`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from experiments.clients.compiling import ensure_compiled
from experiments.measuring import ensure_spark_ready
from experiments.orchestration.environment import database_of, ensure_database
from experiments.tracking import ensure_store
from infra.cluster_spec import ClusterSpec
from infra.errors import AckbenchError
from infra.home import Home
from infra.kafka_ready import ensure_kafka_ready


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
