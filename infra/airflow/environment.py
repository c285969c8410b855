"""The environment and the databases of Airflow's processes.

Airflow writes only below the home, and settings of another Airflow installation have no effect.
`ackbench up` creates the database; `ackbench run` needs no Airflow.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Final

from ackbench.infra.errors import HarnessError
from ackbench.infra.machine.databases import copy_database, create_database, is_complete, move_aside
from ackbench.infra.machine.files import exclusive_lock, replace_file, sqlite_url
from ackbench.infra.machine.home import REPOSITORY, Home
from ackbench.infra.machine.loopback import LOOPBACK

DAGS_FOLDER: Final = REPOSITORY / "dags"
PARALLEL_TASKS: Final = 4
"""Tasks in parallel under `ackbench up`. Trials run one at a time nevertheless."""
_POOLS: Final = "slot_pool"
"""The table with Airflow's pools, which is filled last."""
EXECUTION_API_TIMEOUT_S: Final = "60"
"""How long a task waits for an answer of the API server, seconds; `docs/running.md` names it."""
MACHINE_POOL: Final = "ackbench_machine"
"""A pool with one slot per host.

So tasks wait for a machine in the scheduler, not in a process of their own.
"""

ONE_MACHINE: Final = "ACKBENCH_ONE_MACHINE"
"""A variable: set if all tasks run on this machine, one at a time, and share its home."""
AIRFLOW_PREFIXES: Final = ("AIRFLOW", "_AIRFLOW", "__AIRFLOW")
"""Prefixes of variables that may be set for another Airflow installation."""
_REMOVED: Final = ("PYTHONDONTWRITEBYTECODE",)
"""Without cached bytecode every Airflow process compiles its 2,000 modules again.

`airflow.sdk` alone then takes 3.4 s instead of 1.1 s.
"""

_NO_PROXY: Final = ("no_proxy", "NO_PROXY")
"""Programs read one or the other; the first decides for most of them."""


def airflow_environment(home: Home, database: Path | None = None) -> dict[str, str]:
    """Return the complete environment of an Airflow process.

    Args:
        home: the folder that Airflow writes below.
        database: the SQLite file; by default the scheduler's.
    """
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(AIRFLOW_PREFIXES) and name not in _REMOVED
    }
    return {
        **inherited,
        **process_variables(home, inherited),
        ONE_MACHINE: "1",
        **_airflow_settings(home, database or database_of(home)),
    }


def database_of(home: Home) -> Path:
    """Return the database of the scheduler and the API server."""
    return home.airflow / "airflow.db"


def ensure_database(home: Home, say: Callable[[str], None] | None = None) -> None:
    """Create the home's database, or migrate it to the installed Airflow's version.

    It is created and migrated under another name, so that a killed process leaves the old one or
    none. One that is incomplete nevertheless is made again.

    Args:
        home: has the database.
        say: called with a line before it is made, and if it is incomplete.

    Raises:
        HarnessError: Airflow could not create it; the message names the log.
    """
    stamp, database = _stamp(home), database_of(home)
    if say and not database.is_file():
        say("making Airflow's database (once; about 10 seconds)")
    empty = ensure_empty_database(home)
    with exclusive_lock(database):
        if database.is_file() and not is_complete(database, _POOLS, check=True):
            aside = move_aside(database)
            if say:
                say(
                    f"Airflow's database was incomplete, because its creation was interrupted: it "
                    f"is made again without the history of earlier runs; the old file is {aside}"
                )
        if not database.is_file():
            create_database(database, partial(copy_database, empty))
        elif not stamp.is_file() or stamp.read_text() != _database_version():

            def migrated_copy(target: Path) -> None:
                copy_database(database, target)
                _migrate(home, target)

            create_database(database, migrated_copy)
        replace_file(stamp, _database_version())


def _stamp(home: Home) -> Path:
    return home.airflow / "migrated"


def _database_version() -> str:
    """Return what a database depends on; it is migrated when this changes."""
    return f"{version('apache-airflow')}-{MACHINE_POOL}"


def ensure_empty_database(home: Home) -> Path:
    """Create the database that all others are copied from: `airflow db migrate` takes 6 to 10 s.

    Returns:
        Its file.

    Raises:
        HarnessError: Airflow could not create it.
    """
    home.ensure_writable()
    empty = home.airflow / f"empty-{_database_version()}.db"
    if empty.is_file():
        return empty
    with exclusive_lock(empty):
        if not empty.is_file():
            for old in empty.parent.glob("empty-*"):
                old.unlink()
            create_database(empty, lambda target: _migrate(home, target))
    return empty


