"""A home after many nights: copies of one real sweep, with its rows in MLflow and in Airflow.

A night has the folder, the logs and the artifacts of the sweep, and copies of all its rows in both
databases under ids and times of its own. So each night takes what a real one takes.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from support.builders.nights import BEGIN_S, DAY_S

from ackbench.experiments.orchestration.tracking.store import database_of_store, tracked_sweep
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.infra.airflow.environment import database_of
from ackbench.infra.machine.home import Home

_AIRFLOW_TIME: Final = "%Y-%m-%d %H:%M:%S.%f"
Row = dict[str, Any]


@dataclass(frozen=True)
class Night:
    """One simulated night."""

    number: int
    """From 0."""
    sweep: SweepFolder
    begin_s: float
    """When it was planned, seconds since the epoch."""


class NightCopier:
    """Copies the only sweep of a home, with all that belongs to it, to further nights."""

    def __init__(self, home: Home, store: Path) -> None:
        """Move the sweep and its logs out of the home; its rows and its artifacts stay.

        Args:
            home: has one sweep, which is tracked and which Airflow's database has a run of.
            store: a folder to keep what is copied in.
        """
        self._home = home
        (folder,) = (path.parent for path in home.sweeps.glob("[!.]*/plan.json"))
        self._runs = _rows_of_sweep(database_of_store(home), folder.name)
        self._airflow = _rows_of_run(database_of(home))
        self._artifacts = tuple(_artifact_folders(home, SweepFolder(folder)))
        self._source = SweepFolder(Path(shutil.move(folder, store / folder.name)))
        self._logs = tuple(
            (path, Path(shutil.move(path, store / f"logs-{number}")))
            for number, path in enumerate(_log_folders(home, folder.name))
        )

    def add(self, number: int) -> Night:
        """Add a night."""
        begin_s = BEGIN_S + number * DAY_S
        name = self._source.sweep_id.rsplit("-", 2)[0]
        sweep_id = f"{name}-{datetime.fromtimestamp(begin_s, UTC):%Y%m%dT%H%M%S}-{number:04x}"
        night = Night(number, SweepFolder(self._home.sweeps / sweep_id), begin_s)
        self._copy_folders(night)
        self._copy_runs(night)
        self._copy_history(night)
        return night

    def _copy_folders(self, night: Night) -> None:
        shutil.copytree(self._source.root, night.sweep.root)
        plan, sweep_id = self._source.plan(), night.sweep.sweep_id
        trials = tuple(one.model_copy(update={"sweep_id": sweep_id}) for one in plan.trials)
        night.sweep.write_plan(plan.model_copy(update={"sweep_id": sweep_id, "trials": trials}))
        for path, kept in self._logs:
            is_run = path.name.startswith("run_id=")
            target = path.with_name(f"run_id=night__{night.number}" if is_run else sweep_id)
            shutil.copytree(kept, target)
            os.utime(target, (night.begin_s, night.begin_s))

    def _copy_runs(self, night: Night) -> None:
        ids = {row["run_uuid"]: uuid.uuid4().hex for row in self._runs["runs"]}
        for folder in self._artifacts:
            shutil.copytree(folder, folder.with_name(ids[folder.name]))

        def renamed(_: str, row: Row) -> Row:
            run_id = row["run_uuid"]
            text = {run_id: ids[run_id], self._source.sweep_id: night.sweep.sweep_id}
            return {name: _replaced(value, text) for name, value in row.items()}

        _insert(database_of_store(self._home), self._runs, renamed)

    def _copy_history(self, night: Night) -> None:
        tasks = {row["id"]: str(uuid.uuid4()) for row in self._airflow["task_instance"]}
        (run,) = self._airflow["dag_run"]
        begun = datetime.strptime(run["start_date"], _AIRFLOW_TIME).replace(tzinfo=UTC)
        later = night.begin_s - begun.timestamp()
        # The source's own id is far below those of the nights.
        number = run["id"] + 1 + night.number
        text = {
            run["run_id"]: f"night__{night.number}",
            self._source.sweep_id: night.sweep.sweep_id,
        }

        def renamed(table: str, row: Row) -> Row:
            moved = {name: _moved(_replaced(value, text), later) for name, value in row.items()}
            if table == "dag_run":
                moved["id"] = number
            elif table == "task_instance":
                moved["id"] = tasks[row["id"]]
            elif isinstance(row.get("id"), int):
                moved["id"] = None  # SQLite gives the next one
            for column in ("ti_id", "task_instance_id"):
                if row.get(column) in tasks:
                    moved[column] = tasks[row[column]]
            if "dag_run_id" in row:
                moved["dag_run_id"] = number
            return moved

        _insert(database_of(self._home), self._airflow, renamed)


def _artifact_folders(home: Home, sweep: SweepFolder) -> Iterator[Path]:
    tracked = tracked_sweep(sweep)
    assert tracked, "the sweep is not tracked"
    for run_id in (tracked.summary_run_id, *tracked.trial_run_ids):
        yield from (home.mlflow / "artifacts").glob(f"**/{run_id}")


def _log_folders(home: Home, sweep_id: str) -> Iterator[Path]:
    """Yield the folders of logs that belong to the sweep, and to its run in Airflow."""
    if (home.logs / sweep_id).is_dir():
        yield home.logs / sweep_id
    yield from (home.logs / "airflow").glob("dag_id=*/run_id=*")


def _rows_of_sweep(database: Path, sweep_id: str) -> Mapping[str, list[Row]]:
    """Return the rows of a sweep's runs in MLflow's database, by table; the runs come first."""
    with closing(_opened(database)) as opened:
        ids = [
            row["run_uuid"]
            for row in opened.execute(
                "SELECT run_uuid FROM tags WHERE key = 'sweep_id' AND value = ?", (sweep_id,)
            )
        ]
        tables = _tables_with(opened, "run_uuid")
        rows = {table: _select(opened, table, "run_uuid", ids) for table in tables}
    return {"runs": rows.pop("runs"), **{name: found for name, found in rows.items() if found}}


def _rows_of_run(database: Path) -> Mapping[str, list[Row]]:
    """Return the rows of the only run in Airflow's database, by table; the run comes first."""
    with closing(_opened(database)) as opened:
        (run,) = opened.execute("SELECT id, run_id FROM dag_run").fetchall()
        rows = {
            table: _select(opened, table, column, [run[key]])
            for column, key in (("run_id", "run_id"), ("dag_run_id", "id"))
            for table in _tables_with(opened, column)
        }
        rows["dag_run"] = _select(opened, "dag_run", "id", [run["id"]])
    first = {name: rows.pop(name) for name in ("dag_run", "task_instance")}
    return {**first, **{name: found for name, found in rows.items() if found}}


