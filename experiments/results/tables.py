"""The terminal table of a sweep's results: one row per cell, one block per fault.

Added controls have no row. Refused cells, verdicts on violations, and the controls' results follow
below the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from experiments.ledger.record import Cell
from experiments.messages.phrases import plural
from experiments.results import wording
from experiments.results.changed_settings import changed_setting_lines
from experiments.results.models import CellResult, MedianAndMax, SweepResults
from experiments.sweep.cell_names import (
    CORE_AXES,
    FAULT_AXIS,
    axes_by_fault,
    axis_name,
    setting_text,
    value_text,
    varying_axes,
)
from experiments.verdicts.contract import Guarantee

NOT_MEASURED: Final = "-"
_MAX_HEAD_WIDTH: Final = 12
_UNLIMITED_WIDTH: Final = 1000
PIPED_WIDTH: Final = 160
"""The width of the output if it is not a terminal."""
_FIGURES: Final = ("trials that\nlost", "records\nlost", "dup.", "ack p99\nms", "longest\ngap ms")
_STATUS: Final = "status"
_STYLES: Final = {
    wording.VIOLATED_SIGN: "bold red",
    wording.HELD_SIGN: "green",
    wording.UNPROVEN_SIGN: "green",
    wording.OBSERVED_SIGN: "yellow",
    "no": "yellow",  # not available during the fault, and not guaranteed
}


def cell_status(cell: CellResult) -> str:
    """Return the status of a cell's trials: `sealed`, or counts such as `1 void, 2 not run`."""
    missing = cell.planned_trials - cell.sealed_trials - cell.void_trials - cell.failed_trials
    counts = ((cell.void_trials, "void"), (cell.failed_trials, "failed"), (missing, "not run"))
    return ", ".join(f"{count} {name}" for count, name in counts if count) or "sealed"


def cell_tables(rows: Sequence[CellResult]) -> tuple[Table, ...]:
    """Return one table per fault, of the experiment's cells that are not refused.

    All tables have the same columns and widths. An axis that has one value per fault has no column:
    its value is in the title.
    """
    own = [row for row in rows if not row.added]
    axes, heads = _axes(own), wording.guarantee_heads(own)
    accepted = [row for row in own if row.refused is None]
    columns = [
        *(_head(axis) for axis in axes),
        *_FIGURES,
        " ".join(heads.values()),
        *([_STATUS] if any(cell_status(row) != "sealed" for row in accepted) else []),
    ]
    texts = {
        id(row): [*_texts(row, axes, heads), Text(cell_status(row))][: len(columns)]
        for row in accepted
    }
    widths = [
        max(map(len, [*head.split("\n"), *(text[column].plain for text in texts.values())]))
        for column, head in enumerate(columns)
    ]
    return tuple(
        _table(_title(fault, same_fault, own), columns, widths, [texts[id(r)] for r in same_fault])
        for fault, same_fault in _by_fault(accepted).items()
    )


def _by_fault(rows: Sequence[CellResult]) -> dict[str, list[CellResult]]:
    by_fault: dict[str, list[CellResult]] = {}
    for row in rows:
        by_fault.setdefault(value_text(row.cell.get(FAULT_AXIS)), []).append(row)
    return by_fault


def _title(fault: str, rows: Sequence[CellResult], all_rows: Sequence[CellResult]) -> str:
    axes = axes_by_fault([row.cell for row in all_rows])
    settings = (setting_text(axis, rows[0].cell.get(axis)) for axis in axes)
    return ", ".join([f"fault: {fault}", *settings])


def _table(
    title: str, columns: Sequence[str], widths: Sequence[int], rows: Sequence[Sequence[Text]]
) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),
        title=title,
        title_justify="left",
        title_style="bold",
    )
    for head, width in zip(columns, widths, strict=True):
        is_figure = head in _FIGURES
        table.add_column(
            head,
            justify="right" if is_figure else "left",
            min_width=width,
            no_wrap=is_figure or set(head.split(" ")) <= set(wording.GUARANTEE_HEADS.values()),
            overflow="fold",
        )
    for row in rows:
        table.add_row(*row)
    return table


def print_cells(console: Console, rows: Sequence[CellResult]) -> None:
    """Print the tables with their legends, then the refused cells, one line per reason."""
    for table in cell_tables(rows):
        _print_uncropped(console, table)
        console.print()
    if any(row.judgements for row in rows):
        print_text(console, wording.LEGEND, wrap=console.is_terminal)
    if any(row.transactions for row in rows):
        print_text(console, wording.LEGEND_OF_TRANSACTIONS, wrap=console.is_terminal)
    if any(row.lost_values is not None for row in rows):
        print_text(console, wording.LEGEND_OF_COMPACTION, wrap=console.is_terminal)
    if any(row.group_missed is not None for row in rows):
        print_text(console, wording.LEGEND_OF_GROUPS, wrap=console.is_terminal)
    for line in refusal_lines(rows):
        print_text(console, line, wrap=console.is_terminal)


