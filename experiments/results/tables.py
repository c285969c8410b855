"""What a sweep saw, as a table for a terminal: a row a cell of the experiment, in the results' order.

Controls that were added, what was refused, and what else there is to know stand below it.
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
from experiments.results.cells import FIRST_AXES
from experiments.results.models import CellResult, MedianAndMax, SweepResults
from experiments.sweep.cell_names import axis_name, value_text
from experiments.verdicts.contract import Guarantee

UNKNOWN: Final = "-"
"""Nothing was measured: not zero."""
HEAD_WIDTH: Final = 12
MOST_WIDTH: Final = 1000
PIPED_WIDTH: Final = 160
"""Where there is no terminal to fit, nothing is wrapped."""


def status_of(cell: CellResult) -> str:
    """Return how a cell's trials ended, for a person: `sealed`, or what else there was."""
    missing = cell.planned_trials - cell.sealed_trials - cell.void_trials - cell.failed_trials
    counts = ((cell.void_trials, "void"), (cell.failed_trials, "failed"), (missing, "not run"))
    return ", ".join(f"{count} {name}" for count, name in counts if count) or "sealed"


_FIGURES: Final = ("trials that\nlost", "records\nlost", "dup.", "ack p99\nms", "longest\ngap ms")
_STATUS: Final = "status"
_COLOURS: Final = {wording.VIOLATED: "bold red", wording.HELD: "green", wording.SEEN: "yellow"}


def cells_tables(rows: Sequence[CellResult]) -> tuple[Table, ...]:
    """Return a table for each fault, of the experiment's cells that could be run; all have the same columns, so that they stand as one."""
    own = [row for row in rows if not row.added]
    axes, heads = _axes(own), wording.heads(own)
    run = [row for row in own if row.refused is None]
    columns = [
        *(_head(axis) for axis in axes),
        *_FIGURES,
        _signs_head(heads),
        *([_STATUS] if any(status_of(row) != "sealed" for row in run) else []),
    ]
    texts = {
        id(row): [*_texts(row, axes, heads), Text(status_of(row))][: len(columns)] for row in run
    }
    widths = [
        max(map(len, [*head.split("\n"), *(text[column].plain for text in texts.values())]))
        for column, head in enumerate(columns)
    ]
    faults = dict.fromkeys(value_text(row.cell.get("fault")) for row in run)
    return tuple(
        _table(
            fault,
            columns,
            widths,
            [texts[id(row)] for row in run if value_text(row.cell.get("fault")) == fault],
        )
        for fault in faults
    )


def _table(
    fault: str, columns: Sequence[str], widths: Sequence[int], rows: Sequence[Sequence[Text]]
) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),
        title=f"fault: {fault}",
        title_justify="left",
        title_style="bold",
    )
    for head, width in zip(columns, widths, strict=True):
        figure = head in _FIGURES
        table.add_column(
            head,
            justify="right" if figure else "left",
            min_width=width,
            no_wrap=figure or set(head.split(" ")) <= set(wording.HEADS.values()),
            overflow="fold",
        )
    for row in rows:
        table.add_row(*row)
    return table


def print_cells(console: Console, rows: Sequence[CellResult]) -> None:
    """Print the table, then what was refused, a line a reason."""
    for table in cells_tables(rows):
        wanted = console.measure(
            table, options=console.options.update(max_width=MOST_WIDTH)
        ).maximum
        console.print(
            table, width=max(wanted, console.width), crop=False, highlight=False
        )  # too wide is wrapped by the terminal; nothing is cut
        console.print()
    if any(row.judgements for row in rows):
        print_text(console, wording.LEGEND, wrap=console.is_terminal)
    if any(row.transactions for row in rows):
        print_text(console, wording.LEGEND_OF_TRANSACTIONS, wrap=console.is_terminal)
    if any(row.group_missed is not None for row in rows):
        print_text(console, wording.LEGEND_OF_GROUPS, wrap=console.is_terminal)
    for line in refusals(rows):
        print_text(console, line, wrap=console.is_terminal)