def _migrate(home: Home, database: Path) -> None:
    """Migrate a database to the installed Airflow's version, and create the pool in it."""
    run_airflow(home, database, "db", "migrate")
    run_airflow(
        home,
        database,
        "pools",
        "set",
        MACHINE_POOL,
        "1",
        "provision, trial and measure: one task at a time on this machine",
    )


def run_airflow(home: Home, database: Path, *arguments: str) -> None:
    """Run a command of Airflow on a database; its output is appended to a log.

    Raises:
        HarnessError: it failed; the message names the log.
    """
    log = home.logs / "airflow-set-up.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        command = [sys.executable, "-P", "-m", "airflow", *arguments]
        process = subprocess.run(
            command,
            env=airflow_environment(home, database),
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if process.returncode != 0:
        raise HarnessError(
            f"`airflow {' '.join(arguments)}` exited with status {process.returncode}, see {log}"
        )


def process_variables(home: Home, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a process needs which runs steps, whoever starts it.

    Args:
        home: the home of the sweep.
        inherited: the other variables of the process.
    """
    return {
        "ACKBENCH_HOME": str(home.root),
        "NUMBA_CACHE_DIR": inherited.get("NUMBA_CACHE_DIR", str(home.cache / "numba")),
        "PATH": os.pathsep.join(
            dict.fromkeys(
                [
                    str(Path(sys.executable).parent),
                    *inherited.get("PATH", os.defpath).split(os.pathsep),
                ]
            )
        ),
        "MLFLOW_DISABLE_TELEMETRY": "true",
        # A proxy of the user's does not reach Airflow's API server, which tasks call.
        **dict.fromkeys(_NO_PROXY, ",".join((*_without_proxy(inherited), LOOPBACK, "localhost"))),
    }


def _without_proxy(inherited: Mapping[str, str]) -> list[str]:
    """Return the addresses that the user reaches without a proxy."""
    named = next((inherited[name] for name in _NO_PROXY if name in inherited), "")
    return [each for each in named.split(",") if each and each not in {LOOPBACK, "localhost"}]


def _airflow_settings(home: Home, database: Path) -> dict[str, str]:
    """Return Airflow's settings (`AIRFLOW__SECTION__KEY`, see its configuration reference)."""
    sections = {
        "CORE": {
            "DAGS_FOLDER": str(DAGS_FOLDER),
            "PLUGINS_FOLDER": str(home.airflow / "plugins"),
            "LOAD_EXAMPLES": "False",
            "EXECUTOR": "LocalExecutor",
            "PARALLELISM": str(PARALLEL_TASKS),
            "DAGS_ARE_PAUSED_AT_CREATION": "True",
            # For the commands of `ackbench env`, without a server; `ackbench up` asks for a login.
            "SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        },
        "DATABASE": {"SQL_ALCHEMY_CONN": sqlite_url(database)},
        "LOGGING": {
            "BASE_LOG_FOLDER": str(home.logs / "airflow"),
            "DAG_PROCESSOR_CHILD_PROCESS_LOG_DIRECTORY": str(
                home.logs / "airflow" / "dag_processor"
            ),
            "COLORED_CONSOLE_LOG": "False",
            # Airflow sets these bits itself, whatever the umask.
            "FILE_TASK_HANDLER_NEW_FOLDER_PERMISSIONS": "0o700",
            "FILE_TASK_HANDLER_NEW_FILE_PERMISSIONS": "0o600",
        },
        "SCHEDULER": {
            "SCHEDULER_IDLE_SLEEP_TIME": "0.1",
            "TASK_INSTANCE_HEARTBEAT_TIMEOUT": "60",  # a killed task fails within a minute
        },
        "DAG_PROCESSOR": {"PARSING_PROCESSES": "1", "REFRESH_INTERVAL": "30"},
        "API": {"HOST": LOOPBACK, "WORKERS": "1"},
        # By default 5 s: on a busy machine tasks fail before they start, without a log.
        "WORKERS": {"EXECUTION_API_TIMEOUT": EXECUTION_API_TIMEOUT_S},
    }
    variables = {
        f"AIRFLOW__{section}__{key}": value
        for section, keys in sections.items()
        for key, value in keys.items()
    }
    return {"AIRFLOW_HOME": str(home.airflow), **variables}
