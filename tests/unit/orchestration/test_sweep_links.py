"""Where the links of a task's page lead."""

from __future__ import annotations

from pathlib import Path

import pytest

from ackbench.experiments.ledger.location import open_location
from ackbench.experiments.orchestration.sweep_links import (
    SITE_VARIABLE,
    link_of,
    mlflow_address,
    report_address,
)
from ackbench.experiments.orchestration.tracking.store import TrackedSweep
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.published import keep_store
from ackbench.infra.machine.home import Home

SWEEP_ID = "quick-20260102T030405-ab12"
SERVER = "https://mlflow.example"


@pytest.fixture
def sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SweepFolder:
    """A sweep that is neither tracked nor published."""
    monkeypatch.setenv("ACKBENCH_HOME", str(tmp_path))
    monkeypatch.delenv(SITE_VARIABLE, raising=False)
    sweep = SweepFolder(Home(tmp_path).sweeps / SWEEP_ID)
    sweep.root.mkdir(parents=True)
    return sweep


def links(named: object) -> tuple[str, str]:
    """Return the links to the report and to MLflow, of a task that was called with this."""
    return link_of(named, report_address), link_of(named, mlflow_address)


def track(sweep: SweepFolder, uri: str = SERVER) -> None:
    """Record the runs of a sweep, as if it had been tracked."""
    tracked = TrackedSweep(
        tracking_uri=uri, experiment_id="7", summary_run_id="abc", trial_run_ids=("d",)
    )
    sweep.write_record(sweep.tracked, tracked)


def test_a_tracked_sweep_has_its_report_and_its_charts_in_mlflow(sweep: SweepFolder) -> None:
    """A browser opens no file from Airflow's page."""
    track(sweep)
    report, charts = links(SWEEP_ID)
    assert report == f"{SERVER}/#/experiments/7/runs/abc/artifacts/report.html"
    assert charts.startswith(f"{SERVER}/#/experiments/7/runs?")
    assert charts.endswith(SWEEP_ID)


def test_a_site_has_the_report_first(sweep: SweepFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is what the team reads."""
    track(sweep)
    monkeypatch.setenv(SITE_VARIABLE, "https://kafka.example/bench/")
    assert links(SWEEP_ID)[0] == f"https://kafka.example/bench/sweeps/{SWEEP_ID}.html"


def test_what_a_browser_cannot_open_is_no_link(sweep: SweepFolder, tmp_path: Path) -> None:
    """Neither a database of MLflow's, nor a folder, nor a sweep that was never planned."""
    track(sweep, "sqlite:////srv/mlflow.db")
    keep_store(sweep, open_location((tmp_path / "store").as_uri()))
    assert links(SWEEP_ID) == ("", "")
    assert links("nowhere-20260102T030405-ab12") == ("", "")
    assert links(None) == ("", "")
