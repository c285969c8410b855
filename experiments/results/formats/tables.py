"""The terminal table of a sweep's results: one row per cell, one block per fault.

Added controls have no row. Refused cells, verdicts on violations, and the controls' results follow
below the table.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ackbench.experiments.ledger.trial_manifest import SET_ASIDE, Cell
from ackbench.experiments.messages.console import print_text, result_table
from ackbench.experiments.messages.phrases import plural
from ackbench.experiments.results import wording
from ackbench.experiments.results.cells import cell_key
from ackbench.experiments.results.changed_settings import changed_setting_lines
from ackbench.experiments.results.models import CellResult, MedianAndMax, SweepResults
from ackbench.experiments.sweep.cell_names import (
    CORE_AXES,
    FAULT_AXIS,
    axes_by_fault,
    axis_name,
    setting_text,
    value_text,
    varying_axes,
)
from ackbench.experiments.verdicts.guarantees import GUARANTEES, Guarantee

NOT_MEASURED: Final = "-"
_MAX_HEAD_WIDTH: Final = 12
_UNLIMITED_WIDTH: Final = 1000
_STYLES: Final = {
    wording.VIOLATED_SIGN: "bold red",
    wording.HELD_SIGN: "green",
    wording.UNPROVEN_SIGN: "green",
    wording.OBSERVED_SIGN: "yellow",
    "no": "yellow",  # not available during the fault, and not guaranteed
}


def cell_status(cell: CellResult) -> str:
    """Return the status of a cell's trials: `sealed`, or counts such as `1 void, 2 not run`."""
    counts = {status: getattr(cell, f"{status}_trials") for status in SET_ASIDE}
    missing = cell.planned_trials - cell.sealed_trials - sum(counts.values())
    texts = [f"{count} {status}" for status, count in counts.items() if count]
    return ", ".join([*texts, *([f"{missing} not run"] if missing else [])]) or "sealed"


@dataclass(frozen=True)
class _Figure:
    """A column of figures."""

    head: str
    text: Callable[[CellResult], str]
    applies: Callable[[CellResult], bool] = lambda _: True
    """Whether a cell has it; without such a cell there is no column."""


def _of_group(head: str, text: Callable[[CellResult], str]) -> _Figure:
    return _Figure(head, text, lambda row: row.group_missed is not None)


_LOSS_SHARE: Final = _Figure(
    "trials that\nlost", lambda row: wording.short_share_text(row.loss, NOT_MEASURED)
)
_LOSS_COUNT: Final = _Figure(
    "trials\nlost", lambda row: NOT_MEASURED if row.loss is None else row.loss.counts
)
_LOST: Final = _Figure("records\nlost", lambda row: wording.bounds_text(row.lost, NOT_MEASURED))
_DUPLICATES: Final = _Figure("dup.", lambda row: wording.count_text(row.duplicates, NOT_MEASURED))
_LATENCY: Final = _Figure("ack p99\nms", lambda row: _time_text(row, row.latency_ms.ack.p99))
_OUTAGE: Final = _Figure("outage\nms", lambda row: _time_text(row, row.unavailable_ms))
_GROUP_GAP: Final = _of_group(
    "group\ngap ms", lambda row: _time_text(row, row.group_processing_gap_ms)
)
_GROUP: Final = (
    _of_group(
        "records\nreproc.", lambda row: wording.count_text(row.group_redelivered, NOT_MEASURED)
    ),
    _GROUP_GAP,
)


@dataclass(frozen=True)
class _Layout:
    """What the tables show at some width."""

    figures: tuple[_Figure, ...]
    constants: bool = True
    """Whether axes and verdicts that are the same in all cells have columns."""
    guarantees: frozenset[Guarantee] = frozenset(GUARANTEES)
    """Those whose verdicts have columns."""
    numbered: bool = False
    """Whether settings other than the core axes have one column, with a number for each
    combination of them; lines below the tables name them."""


