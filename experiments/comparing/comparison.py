"""Two sides, cell by cell: cells paired by their axes, trials by their seeds; what changed, by how much, and how sure that is. Pure.

The sides are two sweeps, or two parts of one (`experiments.comparing.within`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from experiments.comparing.cell_pairs import Pair, check_load, pairs_of, settings_between, specs_of
from experiments.comparing.differences import (
    Difference,
    MeasuredValues,
    number_difference,
    share_difference,
)
from experiments.errors import NotComparable
from experiments.ledger.record import Frozen, Role
from experiments.results.cells import judged_trials
from experiments.results.models import CellResult, SweepResults, TrialResult
from experiments.sweep.plan import Plan
from experiments.verdicts.contract import Guarantee
from experiments.verdicts.judge import Judgement


@dataclass(frozen=True)
class ComparedSweep:
    """One side of a comparison: a sweep, or a part of its cells."""

    plan: Plan
    results: SweepResults


class SettingChange(Frozen):
    """A setting that is not the same on both sides."""

    scope: str
    name: str
    a: str
    b: str


class VerdictChange(Frozen):
    """A promise on which the two sides' verdicts differ."""

    guarantee: Guarantee
    a: str
    b: str


class ComparedCell(Frozen):
    """A cell of `a` and its partner of `b`."""

    a_label: str
    b_label: str
    role: Role
    """Where both have the same one."""
    added: bool
    """A control, not of the experiments' axes."""
    paired: bool
    differences: tuple[Difference, ...]
    """One a measure."""
    verdicts: tuple[VerdictChange, ...]

    def of(self, measure: MeasuredValues) -> Difference:
        """Return what was found of one measure."""
        return next(difference for difference in self.differences if difference.measure is measure)


class Comparison(Frozen):
    """Two sides, cell by cell."""

    a: str
    """The sweep's id; of a part of one, the axis and its value."""
    b: str
    paired: bool
    """The trials have the same seeds in both, repeat by repeat."""
    remarks: tuple[str, ...]
    """What a reader must know before the figures."""
    settings: tuple[SettingChange, ...]
    cells: tuple[ComparedCell, ...]
    only_a: tuple[str, ...]
    """Labels of the cells that have no partner."""
    only_b: tuple[str, ...]

    def to_json(self) -> str:
        """Return the object as `ackbench compare --json` prints it."""
        return self.model_dump_json(indent=2)


def _lost(trial: TrialResult) -> bool | None:
    return None if trial.lost is None else trial.lost[0] > 0


def _repeated(trial: TrialResult) -> bool | None:
    return None if trial.duplicates is None else trial.duplicates > 0


_SHARES: Final[Mapping[MeasuredValues, Callable[[TrialResult], bool | None]]] = {
    MeasuredValues.LOSS: _lost,
    MeasuredValues.DUPLICATES: _repeated,
}
_NUMBERS: Final[Mapping[MeasuredValues, Callable[[TrialResult], float | None]]] = {
    MeasuredValues.LATENCY_P99: lambda trial: (
        trial.latency_ms.ack.p99 if trial.latency_ms.ack else None
    ),
    MeasuredValues.OUTAGE: lambda trial: trial.unavailable_ms,
    MeasuredValues.THROUGHPUT: lambda trial: trial.throughput_records_per_s,
}


def compare(a: ComparedSweep, b: ComparedSweep) -> Comparison:
    """Compare two sweeps.

    Raises:
        NotComparable: one was not measured, they have no cell in common, or their loads differ; nothing can be said then.
    """
    for side in (a, b):
        check_measured(side.results)
    pairs = pairs_of(a.results.cells, b.results.cells)
    if not any(not cell.added for cell, _ in pairs):
        raise NotComparable(
            f"{a.plan.sweep_id} and {b.plan.sweep_id} have no cell in common: their axes must agree in all that they do not differ in as a whole"
        )
    check_load(pairs, a.plan, b.plan)
    return side_by_side((a.plan.sweep_id, b.plan.sweep_id), a, b, pairs)


