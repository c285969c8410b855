"""Isolates the tests: variables that decide results are removed from this process before any test.

The product lists what it removes for its own processes. Tests run without those variables, without
what configures the programs of Kafka, Spark, Airflow and MLflow, stores and the terminal, and in a
new home that only has the jars and caches of the one that `make setup` has filled: a test sets what
it is about.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import MutableMapping
from pathlib import Path
from typing import Final

from ackbench.experiments.orchestration.tracking.store import QUIET
from ackbench.experiments.results.spark_job import SPARK_PREFIXES
from ackbench.experiments.trial.clients.librdkafka.code_cache import CACHE_VARIABLE, cache_folder
from ackbench.infra.airflow.environment import AIRFLOW_PREFIXES
from ackbench.infra.jvm.runtime import JAVA_HOME_VARIABLE, REMOVED_VARIABLES
from ackbench.infra.machine.home import SET_UP_FILE

_PREFIXES: Final = (
    "ACKBENCH_",
    *AIRFLOW_PREFIXES,
    *SPARK_PREFIXES,
    *("KAFKA_", "MLFLOW_", "_MLFLOW_", "AWS_", "AZURE_", "GOOGLE_", "NUMBA_", "GIT_", "GITHUB_"),
)
_NAMES: Final = REMOVED_VARIABLES | {
    *("JAVA_HOME", "MPLCONFIGDIR", "MPLBACKEND", "XDG_DATA_HOME", "CI"),
    *("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE"),
    *("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"),
}
_KEPT: Final = frozenset(
    {
        JAVA_HOME_VARIABLE,  # with which `make setup` has trained the start-up caches
        "ACKBENCH_HISTORIES",
        "ACKBENCH_HISTORIES_SEED",
        "ACKBENCH_MUTANTS",
        "ACKBENCH_UNIT_HISTORIES",
    }
)
"""With which JVM, and how much is tested."""


def remove_foreign_variables(environment: MutableMapping[str, str]) -> None:
    """Remove what decides results; the home stays if it is set up."""
    home = environment.get("ACKBENCH_HOME", "")
    for name in list(environment):
        if name not in _KEPT and (name.startswith(_PREFIXES) or name.upper() in _NAMES):
            del environment[name]
    if Path(home, SET_UP_FILE).is_file():
        environment["ACKBENCH_HOME"] = home


def isolate() -> tempfile.TemporaryDirectory[str]:
    """Isolate this process and its children; return the folder of their temporary files."""
    remove_foreign_variables(os.environ)
    # Not below that of a worker's main process: the address of a Unix socket has 108 bytes.
    root = os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    folder = tempfile.TemporaryDirectory(prefix="tests-", dir=root, ignore_cleanup_errors=True)
    Path(folder.name).chmod(0o701)  # some tests are another user
    os.environ["TMPDIR"] = tempfile.tempdir = folder.name
    from support.set_up_home import SET_UP  # as the environment names it now

    home = Path(folder.name, "home")
    home.mkdir()
    for path in (SET_UP.cache, SET_UP.root / SET_UP_FILE):
        (home / path.name).symlink_to(path)
    os.environ["ACKBENCH_HOME"] = str(home)
    # The product sets these once in a process, from the home of the first test that needs them.
    os.environ["MPLCONFIGDIR"] = str(SET_UP.cache / "matplotlib")
    os.environ[CACHE_VARIABLE] = str(cache_folder())
    os.environ.update(QUIET)
    # Tests neither wait for the load of this machine, nor does it wait for them.
    os.environ["ACKBENCH_MACHINE_LOCK"] = f"ackbench-tests-{os.getpid()}"
    return folder
