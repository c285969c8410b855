"""The table of faults against client settings: loss and duplicates of each pair, over sweeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ackbench.experiments.ledger.trial_manifest import SET_ASIDE, Cell, Scalar
from ackbench.experiments.messages.markdown import code_span, escaped, table
from ackbench.experiments.messages.phrases import format_count
from ackbench.experiments.results import wording
from ackbench.experiments.results.changed_settings import changed_setting_lines
from ackbench.experiments.results.models import CellResult, SweepResults
from ackbench.experiments.sweep.cell_names import FAULT_AXIS, setting_text, value_text
from ackbench.experiments.verdicts.guarantees import Guarantee
from ackbench.experiments.verdicts.guarantees.duplicates import NO_DUPLICATES
from ackbench.experiments.verdicts.guarantees.loss import NO_ACKED_LOSS
from ackbench.experiments.verdicts.judge import Judgement, Verdict
from ackbench.experiments.verdicts.statistics import Share

COLUMN_AXES: Final = ("acks", "enable.idempotence")
"""The axes of the columns; all other axes distinguish rows."""
_UNKNOWN: Final = "-"

_Column = tuple[Scalar, ...]
"""A value per axis of `COLUMN_AXES`."""


@dataclass(frozen=True)
class MatrixRow:
    """One fault under one set of circumstances."""

    fault: str
    circumstances: str
    """The settings that differ from the common ones or between this fault's rows: `axis=value`."""
    took_effect: int
    """In how many of the `injected` trials the fault took effect and nothing else disturbed it."""
    injected: int
    cells: tuple[CellResult | None, ...]
    """One per column; `None`: no sweep has it."""


@dataclass(frozen=True)
class Matrix:
    """The table."""

    columns: tuple[Cell, ...]
    rows: tuple[MatrixRow, ...]
    common: Cell
    """The settings of every row that does not state others, without fault and column axes."""
    violations: tuple[str, ...]
    """One line per violated guarantee."""
    changed_settings: tuple[str, ...] = ()
    """Per sweep and scope, the settings that are not defaults."""

    @property
    def judgements(self) -> tuple[Judgement, ...]:
        """The judgements on all guarantees of all cells."""
        return tuple(
            judgement
            for row in self.rows
            for cell in row.cells
            if cell
            for judgement in cell.judgements
        )

    @property
    def verdicts(self) -> Counter[Verdict]:
        """How often each verdict was given."""
        return Counter(judgement.verdict for judgement in self.judgements)

    @property
    def unproven(self) -> int:
        """How many guarantees held in a sweep that does not show that it would see a violation."""
        return sum(map(wording.is_unproven, self.judgements))


def matrix_of(sweeps: Sequence[SweepResults]) -> Matrix:
    """Return the table of the sweeps' own cells; of equal cells, that of the last sweep counts."""
    cells = [
        cell for sweep in sweeps for cell in sweep.cells if not cell.added and cell.refused is None
    ]
    columns = tuple(
        sorted({_column(cell.cell) for cell in cells}, key=lambda column: tuple(map(_rank, column)))
    )
    row_axes = list(
        dict.fromkeys(
            axis for cell in cells for axis in cell.cell if axis not in {*COLUMN_AXES, FAULT_AXIS}
        )
    )
    common = {axis: _most_frequent([cell.cell.get(axis) for cell in cells]) for axis in row_axes}
    rows: dict[tuple[str, str], dict[_Column, CellResult]] = {}
    for cell in cells:
        fault = cell.cell.get(FAULT_AXIS)
        same_fault = [other.cell for other in cells if other.cell.get(FAULT_AXIS) == fault]
        distinguishing = [
            axis
            for axis in row_axes
            if any(str(other.get(axis)) != str(common[axis]) for other in same_fault)
        ]
        key = (value_text(fault), _circumstances(cell.cell, distinguishing))
        rows.setdefault(key, {})[_column(cell.cell)] = cell
    return Matrix(
        columns=tuple(dict(zip(COLUMN_AXES, column, strict=True)) for column in columns),
        rows=tuple(_row(*key, by_column, columns) for key, by_column in rows.items()),
        common=common,
        violations=tuple(
            f"{sweep.sweep_id}: {note.text}"
            for sweep in sweeps
            for note in wording.violation_notes(sweep)
        ),
        changed_settings=tuple(_changed_settings(sweeps)),
    )


def _changed_settings(sweeps: Sequence[SweepResults]) -> Iterator[str]:
    """Yield the lines that sweeps share once, with the experiments that they hold for."""
    experiments: dict[str, dict[str, None]] = {}
    for sweep in sweeps:
        for line in changed_setting_lines(sweep.changed_settings):
            experiments.setdefault(line, {})[sweep.experiment] = None
    everywhere = {sweep.experiment for sweep in sweeps}
    for line, names in experiments.items():
        yield line if names.keys() == everywhere else f"{', '.join(names)}: {line}"


