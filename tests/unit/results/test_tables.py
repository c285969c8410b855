"""The terminal table of cells."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console
from support.builders.sweeps import measured_sweep

from experiments.results.tables import print_cells


@pytest.mark.parametrize("width", [20, 80, 160])
def test_a_table_wider_than_the_terminal_keeps_all_its_columns(width: int) -> None:
    """The terminal wraps it; nothing is cropped, and the console keeps its width."""
    console = Console(file=StringIO(), width=width, color_system=None)
    print_cells(console, measured_sweep().results.cells)
    assert isinstance(console.file, StringIO)
    heads = next(line for line in console.file.getvalue().splitlines() if "loss dup" in line)
    assert heads.split()[0] == "acks"
    assert heads.rstrip().endswith("loss dup ord shown avail reads")
    assert console.width == width
