"""Delete the runs of pruned sweeps from MLflow, and give their space back to the disk."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from ackbench.experiments.messages.phrases import one_line
from ackbench.experiments.orchestration.tracking.store import (
    QUIET,
    database_of_store,
    embedded_uri,
    experiment_prefix,
    mlflow_errors,
    open_client,
    tracking_uri,
)
from ackbench.experiments.sweep.lookup import pruned_folder
from ackbench.infra.errors import HarnessError
from ackbench.infra.machine.databases import shrink_database
from ackbench.infra.machine.home import Home
from ackbench.infra.process.log_tail import last_line

_RUNS_PER_CALL: Final = 500
"""Ids on one command line."""
_SHORTENED: Final = 300
_UNAVAILABLE: Final = "TEMPORARILY_UNAVAILABLE"
"""MLflow's code for an error of the database, such as a lock."""


def delete_runs(home: Home, pruned: Sequence[str]) -> int:
    """Delete the runs of pruned sweeps; return how many.

    Those of the embedded store are deleted for good, with their artifacts, also if an earlier call
    was interrupted. A server marks them as deleted; its own `mlflow gc` removes them.

    Args:
        home: has the embedded store.
        pruned: ids of the sweeps; of the embedded store, all pruned sweeps are looked for.

    Raises:
        HarnessError: MLflow refused, or is unreachable.
    """
    if tracking_uri(home) != embedded_uri(home):
        return _delete_at_server(home, pruned) if pruned else 0
    database = database_of_store(home)
    with mlflow_errors(home):
        doomed = _runs_of_pruned(home, database)
        if not doomed:
            return 0
        _mark_deleted(home, doomed)
    for begin in range(0, len(doomed), _RUNS_PER_CALL):
        _collect_garbage(home, doomed[begin : begin + _RUNS_PER_CALL])
    shrink_database(database)
    return len(doomed)


def _runs_of_pruned(home: Home, database: Path) -> list[str]:
    """Return the ids of the runs whose sweep was pruned."""
    pruned = {path.stem for path in pruned_folder(home).glob("[!.]*.json")}
    if not pruned or not database.is_file():
        return []
    with closing(sqlite3.connect(database)) as opened:
        rows = opened.execute("SELECT run_uuid, value FROM tags WHERE key = 'sweep_id'").fetchall()
    present = {path.parent.name for path in home.sweeps.glob("*/plan.json")}
    return [run_id for run_id, sweep_id in rows if sweep_id in pruned - present]


def _mark_deleted(home: Home, run_ids: Sequence[str]) -> None:
    import mlflow.exceptions

    client = open_client(home)
    for run_id in run_ids:
        try:
            client.delete_run(run_id)
        except mlflow.exceptions.MlflowException as error:
            if error.error_code == _UNAVAILABLE:
                raise
            # Already marked, by an earlier call that was interrupted.


def _collect_garbage(home: Home, run_ids: Sequence[str]) -> None:
    """Remove runs that are marked as deleted, with their artifacts."""
    uri = embedded_uri(home)
    process = subprocess.run(
        [
            *(sys.executable, "-P", "-m", "mlflow", "gc", "--backend-store-uri", uri),
            *("--run-ids", ",".join(run_ids)),
        ],
        env={**os.environ, **QUIET, "MLFLOW_TRACKING_URI": uri},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode != 0:
        reason = one_line(last_line(process.stderr))
        raise HarnessError(f"`mlflow gc` failed: {reason[:_SHORTENED]}")


def _delete_at_server(home: Home, pruned: Sequence[str]) -> int:
    with mlflow_errors(home):
        client = open_client(home)
        experiments = [
            one.experiment_id
            for one in client.search_experiments(
                filter_string=f"name LIKE '{experiment_prefix()}%'"
            )
        ]
        deleted = 0
        for sweep_id in pruned:
            runs = client.search_runs(experiments, f"tags.sweep_id = '{sweep_id}'")
            for run in runs:
                client.delete_run(run.info.run_id)
                deleted += 1
        return deleted