def column_heads(matrix: Matrix) -> tuple[str, ...]:
    """Return the heads of the columns: `acks=1`, `acks=all idempotent`."""
    return tuple(
        f"acks={value_text(column['acks'])}{' idempotent' if column['enable.idempotence'] else ''}"
        for column in matrix.columns
    )


def loss_text(cell: CellResult | None) -> str:
    """Return a cell's loss: the verdict's sign, the share of trials with bounds, the records."""
    if cell is None:
        return ""
    records = cell.lost[0] if cell.lost else None
    return _text(cell, NO_ACKED_LOSS, "lost", cell.loss, records)


def duplicates_text(cell: CellResult | None) -> str:
    """Return a cell's duplicates in the same form as its loss."""
    if cell is None:
        return ""
    return _text(cell, NO_DUPLICATES, "dup.", cell.duplication, cell.duplicates)


def matrix_notes(matrix: Matrix) -> Iterator[str]:
    """Yield the lines below the table: common settings, legend, and the number of verdicts."""
    common = " ".join(
        setting_text(axis, value) for axis, value in matrix.common.items() if value is not None
    )
    if common:
        yield f"unless a row says otherwise: {common}"
    yield from matrix.changed_settings
    yield wording.LEGEND
    cells = sum(cell is not None for row in matrix.rows for cell in row.cells)
    counts = matrix.verdicts
    yield (
        f"{format_count(cells, 'cell')}: {counts[Verdict.HELD]:,} guarantees held "
        f"({matrix.unproven:,} of them: {wording.POWER_NOT_SHOWN}), "
        f"{counts[Verdict.VIOLATED]:,} VIOLATED, {counts[Verdict.UNKNOWN]:,} unknown, "
        f"{counts[Verdict.NOT_GUARANTEED]:,} not guaranteed"
    )


def as_markdown(matrix: Matrix) -> Iterator[str]:
    """Yield the lines of the table in Markdown, and the notes below it."""
    heads = ["fault", "took effect", *map(escaped, column_heads(matrix))]
    yield from table(heads, _rows(matrix))
    yield ""
    yield from (
        f"- {escaped(line)}"
        for text in (*matrix_notes(matrix), *matrix.violations)
        for line in text.splitlines()
    )


def _rows(matrix: Matrix) -> Iterator[list[str]]:
    for row in matrix.rows:
        name = code_span(row.fault).replace("|", r"\|")
        if row.circumstances:
            name += f"<br>{escaped(row.circumstances)}"
        entries = (
            f"{escaped(loss_text(cell))}<br>{escaped(duplicates_text(cell))}" if cell else ""
            for cell in row.cells
        )
        yield [name, f"{row.took_effect} of {row.injected}", *entries]


def _text(
    cell: CellResult, guarantee: Guarantee, what: str, share: Share | None, records: int | None
) -> str:
    if share is None or records is None:
        return f"{what} {_UNKNOWN} ({_unjudged_trials(cell)})"
    judgement = cell.judgement_on(guarantee)
    sign = wording.verdict_sign(judgement) if judgement else ""
    text = f"{sign} {what} {wording.short_share_text(share, _UNKNOWN)}".lstrip()
    return f"{text}: {records:,}" if records else text


def _unjudged_trials(cell: CellResult) -> str:
    counts = (
        (cell.sealed_trials, "not measured"),
        *((getattr(cell, f"{status}_trials"), status.value) for status in SET_ASIDE),
    )
    return ", ".join(f"{count} {name}" for count, name in counts if count) or "not run"


def _row(
    fault: str, circumstances: str, cells: Mapping[_Column, CellResult], columns: Sequence[_Column]
) -> MatrixRow:
    sealed = sum(cell.sealed_trials for cell in cells.values())
    injected = sealed + sum(cell.void_trials + cell.incomplete_trials for cell in cells.values())
    return MatrixRow(fault, circumstances, sealed, injected, tuple(map(cells.get, columns)))


def _column(cell: Cell) -> _Column:
    return tuple(cell.get(axis) for axis in COLUMN_AXES)


def _circumstances(cell: Cell, axes: Sequence[str]) -> str:
    return " ".join(
        setting_text(axis, cell.get(axis)) for axis in axes if cell.get(axis) is not None
    )


def _most_frequent(values: Sequence[Scalar]) -> Scalar:
    """Return the most frequent value, the first of several."""
    counts = Counter(map(str, values))
    return max(values, key=lambda value: counts[str(value)])


def _rank(value: Scalar) -> tuple[int, float, str]:
    """Return a sort key: `None` first, then numbers, then words."""
    if value is None or isinstance(value, (bool, int, float)):
        return (0, float(value or 0), "")
    return (1, 0.0, str(value))
