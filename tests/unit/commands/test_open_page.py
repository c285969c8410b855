"""`ackbench open`: the report of a sweep, and its trials in MLflow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.builders.records import a_spec
from support.builders.result_tables import loss_counts
from support.builders.sweep_folders import measured_sweep_folder
from support.command_line import ackbench

from ackbench.experiments.commands import open_page
from ackbench.experiments.orchestration import services
from ackbench.experiments.orchestration.tracking import store
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.infra.machine.home import Home


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """Return a home, on a machine with a desktop whose browser records what it opens."""
    monkeypatch.setenv("ACKBENCH_HOME", str(tmp_path))
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return Home(tmp_path)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the addresses that the browser opens."""
    addresses = list[str]()
    monkeypatch.setattr("click.launch", addresses.append)
    return addresses


def track(sweep: SweepFolder, uri: str) -> None:
    """Write the ids that MLflow gave to a sweep."""
    ids = store.TrackedSweep(
        tracking_uri=uri, experiment_id="7", summary_run_id="s", trial_run_ids=("a",)
    )
    sweep.write_record(sweep.tracked, ids)


@pytest.fixture
def sweep(home: Home) -> SweepFolder:
    """Return a measured sweep of one trial."""
    return measured_sweep_folder(home, "kept", [a_spec()], lambda _: loss_counts(100, 0))


def test_the_report_is_rendered_if_it_is_missing_and_its_path_is_printed(
    sweep: SweepFolder, opened: list[str]
) -> None:
    """Without a desktop nothing is opened."""
    sweep.report.unlink(missing_ok=True)
    result = ackbench("open", "report")

    assert (result.exit_code, result.stdout) == (0, f"{sweep.report}\n")
    assert sweep.report.is_file()
    assert opened == []


def test_on_a_desktop_the_report_is_opened(
    sweep: SweepFolder, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a file of this machine."""
    monkeypatch.setenv("DISPLAY", ":0")

    assert ackbench("open", "report", sweep.sweep_id).exit_code == 0
    assert opened == [sweep.report.as_uri()]


def test_a_sweep_that_is_not_in_mlflow_is_one_line(sweep: SweepFolder) -> None:
    """It was interrupted before, or copied from elsewhere."""
    result = ackbench("open", "mlflow", sweep.sweep_id)

    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert f"{sweep.sweep_id} is not in MLflow" in result.stderr


def test_a_server_of_the_teams_own_is_opened_and_none_is_started(sweep: SweepFolder) -> None:
    """The link filters by the sweep."""
    track(sweep, "https://mlflow.example/")
    result = ackbench("open", "mlflow")

    assert result.exit_code == 0
    assert result.stdout.startswith("https://mlflow.example/#/experiments/7/runs?")
    assert sweep.sweep_id in result.stdout


@pytest.mark.parametrize("is_up", [True, False])
def test_the_page_of_the_embedded_store_is_started_unless_it_is_served(
    home: Home, sweep: SweepFolder, monkeypatch: pytest.MonkeyPatch, is_up: bool
) -> None:
    """`ackbench up` may serve it at another port."""
    track(sweep, store.embedded_uri(home))
    store.record_server_address(home, "http://127.0.0.1:5001")
    started = list[int]()

    def serve(_home: Home, port: int, on_ready: Callable[[], None], _say: object) -> None:
        started.append(port)
        on_ready()

    saved = list[str]()
    monkeypatch.setattr(open_page, "save_charts", lambda sweep, *_: saved.append(sweep.sweep_id))
    monkeypatch.setattr(services, "is_up", lambda _home: is_up)
    monkeypatch.setattr(services, "serve_mlflow", serve)
    result = ackbench("open", "mlflow", "--port", "5002")

    assert result.exit_code == 0
    assert started == ([] if is_up else [5002])
    assert saved == [sweep.sweep_id]
    assert f"http://127.0.0.1:{5001 if is_up else 5002}/#/experiments/7/runs?" in result.stdout
