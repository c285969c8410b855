"""A comparison in sentences: in how many cells each measure differs, and by how much."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from ackbench.experiments.messages.phrases import format_count
from ackbench.experiments.results.comparing.comparison import ComparedCell, Comparison
from ackbench.experiments.results.comparing.differences import (
    MEASURE_NAMES,
    ComparedMeasure,
    Difference,
    classify_difference,
)


def comparison_sentences(comparison: Comparison) -> Iterator[str]:
    """Yield one sentence per measure, and one on the verdicts that changed.

    Controls that the planner added are left out.
    """
    cells = [cell for cell in comparison.cells if not cell.added]
    for measure in ComparedMeasure:
        yield _sentence(measure, [cell.difference_in(measure) for cell in cells])
    yield _verdicts(cells)


def _sentence(measure: ComparedMeasure, differences: Sequence[Difference]) -> str:
    by_kind: dict[str, list[Difference]] = {}
    for difference in differences:
        by_kind.setdefault(classify_difference(difference), []).append(difference)
    cells = format_count(len(differences), "cell")
    parts = [
        f"{kind} than in A in {len(found)} of {cells}, {_extent(found)}"
        for kind in ("worse", "better")
        if (found := by_kind.get(kind))
    ]
    if same := by_kind.get("same"):
        parts.append(f"no difference shown in {len(same)} of {cells}")
    if unknown := by_kind.get("unknown"):
        parts.append(f"too few trials to tell in {len(unknown)} of {cells}")
    return f"{MEASURE_NAMES[measure]}: {'; '.join(parts)}."


def _extent(differences: Sequence[Difference]) -> str:
    """Return the median over cells of the change, and its range."""
    if differences[0].measure.is_share:
        points = [100 * (one.difference or 0.0) for one in differences]
        return _range([f"{value:+.0f}" for value in _spread(points)], "points")
    ratios = [one.ratio for one in differences if one.ratio is not None]
    return _range([f"{value:.2g}" for value in _spread(ratios)], "times A's")


def _spread(values: Sequence[float]) -> tuple[float, float, float]:
    return median(values), min(values), max(values)


def _range(texts: Sequence[str], unit: str) -> str:
    middle, low, high = texts
    if low == high:
        return f"{middle} {unit}"
    return f"{middle} {unit} ({low} to {high} in these cells)"


def _verdicts(cells: Sequence[ComparedCell]) -> str:
    changed = [cell for cell in cells if cell.verdicts]
    if not changed:
        return f"Verdicts: the same in {format_count(len(cells), 'cell')}."
    verdicts = format_count(sum(len(cell.verdicts) for cell in changed), "verdict")
    return f"Verdicts: {verdicts} changed, in {len(changed)} of {format_count(len(cells), 'cell')}."
