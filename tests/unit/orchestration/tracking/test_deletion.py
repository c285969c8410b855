"""The runs of pruned sweeps are deleted from a real MLflow store, and no other."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from support.builders.sweep_folders import plant_sweep

from ackbench.experiments.orchestration.tracking import store
from ackbench.experiments.orchestration.tracking.deletion import delete_runs
from ackbench.experiments.results.history.pruning import PruneLimits, planned_pruning, prune
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.infra.machine.home import Home

OLD, NEW = "quick-20260102T030405-ab12", "quick-20260103T030405-cd34"


def runs_by_sweep(home: Home) -> dict[str, int]:
    """Return how many runs the store has of each sweep, also those marked as deleted."""
    with closing(sqlite3.connect(home.mlflow / "mlflow.db")) as database:
        return dict(
            database.execute("SELECT value, count(*) FROM tags WHERE key = 'sweep_id' GROUP BY 1")
        )


def test_only_the_runs_of_a_pruned_sweep_are_deleted_with_their_artifacts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database has no row of them and gets smaller, and their folders are gone.

    A module of the working folder is not taken for MLflow's.
    """
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "mlflow.py").write_text("raise SystemExit('the user's own')")
    monkeypatch.chdir(tmp_path / "project")
    home = Home(tmp_path / "home")
    old = plant_sweep(home)
    new = SweepFolder(home.sweeps / NEW)
    new.write_plan(old.plan().model_copy(update={"sweep_id": NEW}))
    for sweep in (old, new):
        store.track(sweep, home)
    before, size = runs_by_sweep(home), _size(home.mlflow / "artifacts")
    prune(home, planned_pruning(home, PruneLimits(keep=1), 1_800_000_000.0), print)
    assert delete_runs(home, [OLD]) == before[OLD]
    assert runs_by_sweep(home) == {NEW: before[NEW]}
    assert _size(home.mlflow / "artifacts") < size
    assert delete_runs(home, [OLD]) == 0


def test_without_a_store_there_is_nothing_to_delete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MLflow is not even imported, which takes seconds."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert delete_runs(Home(tmp_path), [OLD]) == 0


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
