"""The addresses of a sweep's report and runs, for the links of a task's page and for alerts."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from ackbench.experiments.orchestration.step_context import sweep_named
from ackbench.experiments.sweep.published import published_uri
from ackbench.infra.errors import AckbenchError

if TYPE_CHECKING:
    from ackbench.experiments.orchestration.tracking.store import TrackedSweep
    from ackbench.experiments.sweep.folder import SweepFolder

SITE_VARIABLE: Final = "ACKBENCH_SITE_URL"
"""The address of the folder that `ackbench site` writes, for links."""
_LOG: Final = logging.getLogger(__name__)


def link_of(named: object, address: Callable[[SweepFolder], str | None]) -> str:
    """Return an address of the sweep that a task was called with; empty: it has none.

    Args:
        named: the sweep's id or URI; anything else: no sweep was planned.
        address: `report_address` or `mlflow_address`.
    """
    if not isinstance(named, str):
        return ""
    try:
        return address(sweep_named(named)) or ""
    except AckbenchError as error:
        _LOG.warning("no link: %s", error)
        return ""


def asset_extra(named: str) -> dict[str, str | None]:
    """Return what the event of a complete sweep tells the DAGs that follow it.

    Args:
        named: the sweep's id or URI.
    """
    sweep = sweep_named(named)
    return {
        "sweep": sweep.argument,
        "experiment": sweep.plan().experiment,
        "report": report_address(sweep),
    }


def report_address(sweep: SweepFolder) -> str | None:
    """Return the address of a sweep's report, for a browser; `None`: it has none but its file."""
    from ackbench.experiments.orchestration.tracking import store

    site = site_page(sweep)
    if site:
        return site
    found = _tracked(sweep)
    if found:
        return store.report_link(*found)
    page = stored_page(sweep)
    return page if page and page.startswith(("http://", "https://")) else None


def mlflow_address(sweep: SweepFolder) -> str | None:
    """Return the address of a sweep's charts in MLflow; `None`: there is none."""
    from ackbench.experiments.orchestration.tracking import store

    found = _tracked(sweep)
    return store.charts_link(found[0], sweep.sweep_id, found[1]) if found else None


def site_page(sweep: SweepFolder) -> str | None:
    """Return the address of a sweep's page on the site; `None`: no site is named."""
    site = os.environ.get(SITE_VARIABLE)
    return f"{site.rstrip('/')}/sweeps/{quote(sweep.sweep_id)}.html" if site else None


def stored_page(sweep: SweepFolder) -> str | None:
    """Return the URI of a sweep's report in its store; `None`: it is not published."""
    uri = sweep.origin.uri if sweep.origin else published_uri(sweep)
    return f"{uri.partition('?')[0]}/report.html" if uri else None


def _tracked(sweep: SweepFolder) -> tuple[str, TrackedSweep] | None:
    """Return the address of MLflow's page and the sweep's ids there; `None`: it has no page."""
    from ackbench.experiments.orchestration.tracking import store
    from ackbench.infra.machine.home import Home

    tracked = store.tracked_sweep(sweep)
    address = tracked and store.page_address(tracked, Home.from_environment())
    return (address, tracked) if tracked and address else None