def side_by_side(
    names: tuple[str, str],
    a: ComparedSweep,
    b: ComparedSweep,
    pairs: Sequence[Pair],
    remarks: Sequence[str] = (),
) -> Comparison:
    """Return what these pairs of cells show; each has a cell of `a` and one of `b`."""
    cells = tuple(compared(pair, a, b) for pair in pairs)
    paired = all(cell.paired for cell in cells)
    return Comparison(
        a=names[0],
        b=names[1],
        paired=paired,
        remarks=(
            *remarks,
            *_remarks({side.plan.sweep_id: side for side in (a, b)}.values(), paired=paired),
        ),
        settings=tuple(
            SettingChange(scope=scope, name=name, a=before, b=after)
            for (scope, name), (before, after) in settings_between(pairs, a.plan, b.plan).items()
        ),
        cells=cells,
        only_a=_alone(a.results.cells, [first for first, _ in pairs]),
        only_b=_alone(b.results.cells, [second for _, second in pairs]),
    )


def check_measured(results: SweepResults) -> None:
    """See that a sweep has a trial of which something is known.

    Raises:
        NotComparable: it has none.
    """
    if not any(trial.judged for trial in results.trials):
        raise NotComparable(
            f"{results.sweep_id} has no sealed trial that was measured: `ackbench measure {results.sweep_id}` measures those that there are"
        )


def _remarks(sides: Iterable[ComparedSweep], *, paired: bool) -> list[str]:
    remarks = (
        []
        if paired
        else [
            "the trials' seeds differ, so trials are not compared in pairs; that says less than pairs would"
        ]
    )
    for side in sides:
        harness = side.results.harness
        if harness.failed:
            remarks.append(
                f"do not believe {side.plan.sweep_id}: its controls failed. {' '.join(harness.sentences)}".strip()
            )
        if side.results.unmeasured or side.results.pending:
            remarks.append(
                f"{side.plan.sweep_id} is not whole: {len(side.results.pending)} trials not run, {len(side.results.unmeasured)} not measured"
            )
    return remarks


def compared(pair: Pair, a: ComparedSweep, b: ComparedSweep) -> ComparedCell:
    """Return a pair's measures, trial by trial where both ran under the same seeds, and the verdicts that differ."""
    first, second = pair
    paired = _same_seeds(pair, a.plan, b.plan)
    before, after = judged_trials(a.results, first), judged_trials(b.results, second)
    shares = (
        share_difference(measure, _values(before, of), _values(after, of), paired=paired)
        for measure, of in _SHARES.items()
    )
    numbers = (
        number_difference(measure, _values(before, of), _values(after, of), paired=paired)
        for measure, of in _NUMBERS.items()
    )
    return ComparedCell(
        a_label=first.label,
        b_label=second.label,
        role=first.role if first.role is second.role else Role.CELL,
        added=first.added,
        paired=paired,
        differences=(*shares, *numbers),
        verdicts=tuple(_verdict_changes(first.judgements, second.judgements)),
    )


def _same_seeds(pair: Pair, a: Plan, b: Plan) -> bool:
    """Say whether the repeats that both sides planned have the same seeds; none in common is no pair."""
    before, after = specs_of(a, pair[0]), specs_of(b, pair[1])
    common = before.keys() & after.keys()
    return bool(common) and all(before[repeat].seed == after[repeat].seed for repeat in common)


_Value = TypeVar("_Value", bool, float)


def _values(
    trials: Sequence[TrialResult], of: Callable[[TrialResult], _Value | None]
) -> dict[int, _Value]:
    """Return the trials' values by repeat; a trial that has none is left out."""
    found = ((trial.repeat, of(trial)) for trial in trials)
    return {repeat: value for repeat, value in found if repeat is not None and value is not None}


def _verdict_changes(a: Sequence[Judgement], b: Sequence[Judgement]) -> list[VerdictChange]:
    before, after = (
        {judgement.guarantee: _said(judgement) for judgement in side} for side in (a, b)
    )
    both = [guarantee for guarantee in Guarantee if guarantee in before and guarantee in after]
    return [
        VerdictChange(guarantee=guarantee, a=before[guarantee], b=after[guarantee])
        for guarantee in both
        if before[guarantee] != after[guarantee]
    ]


def _said(judgement: Judgement) -> str:
    seen = {True: ", seen", False: ", not seen", None: ""}[judgement.seen]
    return judgement.verdict.value + (seen if judgement.verdict.value == "NOT GUARANTEED" else "")


def _alone(cells: Sequence[CellResult], matched: Sequence[CellResult]) -> tuple[str, ...]:
    return tuple(
        cell.label
        for cell in cells
        if cell.refused is None and not any(cell is other for other in matched)
    )
