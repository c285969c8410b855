"""The terminal table of cells."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO

import pytest
from rich.console import Console
from support.builders.sweeps import DUPLICATING, LOSING, SAFE, a_cell, measured_sweep

from ackbench.experiments.results.formats.tables import print_cells
from ackbench.experiments.results.models import CellResult, MedianAndMax
from ackbench.experiments.verdicts.guarantees import GUARANTEES


def printed(cells: Sequence[CellResult], width: int) -> list[str]:
    """Return the lines of the tables, above the legend."""
    console = Console(file=StringIO(), width=width, color_system=None)
    print_cells(console, cells)
    assert isinstance(console.file, StringIO)
    assert console.width == width
    lines = console.file.getvalue().splitlines()
    return [line.rstrip() for line in lines[: lines.index(next(filter(is_legend, lines)))]]


def is_legend(line: str) -> bool:
    """Return whether the line is the first one of the legend."""
    return line.startswith("guaranteed: ")


def with_groups(cells: Sequence[CellResult]) -> list[CellResult]:
    """Return the cells with verdicts on consumer groups, and one more axis: wide tables."""
    return [
        cell.model_copy(
            update={
                "cell": {**cell.cell, "fault.resend": index % 2 == 0},
                "judgements": tuple(
                    judgement.model_copy(update={"guarantee": guarantee})
                    for judgement in cell.judgements[:1]
                    for guarantee in GUARANTEES
                ),
            }
        )
        for index, cell in enumerate(cells)
    ]


@pytest.mark.parametrize("width", [80, 100, 120, 160])
@pytest.mark.parametrize("groups", [False, True])
def test_a_table_fits_the_terminal(width: int, groups: bool) -> None:
    """Where not all columns fit, there are fewer; none is wrapped or cropped."""
    cells = measured_sweep().results.cells
    lines = printed(with_groups(cells) if groups else cells, width)

    phrases = [line for line in lines if line.startswith("in ")]  # wrapped between words
    assert max(len(line) for line in lines if line not in phrases) <= width
    assert all("…" not in line for line in lines)


def test_a_wide_terminal_has_all_columns() -> None:
    """Axes, figures and verdicts."""
    lines = printed(measured_sweep().results.cells, 160)
    heads = next(line for line in lines if "loss dup" in line).split()

    assert heads[:4] == ["acks", "idem", "RF", "P"]
    assert heads[-6:] == ["loss", "dup", "ord", "loss", "avail", "reads"]
    assert "5 of 5 (>47 %)" in "\n".join(lines) or "4 of 5 (" in "\n".join(lines)


@pytest.mark.parametrize("width", [80, 160])
def test_a_group_s_cells_say_how_often_it_repeated_and_for_how_long_it_stopped(width: int) -> None:
    """A sweep without groups has no such columns."""
    cells = [
        cell.model_copy(
            update={
                "group_missed": 0,
                "group_redelivered": 4_321,
                "group_processing_gap_ms": MedianAndMax(median=3_456.0, max=9_999.0),
            }
        )
        for cell in measured_sweep().results.cells
    ]
    of_groups, others = printed(cells, width), printed(measured_sweep().results.cells, width)
    assert sum("4,321" in line and "3,456" in line for line in of_groups) == sum(
        not cell.added and cell.refused is None for cell in cells
    )
    assert any("gap ms" in line for line in of_groups)
    assert not any("gap ms" in line or "reproc." in line for line in others)


def test_a_narrow_terminal_has_no_column_for_what_is_the_same_in_all_cells() -> None:
    """One line below the tables has it."""
    lines = printed(with_groups(measured_sweep().results.cells), 70)

    assert any(line.startswith("in all cells: RF=3, P=1") for line in lines)
    assert not any(" RF " in line for line in lines[:3])


def test_a_narrow_terminal_numbers_the_settings_of_many_axes() -> None:
    """Lines below the tables name them; equal settings have one number."""
    cells = [
        cell.model_copy(
            update={
                "cell": {
                    **cell.cell,
                    "kafka.version": "4.3.1",
                    "client": "java" if index % 2 else "librdkafka",
                    "max.in.flight.requests.per.connection": 1 if index % 2 else None,
                    "socket.timeout.ms": 1000 if index % 2 else 2000,
                    "topic.metadata.refresh.interval.ms": 200 + index % 2,
                }
            }
        )
        for index, cell in enumerate(measured_sweep().results.cells)
    ]
    lines = printed(cells, 80)

    assert any(line.split()[:3] == ["acks", "idem", "settings"] for line in lines)
    assert any(line.startswith("settings 1: client=librdkafka") for line in lines)
    assert max(len(line) for line in lines if not line.startswith("settings ")) <= 80
    assert not any(line.startswith("settings 3: ") for line in lines)


def test_a_table_wider_than_the_terminal_is_not_cropped() -> None:
    """The terminal itself wraps what is narrower than the fewest columns."""
    lines = printed(measured_sweep((SAFE, DUPLICATING, LOSING)).results.cells, 20)

    assert any("loss dup" in line for line in lines)
    assert sum(line.startswith(("1", "all")) for line in lines) == 3


def test_the_columns_of_one_cell_are_the_same_at_any_width() -> None:
    """A single cell has no axis that varies: its axes stay."""
    lines = printed(measured_sweep((SAFE,)).results.cells[:1], 80)

    assert a_cell("all")["acks"] == "all"
    assert any(line.split()[:4] == ["all", "on", "3", "1"] for line in lines)