def print_lines(console: Console, results: SweepResults) -> None:
    """Print what was violated, what is not known, what the controls showed, and how far the trials carry."""
    for line in wording.lines(results):
        print_text(
            console,
            line.text,
            wrap=console.is_terminal,
            style="bold red" if line.violated else None,
        )


def print_text(console: Console, text: str, *, wrap: bool, style: str | None = None) -> None:
    """Print text as it is, wrapped between words or not at all."""
    console.print(text, highlight=False, markup=False, emoji=False, soft_wrap=not wrap, style=style)


def refusals(rows: Sequence[CellResult]) -> tuple[str, ...]:
    """Return a line for each reason, with how many cells it holds for and which values they share."""
    by_reason: dict[str, list[Cell]] = {}
    for row in rows:
        if row.refused is not None:
            by_reason.setdefault(row.refused, []).append(row.cell)
    return tuple(
        f"refused: {len(cells)} {plural(len(cells), 'cell')} ({_shared(cells)}): {reason}"
        for reason, cells in by_reason.items()
    )


def console_for_results(*, terminal: bool) -> Console:
    """Return where results are printed: on a terminal within its width and with its colours, else plain and wide."""
    return (
        Console()
        if terminal
        else Console(width=PIPED_WIDTH, color_system=None, force_terminal=False)
    )


def _axes(rows: Sequence[CellResult]) -> list[str]:
    """Return the columns: the core axes, then those that differ between cells."""
    others = dict.fromkeys(
        axis for row in rows for axis in row.cell if axis not in (*FIRST_AXES, "fault")
    )
    return [
        *FIRST_AXES,
        *(axis for axis in others if len({str(row.cell.get(axis)) for row in rows}) > 1),
    ]


def _head(axis: str) -> str:
    """Return a column's head; a long name goes over several lines, cut at its dots."""
    lines = [""]
    for part in axis_name(axis).split("."):
        lines = (
            [*lines[:-1], f"{lines[-1]}.{part}".lstrip(".")]
            if len(lines[-1]) + len(part) < HEAD_WIDTH
            else [*lines, f".{part}"]
        )
    return "\n".join(lines)


def _texts(row: CellResult, axes: Sequence[str], heads: Mapping[Guarantee, str]) -> list[Text]:
    figures = [
        _interval(row.lost),
        _count(row.duplicates),
        _median(row.latency_ms.ack.p99),
        _median(row.unavailable_ms),
    ]
    return [
        *map(
            Text,
            [
                *(value_text(row.cell.get(axis)) for axis in axes),
                wording.short(row.loss, UNKNOWN),
                *figures,
            ],
        ),
        _signs(row, heads),
    ]


def _signs_head(heads: Mapping[Guarantee, str]) -> str:
    return " ".join(heads.values())


def _signs(row: CellResult, heads: Mapping[Guarantee, str]) -> Text:
    """Return the sign of each promise, in the middle of its word in the head."""
    signs = [(wording.mark(row, guarantee), len(head)) for guarantee, head in heads.items()]
    return Text(" ").join(
        Text(sign.center(width), style=_COLOURS.get(sign, "")) for sign, width in signs
    )


def _interval(bounds: tuple[int, int] | None) -> str:
    if bounds is None:
        return UNKNOWN
    low, high = bounds
    return f"{low:,}" if low == high else f"{low:,}..{high:,}"


def _count(value: float | None) -> str:
    """Return a figure with three digits at least, and no more decimals than that needs."""
    if value is None:
        return UNKNOWN
    return f"{value:,.1f}" if isinstance(value, float) and abs(value) < 100 else f"{value:,.0f}"  # noqa: PLR2004 - three digits


def _median(spread: MedianAndMax | None) -> str:
    return UNKNOWN if spread is None else _count(spread.median)


def _shared(cells: Sequence[Cell]) -> str:
    """Return the values of acks and idempotence among the cells, and whatever else they all have in common is left out."""
    return ", ".join(
        f"{axis_name(axis)}={'/'.join(dict.fromkeys(value_text(cell.get(axis)) for cell in cells))}"
        for axis in ("acks", "enable.idempotence")
    )
