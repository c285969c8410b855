"""Airflow's history of old runs is deleted from its real database."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ackbench.experiments.orchestration.history import delete_history
from ackbench.infra.airflow.environment import database_of, ensure_database
from ackbench.infra.machine.home import Home

pytestmark = pytest.mark.further


def test_only_runs_before_the_limit_are_deleted(airflow: Home, tmp_path: Path) -> None:
    """By Airflow's own command, without archive tables, from a file that gets smaller."""
    home = Home(tmp_path)
    shutil.copytree(airflow.airflow, home.airflow, ignore=shutil.ignore_patterns("airflow.db*"))
    ensure_database(home)
    add_run(database_of(home), "old", datetime(2026, 1, 1, tzinfo=UTC))
    add_run(database_of(home), "new", datetime(2026, 3, 1, tzinfo=UTC))
    lines = list(delete_history(home, datetime(2026, 2, 1, tzinfo=UTC).timestamp()))
    assert lines == ["deleted 1 runs from Airflow's database"]
    with closing(sqlite3.connect(database_of(home))) as database:
        assert database.execute("SELECT run_id FROM dag_run").fetchall() == [("new",)]
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
    assert not {name for name in tables if name.startswith("_airflow_deleted")}


def add_run(database: Path, run_id: str, at: datetime) -> None:
    """Write a run into the database; columns that must have a value get one of their type."""
    text = f"{at:%Y-%m-%d %H:%M:%S.000000}"
    known: dict[str, int | str] = {
        "dag_id": "ackbench_quick",
        "run_id": run_id,
        "state": "success",
        "run_type": "manual",
        "start_date": text,
        "run_after": text,
        "end_date": text,
        "queued_at": text,
        "logical_date": text,
        "updated_at": text,
    }
    with closing(sqlite3.connect(database)) as opened:
        columns = opened.execute("PRAGMA table_info(dag_run)").fetchall()
        for _, name, kind, required, default, is_key in columns:
            if required and not is_key and default is None and name not in known:
                known[name] = 0 if kind.upper().startswith(("INT", "BOOL")) else ""
        names = ", ".join(known)
        places = ", ".join("?" for _ in known)
        opened.execute(
            f"INSERT INTO dag_run ({names}) VALUES ({places})",  # noqa: S608 - columns of the table
            tuple(known.values()),
        )
        opened.commit()
