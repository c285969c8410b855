"""The environment of every Airflow process: all that Airflow writes lies below the home, and nothing of another Airflow leaks in.

`python -m experiments.orchestration.environment` makes the database, once; set-up calls it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Final

from infra.errors import HarnessError
from infra.machine.files import exclusive_lock, sqlite_url
from infra.machine.home import REPOSITORY, Home

DAGS: Final = REPOSITORY / "dags"
LOOPBACK: Final = "127.0.0.1"
PARALLEL_TASKS: Final = 4
"""Tasks at once under `ackbench up`; trials among them run one at a time whatever this says."""
MACHINE_POOL: Final = "ackbench_machine"
"""A pool of one slot: whoever waits for the machine waits here, and not in a process."""

_FOREIGN: Final = ("AIRFLOW", "_AIRFLOW", "__AIRFLOW")
"""Prefixes of what another Airflow installation may have set."""
_UNWANTED: Final = ("PYTHONDONTWRITEBYTECODE",)
"""Without bytecode every Airflow process compiles its 2,000 modules anew: 3.4 s instead of 1.1 s for `airflow.sdk` alone."""


def airflow_environment(home: Home, database: Path | None = None) -> dict[str, str]:
    """Return the complete environment of an Airflow process.

    Args:
        home: the folder everything is written below.
        database: the SQLite file; the home's own by default.
    """
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_FOREIGN) and name not in _UNWANTED
    }
    return {
        **inherited,
        **_process(home, inherited),
        **_settings(home, database or database_of(home)),
    }


def database_of(home: Home) -> Path:
    """Return the database that the scheduler and its page use; an embedded run has one of its own."""
    return home.airflow / "airflow.db"


def ensure_database(home: Home) -> None:
    """Make the home's database, or bring it to the installed Airflow's version; costs nothing when that was done.

    Raises:
        HarnessError: Airflow could not make it; the text says where its own words are.
    """
    _ensure_empty_database(home)
    stamp, database = home.airflow / "migrated", database_of(home)
    with exclusive_lock(database):
        if not database.is_file():
            shutil.copyfile(_empty_database(home), database)
        elif not stamp.is_file() or stamp.read_text() != _made_for():
            _migrate(home, database)
        stamp.write_text(_made_for())


@contextmanager
def own_database(home: Home) -> Iterator[Path]:
    """Give one embedded run a fresh, migrated database; what a killed run left of its own goes too.

    It does not share the scheduler's: a run that was killed would be found there as running, and be gone on with. Call it with
    the machine held (`experiments.orchestration.machine_lock`), so that no other embedded run of this home is under way.

    Raises:
        HarnessError: Airflow could not make it.
    """
    _ensure_empty_database(home)
    folder = home.airflow / "embedded"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        yield Path(shutil.copyfile(_empty_database(home), folder / "airflow.db"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _empty_database(home: Home) -> Path:
    return home.airflow / f"empty-{_made_for()}.db"


def _made_for() -> str:
    """What a database depends on: when this changes, it is migrated again."""
    return f"{version('apache-airflow')}-{MACHINE_POOL}"


def _ensure_empty_database(home: Home) -> None:
    """Migrate once what every other database is a copy of: `airflow db migrate` costs 6 to 10 s."""
    home.ensure_writable()
    empty = _empty_database(home)
    if empty.is_file():
        return
    with exclusive_lock(empty):
        if not empty.is_file():
            for old in empty.parent.glob("empty-*"):
                old.unlink()
            partial = empty.with_suffix(".partial")
            _migrate(home, partial)
            partial.replace(empty)


def _migrate(home: Home, database: Path) -> None:
    """Bring a database to the installed Airflow's version, with the pool that the DAG's heavy tasks wait in."""
    _airflow(home, database, "db", "migrate")
    _airflow(
        home,
        database,
        "pools",
        "set",
        MACHINE_POOL,
        "1",
        "provision, trial and measure: one at a time on this machine",
    )


def _airflow(home: Home, database: Path, *words: str) -> None:
    log = home.logs / "airflow-set-up.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as chatter:
        command = [sys.executable, "-m", "airflow", *words]
        ended = subprocess.run(
            command,
            env=airflow_environment(home, database),
            stdout=chatter,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if ended.returncode != 0:
        raise HarnessError(
            f"`airflow {' '.join(words)}` ended with status {ended.returncode}, see {log}"
        )


def _process(home: Home, inherited: Mapping[str, str]) -> dict[str, str]:
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
    }


def _settings(home: Home, database: Path) -> dict[str, str]:
    """Airflow's settings, by its own names (`AIRFLOW__SECTION__KEY`, see its configuration reference)."""
    sections = {
        "CORE": {
            "DAGS_FOLDER": str(DAGS),
            "PLUGINS_FOLDER": str(home.airflow / "plugins"),
            "LOAD_EXAMPLES": "False",
            "EXECUTOR": "LocalExecutor",
            "PARALLELISM": str(PARALLEL_TASKS),
            "DAGS_ARE_PAUSED_AT_CREATION": "True",
            "SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",  # no login: the servers listen on loopback only
        },
        "DATABASE": {"SQL_ALCHEMY_CONN": sqlite_url(database)},
        "LOGGING": {
            "BASE_LOG_FOLDER": str(home.logs / "airflow"),
            "DAG_PROCESSOR_CHILD_PROCESS_LOG_DIRECTORY": str(
                home.logs / "airflow" / "dag_processor"
            ),
            "COLORED_CONSOLE_LOG": "False",
        },
        "SCHEDULER": {
            "SCHEDULER_IDLE_SLEEP_TIME": "0.1",
            "TASK_INSTANCE_HEARTBEAT_TIMEOUT": "60",
        },  # a killed task is noticed within a minute
        "DAG_PROCESSOR": {"PARSING_PROCESSES": "1", "REFRESH_INTERVAL": "30"},
        "API": {"HOST": LOOPBACK, "WORKERS": "1"},
    }
    named = {
        f"AIRFLOW__{section}__{key}": value
        for section, keys in sections.items()
        for key, value in keys.items()
    }
    return {"AIRFLOW_HOME": str(home.airflow), **named}


def main() -> None:
    """Make the home's database."""
    ensure_database(Home.from_environment())


if __name__ == "__main__":
    main()
