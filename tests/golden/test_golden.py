"""Each output of the product, of small sweeps that ran once with real brokers.

A difference is a change of what users read. If it is intended, `pytest tests/golden
--update-golden` writes the files and prints the difference.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from golden import outputs
from golden.outputs import OF_A_SWEEP, StoredSweep, without_places
from support.golden_files import GoldenFiles

SWEEPS = (
    *("quick", "transactions", "groups", "copiers", "keys", "compaction", "external", "hosts"),
    *("failed", "damaged", "lessons"),
)
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
    """Params, metrics and tags of its runs; none of their names needs quotes in a filter."""
    text = outputs.mlflow(copied[name])
    names = re.findall(r"^  (?:param|metric|tag) (?!mlflow\.)(\S+) = ", text, re.MULTILINE)
    assert [one for one in names if not re.fullmatch(r"[A-Za-z_][\w.]*", one)] == []
    golden.compare(name, places({"mlflow.txt": text}, copied))


def test_two_sweeps_side_by_side(stored: dict[str, StoredSweep], golden: GoldenFiles) -> None:
    """Tables, JSON, the page, and the gate's reasons."""
    found = outputs.compared(stored["quick"], stored["quick-2"])
    golden.compare("compare", places(found, stored))


def test_the_cells_of_a_sweep_side_by_side(
    stored: dict[str, StoredSweep], golden: GoldenFiles
) -> None:
    """The same, by an axis."""
    found = outputs.compared_by(stored["quick"], "enable.idempotence")
    golden.compare("compare-by", places(found, stored))


def test_what_is_printed_of_all_sweeps(stored: dict[str, StoredSweep], golden: GoldenFiles) -> None:
    """Their list, the trend of those of one experiment, and the matrix of faults."""
    home = stored["quick"].home
    faults = [stored[name].argument for name in ("quick", "transactions", "compaction")]
    golden.compare("home", places(outputs.of_all_sweeps(home, "golden-quick", *faults), stored))


@pytest.mark.further
def test_the_pages_of_a_site(
    copied: dict[str, StoredSweep], tmp_path: Path, golden: GoldenFiles
) -> None:
    """Without the reports, which are compared one by one."""
    found = outputs.site(copied["quick"].home, tmp_path / "site")
    golden.compare("home", places(found, copied))


def test_the_page_and_the_chapters_of_a_tour(
    copied: dict[str, StoredSweep], tmp_path: Path, golden: GoldenFiles
) -> None:
    """With the conclusions of its lessons."""
    found = outputs.tour(copied["lessons"].home, tmp_path / "chapters")
    golden.compare("tour", places(found, copied))


def test_what_commands_print_that_need_no_sweep(
    stored: dict[str, StoredSweep], tmp_path: Path, golden: GoldenFiles
) -> None:
    """The help, the catalogue, and what settings guarantee."""
    found = outputs.without_a_sweep(stored["quick"].home, tmp_path)
    golden.compare("commands", places(found, stored))
