"""Whether the trials of a sweep met what its experiment expects. Pure.

An expectation is the user's own bound, whatever Kafka guarantees. Each trial of a cell has to meet
it. A trial that is set aside cannot show that it was met; a record that it saw lost was lost all
the same. Times of an overloaded trial say nothing of the settings, so it cannot tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ackbench.experiments.ledger.quantities import PLACES_BY_NAME, QuantityUnit
from ackbench.experiments.ledger.trial_manifest import SET_ASIDE
from ackbench.experiments.messages.phrases import decimal_text, format_count, plural
from ackbench.experiments.results.cells import cell_key
from ackbench.experiments.results.models import (
    CellResult,
    ExpectationOutcome,
    ExpectationResult,
    Interval,
    TrialResult,
)
from ackbench.experiments.sweep.expectations import LATENCIES, Expectation, is_count, unit_of


def expectation_results(
    expectations: Sequence[Expectation], cells: Sequence[CellResult], trials: Sequence[TrialResult]
) -> Iterator[ExpectationResult]:
    """Yield what trials show of each expectation, in each of the experiment's own cells.

    Args:
        expectations: of the plan.
        cells: of the sweep; added controls and refused cells have none.
        trials: all trials of the sweep.
    """
    by_cell: dict[str, list[TrialResult]] = {}
    for trial in trials:
        by_cell.setdefault(cell_key(trial.cell), []).append(trial)
    for expectation in expectations:
        for cell in cells:
            if not cell.added and cell.refused is None and expectation.is_about(cell.cell):
                own = by_cell.get(cell_key(cell.cell), [])
                yield _result(expectation, cell, own)


def _result(
    expectation: Expectation, cell: CellResult, trials: Iterable[TrialResult]
) -> ExpectationResult:
    unmet: dict[str, Interval] = {}
    judged = unknown = 0
    for trial in trials:
        value = _value(expectation.measure, trial)
        holds = None if value is None else expectation.holds(*value)
        if holds is False and value is not None:
            unmet[trial.trial_id] = value
        if trial.judged:
            judged += holds is not None
            unknown += holds is None
    if unmet:
        outcome = ExpectationOutcome.NOT_MET
    elif judged and not unknown:
        outcome = ExpectationOutcome.MET
    else:
        outcome = ExpectationOutcome.UNKNOWN
    return ExpectationResult(
        expectation=expectation,
        cell=cell.cell,
        label=cell.label,
        outcome=outcome,
        not_met_in=tuple(unmet),
        judged_trials=judged,
        unknown_trials=unknown,
        worst=max(unmet.values(), key=lambda ends: abs(ends[0] - expectation.bound), default=None),
    )


def _value(measure: str, trial: TrialResult) -> Interval | None:
    """Return a measure of a trial; `None`: it has none, or one that says nothing of settings."""
    if trial.disturbances or not (trial.judged or trial.status in SET_ASIDE):
        return None
    if not is_count(measure) and (trial.overloaded or not trial.judged):
        return None
    if measure in LATENCIES:
        kind, quantile = LATENCIES[measure]
        quantiles = getattr(trial.latency_ms, kind.value)
        numbers = [None if quantiles is None else getattr(quantiles, quantile)]
    else:
        numbers = [place.of(trial) for place in PLACES_BY_NAME[measure]]
    known = [float(one) for one in numbers if one is not None]
    return (known[0], known[-1]) if len(known) == len(numbers) else None


@dataclass(frozen=True)
class ExpectedOfCells:
    """One expectation with its results in the cells that it is about."""

    text: str
    cells: tuple[ExpectationResult, ...]

    @property
    def met(self) -> int:
        """In how many cells it is met."""
        return sum(one.outcome is ExpectationOutcome.MET for one in self.cells)

    @property
    def others(self) -> list[ExpectationResult]:
        """Those in which it is not met, then those in which it is unknown."""
        return [
            one
            for outcome in (ExpectationOutcome.NOT_MET, ExpectationOutcome.UNKNOWN)
            for one in self.cells
            if one.outcome is outcome
        ]

    @property
    def sentence(self) -> str:
        """In how many cells it is met, as text."""
        return f"expected {self.text}: met in {self.met} of {format_count(len(self.cells), 'cell')}"


def expected_of_cells(results: Iterable[ExpectationResult]) -> tuple[ExpectedOfCells, ...]:
    """Return the results of a sweep by expectation, in the order of the experiment."""
    by_expectation: dict[str, list[ExpectationResult]] = {}
    for one in results:
        by_expectation.setdefault(str(one.expectation), []).append(one)
    return tuple(ExpectedOfCells(text, tuple(cells)) for text, cells in by_expectation.items())


def expectation_lines(
    results: Iterable[ExpectationResult], most_cells: int | None = None
) -> Iterator[str]:
    """Yield a line for each expectation, and one for each cell that did not certainly meet it.

    Args:
        results: of a sweep.
        most_cells: of each expectation, so many cells have a line; `None`: all.
    """
    for expected in expected_of_cells(results):
        yield expected.sentence
        others = expected.others
        for one in others[:most_cells]:
            yield f"  {one.outcome}: {one.label}: {expectation_sentence(one)}"
        if left := len(others[most_cells:] if most_cells else ()):
            yield f"  and {format_count(left, 'other cell')}"


def not_expected_line(result: ExpectationResult) -> str:
    """Return an expectation that a cell did not certainly meet, with the cell and the figure."""
    return (
        f"{result.expectation} with {result.label}: {result.outcome}: "
        f"{expectation_sentence(result)}"
    )


def expectation_sentence(result: ExpectationResult) -> str:
    """Return what the trials of a cell show of an expectation, without the cell."""
    if result.outcome is ExpectationOutcome.NOT_MET and result.worst is not None:
        trials = len(result.not_met_in)
        value = _value_text(result.expectation.measure, result.worst)
        worst = "" if trials == 1 or value == "false" else " at worst,"
        where = f"in {format_count(trials, 'trial')} ({', '.join(result.not_met_in)})"
        return f"{value}{worst} {where}"
    if result.outcome is ExpectationOutcome.MET:
        return f"in {format_count(result.judged_trials, 'trial')}"
    if not result.judged_trials and not result.unknown_trials:
        return "no trial counts"
    total = result.judged_trials + result.unknown_trials
    return f"{result.unknown_trials} of {total} {plural(total, 'trial')} cannot tell"


def _value_text(measure: str, value: Interval) -> str:
    low, high = (_number_text(measure, one) for one in value)
    return low if low == high else f"{low} to {high}"


def _number_text(measure: str, value: float) -> str:
    unit = unit_of(measure)
    if unit is QuantityUnit.YES_NO:
        return str(bool(value)).lower()
    if unit is QuantityUnit.RECORDS_PER_S:
        return f"{decimal_text(value)} records/s"
    return f"{value:,.0f}" if is_count(measure) else f"{decimal_text(value)} ms"
