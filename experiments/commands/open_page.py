"""`ackbench open`: a sweep's report, its trials in MLflow, and the live page, in the browser."""

from __future__ import annotations

import os

import click

from ackbench.experiments.messages.errors import UnknownName
from ackbench.experiments.messages.terminal import echo, echo_error
from ackbench.experiments.orchestration import services
from ackbench.experiments.orchestration.tracking.store import (
    MLFLOW_PORT,
    charts_link,
    embedded_uri,
    in_embedded_store,
    page_address,
    save_charts,
    tracked_sweep,
    tracking_uri,
)
from ackbench.experiments.pages.live.files import page_path
from ackbench.experiments.pages.report.page import write_report
from ackbench.experiments.sweep.published import open_sweep
from ackbench.infra.errors import AckbenchError
from ackbench.infra.machine.home import Home
from ackbench.infra.machine.loopback import LOOPBACK


def open_report(home: Home, named: str | None) -> int:
    """Print the path of a sweep's report and open it; a missing one is rendered first.

    Raises:
        UnknownName: there is no such sweep, or none at all.
        LedgerError: the report is missing, and the results cannot be read.
    """
    sweep = open_sweep(home, named, echo_error)
    if not sweep.report.is_file():
        write_report(sweep, home)
    _open(str(sweep.report), sweep.report.as_uri())
    return 0


def open_live(home: Home) -> int:
    """Print the path of the live page and open it.

    Raises:
        UnknownName: no sweep has written one since the last `ackbench clean`.
    """
    page = page_path(home)
    if not page.is_file():
        raise UnknownName(f"no live page at {page}: `ackbench run` and `ackbench up` write it")
    _open(str(page), page.as_uri())
    return 0


def open_mlflow(home: Home, named: str | None, port: int | None) -> int:
    """Print the address of a sweep's trials in MLflow and open it.

    The page of the embedded store is started, until it is interrupted, unless `ackbench up` serves
    it.

    Args:
        home: the home of the sweep.
        named: the sweep; `None`: the newest.
        port: the port of MLflow's page, if it is started; `None`: the usual one.

    Raises:
        UnknownName: there is no such sweep, or it is not in MLflow.
        MachineError: the port is taken.
        HarnessError: MLflow did not start.
    """
    sweep = open_sweep(home, named, echo_error)
    tracked = tracked_sweep(sweep)
    if tracked is None:
        raise UnknownName(
            f"{sweep.sweep_id} is not in MLflow: it was interrupted before, or comes from elsewhere"
        )
    address = page_address(tracked, home)
    if address is None:
        raise UnknownName(
            f"{sweep.sweep_id} is in another store of MLflow, which has no page here: "
            f"{tracked.tracking_uri}, experiment {tracked.experiment_id}"
        )
    if tracking_uri(home) == embedded_uri(home) and in_embedded_store(tracked, home):
        try:
            save_charts(sweep, home, tracked)
        except AckbenchError as error:
            echo_error(f"ackbench: {error}")
    if not in_embedded_store(tracked, home) or services.is_up(home):
        link = charts_link(address, sweep.sweep_id, tracked)
        _open(link, link)
        return 0
    port = port or MLFLOW_PORT
    link = charts_link(f"http://{LOOPBACK}:{port}", sweep.sweep_id, tracked)
    services.serve_mlflow(home, port, lambda: _ready(link), echo)
    return 0


def _ready(link: str) -> None:
    _open(link, link)
    echo("Ctrl-C stops the page")


def _open(shown: str, address: str) -> None:
    """Print an address, and open it if there is a desktop."""
    echo(shown)
    if os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        click.launch(address)
