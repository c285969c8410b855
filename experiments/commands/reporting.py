"""`ackbench report`: a sweep's page, made anew."""

from __future__ import annotations

import click

from experiments.report.making import make_report
from experiments.sweeps import find_sweep
from infra.home import Home


def report(home: Home, named: str | None) -> int:
    """Make a sweep's page, the newest's when none is named, and print its path.

    Raises:
        UnknownName: there is no such sweep, or none at all.
        LedgerError: its results cannot be read; the old page stays.
    """
    click.echo(make_report(find_sweep(home, named), home))
    return 0