def _print_uncropped(console: Console, table: Table) -> None:
    """Print a table in its own width; the terminal itself wraps one that is too wide.

    Rich limits the width to the console's, and would leave out columns.
    """
    options = console.options.update(max_width=_UNLIMITED_WIDTH)
    own_width = console.width
    console.width = max(console.measure(table, options=options).maximum, own_width)
    try:
        console.print(table, crop=False, highlight=False)
    finally:
        console.width = own_width


def print_notes(console: Console, results: SweepResults) -> None:
    """Print the settings that are not defaults, then `wording.result_notes`, violations in red."""
    for line in changed_setting_lines(results.changed_settings):
        print_text(console, line, wrap=console.is_terminal)
    for note in wording.result_notes(results):
        style = "bold red" if note.violated else None
        print_text(console, note.text, wrap=console.is_terminal, style=style)


def print_text(console: Console, text: str, *, wrap: bool, style: str | None = None) -> None:
    """Print text without markup, wrapped between words or not at all."""
    console.print(text, highlight=False, markup=False, emoji=False, soft_wrap=not wrap, style=style)


def refusal_lines(rows: Sequence[CellResult]) -> tuple[str, ...]:
    """Return one line per reason for which cells were refused, with their number and settings."""
    by_reason: dict[str, list[Cell]] = {}
    for row in rows:
        if row.refused is not None:
            by_reason.setdefault(row.refused, []).append(row.cell)
    return tuple(
        f"refused: {len(cells)} {plural(len(cells), 'cell')} ({_refused_settings(cells)}): {reason}"
        for reason, cells in by_reason.items()
    )


def console_for_results(*, terminal: bool) -> Console:
    """Return the console for results: with colours on a terminal, else plain and wide."""
    if terminal:
        return Console()
    return Console(width=PIPED_WIDTH, color_system=None, force_terminal=False)


def _axes(rows: Sequence[CellResult]) -> list[str]:
    """Return the axes with a column: the core axes, then others that differ within a fault."""
    cells = [row.cell for row in rows]
    by_fault = axes_by_fault(cells)
    return [
        *(axis for axis in CORE_AXES if axis != FAULT_AXIS),
        *(axis for axis in varying_axes(cells) if axis not in {*CORE_AXES, *by_fault}),
    ]


def _head(axis: str) -> str:
    """Return the head of a column; a long name is broken into lines at its dots."""
    lines = [""]
    for part in axis_name(axis).split("."):
        if len(lines[-1]) + len(part) < _MAX_HEAD_WIDTH:
            lines[-1] = f"{lines[-1]}.{part}".lstrip(".")
        else:
            lines.append(f".{part}")
    return "\n".join(lines)


def _texts(row: CellResult, axes: Sequence[str], heads: Mapping[Guarantee, str]) -> list[Text]:
    """Return the columns of a row without its status."""
    texts = [
        *(value_text(row.cell.get(axis)) for axis in axes),
        wording.short_share_text(row.loss, NOT_MEASURED),
        wording.bounds_text(row.lost, NOT_MEASURED),
        wording.count_text(row.duplicates, NOT_MEASURED),
        _median_text(row.latency_ms.ack.p99),
        _median_text(row.unavailable_ms),
    ]
    return [*map(Text, texts), _marks(row, heads)]


def _marks(row: CellResult, heads: Mapping[Guarantee, str]) -> Text:
    """Return the verdict on each guarantee, centered below its part of the head."""
    marks = [(wording.verdict_mark(row, guarantee), len(head)) for guarantee, head in heads.items()]
    return Text(" ").join(
        Text(mark.center(width), style=_STYLES.get(mark.rpartition(" ")[2], ""))
        for mark, width in marks
    )


def _median_text(spread: MedianAndMax | None) -> str:
    return NOT_MEASURED if spread is None else wording.decimal_text(spread.median)


def _refused_settings(cells: Sequence[Cell]) -> str:
    """Return the cells' values of acks and enable.idempotence, on which clients refuse cells."""
    return ", ".join(
        f"{axis_name(axis)}={'/'.join(dict.fromkeys(value_text(cell.get(axis)) for cell in cells))}"
        for axis in ("acks", "enable.idempotence")
    )
