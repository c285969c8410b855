"""Delete Airflow's history of old runs: rows of its database, and the logs of its tasks."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from ackbench.infra.airflow.environment import database_of, run_airflow
from ackbench.infra.errors import HarnessError
from ackbench.infra.machine.databases import shrink_database
from ackbench.infra.machine.home import Home

_LOGS: Final = ("dag_id=*/run_id=*", "dag_processor/*", "scheduler/*")
"""Folders of logs that belong to one run, or to one day."""


def delete_history(home: Home, before_s: float) -> Iterator[str]:
    """Delete what Airflow recorded of runs before a time; yield one line for each thing done.

    A database that another process has locked for too long is left as it is.

    Args:
        home: the home with the database and the logs of `ackbench up`.
        before_s: seconds since the epoch.
    """
    database, before = database_of(home), datetime.fromtimestamp(before_s, UTC)
    runs = _old_runs(database, before)
    if runs:
        try:
            run_airflow(
                home,
                database,
                *("db", "clean", "--clean-before-timestamp", before.isoformat()),
                *("--skip-archive", "--yes"),
            )
        except HarnessError as error:
            yield f"kept: Airflow's history: {error}"
        else:
            rest = "" if shrink_database(database) else "; its file shrinks once it is not in use"
            yield f"deleted {runs:,} runs from Airflow's database{rest}"
    removed = 0
    for pattern in _LOGS:
        for folder in (home.logs / "airflow").glob(pattern):
            if _is_old(folder, before_s):
                shutil.rmtree(folder)
                removed += 1
    if removed:
        yield f"removed {removed:,} folders of Airflow's logs"


def _old_runs(database: Path, before: datetime) -> int:
    """Return how many runs of the database began before a time."""
    if not database.is_file():
        return 0
    try:
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as opened:
            (count,) = opened.execute(
                "SELECT count(*) FROM dag_run WHERE coalesce(start_date, run_after) < ?",
                (f"{before:%Y-%m-%d %H:%M:%S}",),
            ).fetchone()
    except sqlite3.DatabaseError:
        return 0
    return int(count)


def _is_old(folder: Path, before_s: float) -> bool:
    return folder.is_dir() and not folder.is_symlink() and folder.stat().st_mtime < before_s
