"""`make setup`, second half: jars, start-up caches, compiled code and Airflow's database. A second call finds all of it and ends.

Run as `python -m experiments.setup`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Final

from experiments.measuring import ensure_spark_ready
from experiments.orchestration.environment import database_of, ensure_database
from infra.cluster import ClusterSpec
from infra.errors import AckbenchError, HarnessError
from infra.home import CLONE, Home
from infra.kafka_ready import ensure_kafka_ready

_COMPILED: Final = ("experiments.clients.producing", "experiments.clients.reading")
"""What Numba compiles; importing it once puts it on disk."""


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
    """
    said: list[str] = []

    def tell(text: str) -> None:
        said.append(text)
        say(text)

    ensure_kafka_ready(home.cache, ClusterSpec.kafka_version, tell)
    _ensure_compiled(home, tell)
    ensure_spark_ready(home, tell)
    if not database_of(home).is_file():
        tell("making Airflow's database (once; about 10 seconds)")
    ensure_database(home)
    return bool(said)


def _ensure_compiled(home: Home, say: Callable[[str], None]) -> None:
    """Numba itself knows when its files are old; a stamp of the sources tells whether to ask it."""
    sources = sorted((CLONE / "experiments" / "clients").glob("*.py"))
    stamp = "\n".join(f"{path.name} {path.stat().st_mtime_ns}" for path in sources) + sys.version
    kept = home.cache / "numba" / "stamp"
    if kept.is_file() and kept.read_text() == stamp:
        return
    say("compiling the producer and the reader (once; about 20 seconds)")
    command = [sys.executable, "-c", "import " + ", ".join(_COMPILED)]
    done = subprocess.run(command, cwd=CLONE, env={**os.environ, "NUMBA_CACHE_DIR": str(kept.parent)}, capture_output=True, text=True, check=False)
    if done.returncode:
        raise HarnessError(f"the producer and the reader did not compile:\n{done.stderr[-2000:]}")
    kept.write_text(stamp)


def _say(text: str) -> None:
    sys.stdout.write(f"setup: {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