_MAIN_GUARANTEES: Final = frozenset(one for one in GUARANTEES if one.in_narrow_tables)
_LAYOUTS: Final = (
    _Layout((_LOSS_SHARE, _LOST, _DUPLICATES, _LATENCY, _OUTAGE, *_GROUP)),
    _Layout((_LOSS_COUNT, _LOST, _DUPLICATES, _LATENCY, _OUTAGE, *_GROUP)),
    _Layout((_LOSS_COUNT, _LOST, _DUPLICATES, _LATENCY, *_GROUP)),
    _Layout((_LOST, _DUPLICATES, _LATENCY, *_GROUP)),
    _Layout((_LOST, _DUPLICATES, _LATENCY, *_GROUP), constants=False),
    _Layout((_LOST, _DUPLICATES, *_GROUP), constants=False),
    _Layout((_LOST, _DUPLICATES, _GROUP_GAP), constants=False),
    _Layout((_LOST, _DUPLICATES, _LATENCY), constants=False),
    _Layout((_LOST, _DUPLICATES), constants=False),
    _Layout((_LOST, _DUPLICATES), constants=False, guarantees=_MAIN_GUARANTEES),
    _Layout((_LOST, _DUPLICATES, _LATENCY), constants=False, numbered=True),
    _Layout((_LOST, _DUPLICATES), constants=False, numbered=True),
    _Layout((_LOST, _DUPLICATES), constants=False, guarantees=_MAIN_GUARANTEES, numbered=True),
)
"""From the widest to the narrowest."""


def cell_tables(
    rows: Sequence[CellResult], width: int, by: str | None = None
) -> tuple[tuple[Table, ...], tuple[str, ...]]:
    """Return one table per fault, of the experiment's cells that are not refused.

    All tables have the same columns and widths. An axis that has one value per fault has no column:
    its value is in the title.

    Args:
        rows: the cells.
        width: of the terminal. Where the columns do not fit, there are fewer.
        by: an axis: then one table per group of cells that differ in this axis alone, in the order
            of the rows.

    Returns:
        The tables, and lines with what has no column at this width.
    """
    own = [row for row in rows if not row.added]
    accepted = [row for row in own if row.refused is None]
    axes = [by] if by else _axes(own)
    groups = _by_axis(by, accepted, own) if by else _by_fault(accepted, own)
    for layout in _LAYOUTS:
        columns, lines = _columns(layout, own, accepted, axes)
        if _width(columns) <= width:
            break
    return tuple(_table(title, columns, places) for title, places in groups), tuple(lines)


@dataclass(frozen=True)
class _Column:
    head: str
    texts: tuple[Text, ...]
    """One per cell."""
    is_figure: bool = False
    is_verdicts: bool = False

    @property
    def width(self) -> int:
        return max(map(len, [*self.head.split("\n"), *(text.plain for text in self.texts)]))


def _width(columns: Sequence[_Column]) -> int:
    """Return the width of a table, with the padding and the space between columns."""
    return sum(column.width for column in columns) + 2 * len(columns) - 1


def _columns(
    layout: _Layout, own: Sequence[CellResult], rows: Sequence[CellResult], axes: Sequence[str]
) -> tuple[list[_Column], list[str]]:
    """Return the columns of a layout, and lines with what has no column."""

    def texts(text_of: Callable[[CellResult], str]) -> tuple[Text, ...]:
        return tuple(Text(text_of(row)) for row in rows)

    heads, phrases = wording.guarantee_heads(own), []
    if not layout.constants and rows:
        varying, first = varying_axes([row.cell for row in rows]), rows[0]
        same = [g for g in heads if len({wording.verdict_mark(row, g) for row in rows}) == 1]
        constants = [
            *(setting_text(axis, first.cell.get(axis)) for axis in axes if axis not in varying),
            *(f"{heads[g]} {wording.verdict_mark(first, g)}" for g in same),
        ]
        phrases += [f"in all cells: {', '.join(constants)}"] if constants else []
        axes = [axis for axis in axes if axis in varying]
        heads = {g: head for g, head in heads.items() if g not in same}
    missing = [head for guarantee, head in heads.items() if guarantee not in layout.guarantees]
    phrases += [f"in a wider terminal: {', '.join(missing)}"] if missing else []
    heads = {g: head for g, head in heads.items() if g in layout.guarantees}
    lines = ["; ".join(phrases)] if phrases else []
    figures = [figure for figure in layout.figures if any(map(figure.applies, rows))]
    numbered = [axis for axis in axes if layout.numbered and axis not in CORE_AXES]
    columns = [
        *(
            _Column(_head(axis), tuple(Text(value_text(row.cell.get(axis))) for row in rows))
            for axis in axes
            if axis not in numbered
        ),
        *(_Column(figure.head, texts(figure.text), is_figure=True) for figure in figures),
        _verdict_column(heads, rows),
    ]
    if numbered:
        combinations = [_combination(numbered, row) for row in rows]
        numbers = {text: f"{n}" for n, text in enumerate(dict.fromkeys(combinations), start=1)}
        places = tuple(Text(numbers[text]) for text in combinations)
        columns.insert(len(axes) - len(numbered), _Column("settings", places))
        lines += [f"settings {number}: {text}" for text, number in numbers.items()]
    if any(cell_status(row) != "sealed" for row in rows):
        columns.append(_Column("status", texts(cell_status)))
    return columns, lines


