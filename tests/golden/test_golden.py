"""Each output of the product, of small sweeps that ran once with real brokers.

A difference is a change of what users read. If it is intended, `pytest tests/golden
--update-golden` writes the files and prints the difference.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from golden import outputs
from golden.comparing import GoldenFiles
from golden.outputs import OF_A_SWEEP, StoredSweep, without_places

SWEEPS = ("quick", "transactions", "groups", "copiers")
"""The sweeps whose outputs are compared one by one."""
SLOW = ("mlflow.txt", "report.txt")
"""Outputs that take seconds: in the first tier of one sweep only."""


def places(found: Mapping[str, str], stored: Mapping[str, StoredSweep]) -> dict[str, str]:
    """Return outputs without the home's folder."""
    home = next(iter(stored.values())).home
    return {name: without_places(text, home) for name, text in found.items()}


@pytest.mark.parametrize("name", SWEEPS)
def test_what_is_printed_and_written_of_a_sweep(
    name: str, stored: dict[str, StoredSweep], golden: GoldenFiles
) -> None:
    """On a terminal, as JSON, for CI systems, from Python, and the tables of the measuring job."""
    found = {file: write(stored[name]) for file, write in OF_A_SWEEP.items() if file not in SLOW}
    golden.compare(name, places(found, stored))


@pytest.mark.further(*SWEEPS[1:])
@pytest.mark.parametrize("name", SWEEPS)
def test_the_report_of_a_sweep(
    name: str, stored: dict[str, StoredSweep], golden: GoldenFiles
) -> None:
    """Its headings, tables and texts."""
    golden.compare(name, places({"report.txt": outputs.report(stored[name])}, stored))


@pytest.mark.further(*SWEEPS[1:])
@pytest.mark.parametrize("name", SWEEPS)
def test_what_mlflow_has_of_a_sweep(
    name: str, copied: dict[str, StoredSweep], golden: GoldenFiles
) -> None:
    """Params, metrics and tags of its runs."""
    golden.compare(name, places({"mlflow.txt": outputs.mlflow(copied[name])}, copied))
