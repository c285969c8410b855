"""Makes the page of a sweep, anew each time: `report.html` in the sweep's folder."""

from __future__ import annotations

from pathlib import Path

from experiments.report.drawing import prepare
from experiments.report.evidence import read_evidence
from experiments.report.page import render
from experiments.sweep_folder import SweepFolder, write_whole
from infra.home import Home


def make_report(sweep: SweepFolder, home: Home) -> Path:
    """Write the page and return where it lies; a reader sees the old one or the new one, never half of one.

    Raises:
        UnknownName: there is no such sweep.
        LedgerError: a trial's record or a table of `results/` cannot be read; the old page stays.
    """
    prepare(home)
    write_whole(sweep.report, render(read_evidence(sweep)))
    return sweep.report