def _combination(axes: Sequence[str], row: CellResult) -> str:
    """Return the settings that the cell has, as text."""
    values = {axis: row.cell.get(axis) for axis in axes}
    return ", ".join(
        setting_text(axis, value) for axis, value in values.items() if value is not None
    )


_Group = tuple[str, list[int]]
"""The title of a table, and the places of its rows."""


def _by_fault(rows: Sequence[CellResult], all_rows: Sequence[CellResult]) -> list[_Group]:
    """Return the rows of each fault, titled with it and with what it alone decides."""
    by_fault: dict[str, list[int]] = {}
    for place, row in enumerate(rows):
        by_fault.setdefault(value_text(row.cell.get(FAULT_AXIS)), []).append(place)
    axes = axes_by_fault([row.cell for row in all_rows])
    return [
        (
            ", ".join(
                [
                    f"fault: {fault}",
                    *(setting_text(axis, rows[places[0]].cell.get(axis)) for axis in axes),
                ]
            ),
            places,
        )
        for fault, places in by_fault.items()
    ]


@dataclass(frozen=True)
class AxisTable:
    """Cells that differ in one axis alone, as text."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def axis_tables(cells: Sequence[CellResult], axis: str) -> tuple[AxisTable, ...]:
    """Return what `cell_tables` has by an axis, with all figures."""
    own = [cell for cell in cells if not cell.added]
    accepted = [cell for cell in own if cell.refused is None]
    columns, _ = _columns(_LAYOUTS[1], own, accepted, [axis])
    shown = [column for column in columns if not column.is_verdicts]
    return tuple(
        AxisTable(
            title,
            tuple(column.head.replace("\n", " ") for column in shown),
            tuple(tuple(column.texts[place].plain for column in shown) for place in places),
        )
        for title, places in _by_axis(axis, accepted, own)
    )


def _by_axis(axis: str, rows: Sequence[CellResult], all_rows: Sequence[CellResult]) -> list[_Group]:
    """Return the rows that differ in one axis alone, where there are several.

    They are titled with what they have in common: the fault, core axes, and what varies elsewhere.
    """
    groups: dict[str, list[int]] = {}
    for place, row in enumerate(rows):
        others = {name: value for name, value in row.cell.items() if name != axis}
        groups.setdefault(cell_key(others), []).append(place)
    named = {*CORE_AXES, *varying_axes([row.cell for row in all_rows])} - {axis}
    return [
        (_common_title(rows[places[0]].cell, named), places)
        for places in groups.values()
        if len(places) > 1
    ]


def _common_title(cell: Cell, named: Collection[str]) -> str:
    texts = {
        axis: f"fault: {value_text(value)}" if axis == FAULT_AXIS else setting_text(axis, value)
        for axis, value in cell.items()
        if axis in named and value is not None
    }
    return ", ".join(texts[axis] for axis in sorted(texts, key=lambda axis: axis != FAULT_AXIS))


def _table(title: str, columns: Sequence[_Column], rows: Sequence[int]) -> Table:
    """Return a table of some rows of the columns."""
    table = result_table(title)
    for column in columns:
        table.add_column(
            column.head,
            justify="right" if column.is_figure else "left",
            min_width=column.width,
            no_wrap=column.is_figure or column.is_verdicts,
            overflow="fold",
        )
    for row in rows:
        table.add_row(*(column.texts[row] for column in columns))
    return table


def print_cells(
    console: Console, rows: Sequence[CellResult], *, in_full: bool = True, by: str | None = None
) -> None:
    """Print the tables with their legends, then the refused cells, one line per reason.

    Args:
        console: where to.
        rows: the cells.
        in_full: also what each column means, not the signs alone.
        by: as in `cell_tables`.
    """
    tables, left_out = cell_tables(rows, console.width, by)
    for table in tables:
        _print_uncropped(console, table)
        console.print()
    for line in left_out:
        print_text(console, line, wrap=console.is_terminal)
    if any(row.judgements for row in rows):
        legend = wording.LEGEND if in_full else wording.SIGNS
        print_text(console, legend, wrap=console.is_terminal)
    if any(row.overloaded_trials for row in rows):
        print_text(console, wording.LEGEND_OF_OVERLOAD, wrap=console.is_terminal)
    for legend in wording.conditional_legends(rows) if in_full else ():
        print_text(console, legend, wrap=console.is_terminal)
    if in_full and any(map(_GROUP_GAP.applies, rows)):
        print_text(console, wording.LEGEND_OF_GROUP_GAP, wrap=console.is_terminal)
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
        console.print(table, crop=False)
    finally:
        console.width = own_width


def print_notes(console: Console, results: SweepResults, *, in_full: bool = True) -> None:
    """Print the settings that are not defaults, then `wording.result_notes`, violations in red.

    Args:
        console: where to.
        results: of a sweep.
        in_full: also the settings, and notes that are details.
    """
    for line in changed_setting_lines(results.changed_settings) if in_full else ():
        print_text(console, line, wrap=console.is_terminal)
    for note in wording.result_notes(results):
        if note.is_detail and not in_full:
            continue
        style = "bold red" if note.violated else None
        print_text(console, note.text, wrap=console.is_terminal, style=style)


def refusal_lines(rows: Sequence[CellResult]) -> tuple[str, ...]:
    """Return one line per reason for which cells were refused, with their number and settings."""
    return lines_of_refusals((row.cell, row.refused) for row in rows if row.refused is not None)


def lines_of_refusals(refused: Iterable[tuple[Cell, str]]) -> tuple[str, ...]:
    """Return one line per reason, as `refusal_lines`.

    Args:
        refused: cells, each with the reason for which it was refused.
    """
    by_reason: dict[str, list[Cell]] = {}
    for cell, reason in refused:
        by_reason.setdefault(reason, []).append(cell)
    return tuple(
        f"refused: {len(cells)} {plural(len(cells), 'cell')} ({_refused_settings(cells)}): {reason}"
        for reason, cells in by_reason.items()
    )


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


def _verdict_column(heads: Mapping[Guarantee, str], rows: Sequence[CellResult]) -> _Column:
    """Return the verdicts on each guarantee, centered below its part of the head.

    A head of two words has them one above the other; the last line has the last word of each.
    """
    marks = [[wording.verdict_mark(row, guarantee) for guarantee in heads] for row in rows]
    words = [head.split() for head in heads.values()]
    widths = [
        max(map(len, [*head, *(row[place] for row in marks)])) for place, head in enumerate(words)
    ]
    depth = max(map(len, words), default=1)
    columns = [[""] * (depth - len(head)) + head for head in words]
    lines = [
        " ".join(map(str.ljust, (column[line] for column in columns), widths)).rstrip()
        for line in range(depth)
    ]
    return _Column(
        "\n".join(lines),
        tuple(
            Text(" ").join(
                Text(mark.center(width), style=_STYLES.get(mark.rpartition(" ")[2], ""))
                for mark, width in zip(row, widths, strict=True)
            )
            for row in marks
        ),
        is_verdicts=True,
    )


def _time_text(row: CellResult, spread: MedianAndMax | None) -> str:
    if spread is None:
        return NOT_MEASURED
    return wording.time_text(wording.decimal_text(spread.median), overloaded=row.overloaded_trials)


def _refused_settings(cells: Sequence[Cell]) -> str:
    """Return the cells' values of acks and enable.idempotence, on which clients refuse cells."""
    return ", ".join(
        f"{axis_name(axis)}={'/'.join(dict.fromkeys(value_text(cell.get(axis)) for cell in cells))}"
        for axis in ("acks", "enable.idempotence")
    )
