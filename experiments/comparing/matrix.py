"""Faults down, clients' settings across: what each pair lost and repeated, over several sweeps. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from experiments.ledger.record import Cell, Scalar
from experiments.messages.phrases import format_count
from experiments.results import wording
from experiments.results.models import CellResult, SweepResults
from experiments.sweep.cell_names import setting_text, value_text
from experiments.verdicts.contract import Guarantee
from experiments.verdicts.judge import Verdict

ACROSS: Final = ("acks", "enable.idempotence")
"""The axes that make the columns; all others tell rows apart."""
_UNKNOWN: Final = "-"


@dataclass(frozen=True)
class MatrixRow:
    """One fault under one set of circumstances."""

    fault: str
    circumstances: str
    """What differs from the table's usual values, or between this fault's rows, `axis=value` each."""
    took_effect: int
    """Of so many trials did the fault bite ..."""
    struck: int
    """... of so many in which it struck."""
    cells: tuple[CellResult | None, ...]
    """One a column; `None`: no sweep holds it."""


@dataclass(frozen=True)
class Matrix:
    """The table."""

    columns: tuple[Cell, ...]
    rows: tuple[MatrixRow, ...]
    usual: Cell
    """What holds where a row says nothing else, fault and columns apart."""
    violations: tuple[str, ...]
    """Where what was seen differs from what is promised, a line each."""

    @property
    def verdicts(self) -> Counter[Verdict]:
        """How often each verdict was given, over all promises of all cells."""
        return Counter(
            judgement.verdict
            for row in self.rows
            for cell in row.cells
            if cell
            for judgement in cell.judgements
        )


def matrix_of(sweeps: Sequence[SweepResults]) -> Matrix:
    """Return the table of all the sweeps' own cells; of a cell that several hold, the last one named counts."""
    cells = [
        cell for sweep in sweeps for cell in sweep.cells if not cell.added and cell.refused is None
    ]
    columns = tuple(
        sorted({_across(cell.cell) for cell in cells}, key=lambda column: tuple(map(_rank, column)))
    )
    others = list(
        dict.fromkeys(
            axis for cell in cells for axis in cell.cell if axis not in {*ACROSS, "fault"}
        )
    )
    usual = {axis: _usual([cell.cell.get(axis) for cell in cells]) for axis in others}
    by_row: dict[tuple[str, str], dict[tuple[Scalar, ...], CellResult]] = {}
    for cell in cells:
        alike = [other.cell for other in cells if other.cell.get("fault") == cell.cell.get("fault")]
        telling = [
            axis
            for axis in others
            if any(str(other.get(axis)) != str(usual[axis]) for other in alike)
        ]
        by_row.setdefault(
            (value_text(cell.cell.get("fault")), _circumstances(cell.cell, telling)), {}
        )[_across(cell.cell)] = cell
    return Matrix(
        columns=tuple(dict(zip(ACROSS, column, strict=True)) for column in columns),
        rows=tuple(_row(*key, of_row, columns) for key, of_row in by_row.items()),
        usual=usual,
        violations=tuple(
            f"{sweep.sweep_id}: {line.text}"
            for sweep in sweeps
            for line in wording.violation_notes(sweep)
        ),
    )


def heads(matrix: Matrix) -> tuple[str, ...]:
    """Return the columns' heads: `acks=1`, `acks=all idem`."""
    return tuple(
        f"acks={value_text(column['acks'])}{' idempotent' if column['enable.idempotence'] else ''}"
        for column in matrix.columns
    )


def loss_text(cell: CellResult | None) -> str:
    """Return a cell's loss: the verdict's sign, in how many trials, with the interval, and how many records."""
    return _text(cell, Guarantee.NO_ACKED_LOSS, "lost")


def duplicates_text(cell: CellResult | None) -> str:
    """Return the same of its duplicates."""
    return _text(cell, Guarantee.NO_DUPLICATES, "dup.")


def below(matrix: Matrix) -> Iterator[str]:
    """Yield what a reader must know besides the table: what holds throughout, the signs, and how often what was seen differs from what is promised."""
    told = " ".join(
        setting_text(axis, value) for axis, value in matrix.usual.items() if value is not None
    )
    if told:
        yield f"unless a row says otherwise: {told}"
    yield wording.LEGEND
    cells, counts = (
        sum(cell is not None for row in matrix.rows for cell in row.cells),
        matrix.verdicts,
    )
    yield (
        f"{format_count(cells, 'cell')}: {counts[Verdict.HELD]:,} promises held, {counts[Verdict.VIOLATED]:,} VIOLATED, {counts[Verdict.UNKNOWN]:,} not known; "
        f"{counts[Verdict.NOT_GUARANTEED]:,} times nothing was promised"
    )


def as_markdown(matrix: Matrix) -> Iterator[str]:
    """Yield the table's lines for a document, and what stands below it."""
    yield f"| fault | bit | {' | '.join(heads(matrix))} |"
    yield f"|---|---|{'---|' * len(matrix.columns)}"
    for row in matrix.rows:
        name = f"`{row.fault}`" + (f"<br>{row.circumstances}" if row.circumstances else "")
        entries = (
            f"{loss_text(cell)}<br>{duplicates_text(cell)}" if cell else "" for cell in row.cells
        )
        yield f"| {name} | {row.took_effect} of {row.struck} | {' | '.join(entries)} |"
    yield ""
    yield from (
        f"- {line}" for text in (*below(matrix), *matrix.violations) for line in text.splitlines()
    )


def _text(cell: CellResult | None, guarantee: Guarantee, what: str) -> str:
    if cell is None:
        return ""
    share, records = (
        (cell.loss, cell.lost[0] if cell.lost else None)
        if what == "lost"
        else (cell.duplication, cell.duplicates)
    )
    if share is None or records is None:
        return f"{what} {_UNKNOWN} ({_ended(cell)})"
    sign = wording.verdict_mark(cell, guarantee)
    return f"{sign} {what} {wording.short_share_text(share, _UNKNOWN)}" + (
        f": {records:,}" if records else ""
    )


def _ended(cell: CellResult) -> str:
    counts = (
        (cell.sealed_trials, "not measured"),
        (cell.void_trials, "void"),
        (cell.failed_trials, "failed"),
    )
    return ", ".join(f"{count} {name}" for count, name in counts if count) or "not run"


def _row(
    fault: str,
    circumstances: str,
    of_row: dict[tuple[Scalar, ...], CellResult],
    columns: Sequence[tuple[Scalar, ...]],
) -> MatrixRow:
    sealed = sum(cell.sealed_trials for cell in of_row.values())
    return MatrixRow(
        fault,
        circumstances,
        sealed,
        sealed + sum(cell.void_trials for cell in of_row.values()),
        tuple(map(of_row.get, columns)),
    )


def _across(cell: Cell) -> tuple[Scalar, ...]:
    return tuple(cell.get(axis) for axis in ACROSS)


def _circumstances(cell: Cell, axes: Sequence[str]) -> str:
    return " ".join(
        setting_text(axis, cell.get(axis)) for axis in axes if cell.get(axis) is not None
    )


def _usual(values: Sequence[Scalar]) -> Scalar:
    """Return the value that most cells have, the first of several."""
    words = Counter(map(str, values))
    return max(values, key=lambda value: words[str(value)])


def _rank(value: Scalar) -> tuple[int, float, str]:
    """Numbers before words, `None` first."""
    return (
        (0, float(value or 0), "")
        if value is None or isinstance(value, (bool, int, float))
        else (1, 0.0, str(value))
    )
