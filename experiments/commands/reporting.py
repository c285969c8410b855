"""`ackbench report`: a sweep's page, made anew."""

from __future__ import annotations

from collections.abc import Sequence

import click

from experiments.commands.gating import passed
from experiments.comparing.gate import Gate
from experiments.report.making import make_report
from experiments.results.reading import read_results
from experiments.sweeps import find_sweep
from infra.home import Home


def report(home: Home, named: str | None, fail_on: Sequence[str]) -> int:
    """Make a sweep's page, the newest's when none is named, and print its path; return the exit code, the gate's where it does not let the sweep pass.

    Raises:
        InputError: an expression of the gate is wrong.
        UnknownName: there is no such sweep, or none at all.
        LedgerError: its results cannot be read; the old page stays.
    """
    gate, sweep = Gate.of(fail_on), find_sweep(home, named)
    click.echo(make_report(sweep, home))
    return passed(gate.of_sweep(read_results(sweep)))