def _opened(database: Path) -> sqlite3.Connection:
    opened = sqlite3.connect(database)
    opened.row_factory = sqlite3.Row
    return opened


def _tables_with(opened: sqlite3.Connection, column: str) -> list[str]:
    tables = [row[0] for row in opened.execute("SELECT name FROM sqlite_master WHERE type='table'")]
    return [
        table
        for table in tables
        if column in {row["name"] for row in opened.execute(f'PRAGMA table_info("{table}")')}
    ]


def _select(opened: sqlite3.Connection, table: str, column: str, keys: list[Any]) -> list[Row]:
    marks = ", ".join("?" * len(keys))
    query = f'SELECT * FROM "{table}" WHERE "{column}" IN ({marks})'  # noqa: S608 - its own tables
    return [dict(row) for row in opened.execute(query, keys)]


def _insert(
    database: Path, tables: Mapping[str, list[Row]], renamed: Callable[[str, Row], Row]
) -> None:
    with closing(sqlite3.connect(database)) as opened, opened:
        for table, rows in tables.items():
            for row in rows:
                new = renamed(table, row)
                names = ", ".join(f'"{name}"' for name in new)
                marks = ", ".join("?" * len(new))
                opened.execute(
                    f'INSERT INTO "{table}" ({names}) VALUES ({marks})',  # noqa: S608
                    tuple(new.values()),
                )


def _replaced(value: Any, text: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        for old, new in text.items():
            value = value.replace(old, new)
    return value


def _moved(value: Any, later_s: float) -> Any:
    """Return a time of Airflow's database that many seconds later; other values unchanged."""
    if not isinstance(value, str):
        return value
    try:
        then = datetime.strptime(value, _AIRFLOW_TIME).replace(tzinfo=UTC)
    except ValueError:
        return value
    return datetime.fromtimestamp(then.timestamp() + later_s, UTC).strftime(_AIRFLOW_TIME)
