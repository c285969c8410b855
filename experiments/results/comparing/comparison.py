"""Two sides compared cell by cell: what differs, by how much, and with which certainty.

Cells are paired by their axes, and trials by their seeds. The sides are two sweeps, or two parts
of one (`experiments.results.comparing.within`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final, TypeVar

from pydantic import computed_field

from ackbench.experiments.ledger.trial_manifest import Frozen, Role
from ackbench.experiments.messages.errors import NotComparable
from ackbench.experiments.results.cells import judged_trials
from ackbench.experiments.results.comparing.cell_pairs import (
    Pair,
    check_load,
    differing_settings,
    pair_cells,
    trials_by_repeat,
)
from ackbench.experiments.results.comparing.differences import (
    Difference,
    number_difference,
    share_difference,
)
from ackbench.experiments.results.comparing.findings import (
    Caveat,
    ChangeKind,
    ComparedMeasure,
    ControlsFailed,
    Extent,
    MachineOverloaded,
    MeasureStatement,
    SeedsDiffer,
    SettingChange,
    SideVerdict,
    SweepIncomplete,
    VerdictsStatement,
)
from ackbench.experiments.results.comparing.sentences import (
    caveat_sentence,
    side_verdict_text,
    statement_sentence,
)
from ackbench.experiments.results.models import CellResult, SweepResults, TrialResult
from ackbench.experiments.results.wording import is_unproven
from ackbench.experiments.sweep.plan import Plan
from ackbench.experiments.verdicts.guarantees import GUARANTEES, NamedGuarantee
from ackbench.experiments.verdicts.guarantees.violations import is_positive
from ackbench.experiments.verdicts.judge import Judgement, Verdict


@dataclass(frozen=True)
class ComparedSweep:
    """One side of a comparison: a sweep, or a part of its cells."""

    plan: Plan
    results: SweepResults


class VerdictChange(Frozen):
    """A guarantee on which the verdicts of the two sides differ."""

    guarantee: NamedGuarantee
    a_verdict: SideVerdict
    b_verdict: SideVerdict

    @computed_field  # type: ignore[prop-decorator]  # mypy does not know pydantic's decorator
    @property
    def a(self) -> str:
        """The verdict of `a` as text."""
        return side_verdict_text(self.a_verdict)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def b(self) -> str:
        """The verdict of `b` as text."""
        return side_verdict_text(self.b_verdict)


class ComparedCell(Frozen):
    """A cell of `a` and its partner of `b`."""

    a_label: str
    b_label: str
    role: Role
    """The role of both; `CELL` if their roles differ."""
    added: bool
    """Whether it is a control that was added to the experiment's cells."""
    paired: bool
    differences: tuple[Difference, ...]
    """One per measure."""
    verdicts: tuple[VerdictChange, ...]

    def difference_in(self, measure: ComparedMeasure) -> Difference:
        """Return the difference in one measure."""
        return next(difference for difference in self.differences if difference.measure is measure)


class Comparison(Frozen):
    """Two sides compared cell by cell."""

    a: str
    """The sweep's id; for a part of a sweep, the axis and its value."""
    b: str
    paired: bool
    """Whether trials have the same seeds on both sides, repeat by repeat."""
    caveats: tuple[Caveat, ...]
    settings: tuple[SettingChange, ...]
    cells: tuple[ComparedCell, ...]
    only_a: tuple[str, ...]
    """Labels of the cells without a partner."""
    only_b: tuple[str, ...]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def remarks(self) -> tuple[str, ...]:
        """The sentences of `caveats`."""
        return tuple(map(caveat_sentence, self.caveats))

    @computed_field  # type: ignore[prop-decorator]
    @property
    def statements(self) -> tuple[MeasureStatement | VerdictsStatement, ...]:
        """In how many cells each measure differs, and then verdicts; without added controls."""
        cells = [cell for cell in self.cells if not cell.added]
        return (*(_measure_statement(one, cells) for one in ComparedMeasure), _verdicts(cells))

    @computed_field  # type: ignore[prop-decorator]
    @property
    def sentences(self) -> tuple[str, ...]:
        """The sentences of `statements`."""
        return tuple(map(statement_sentence, self.statements))


_SHARES: Final[Mapping[ComparedMeasure, Callable[[TrialResult], bool | None]]] = {
    ComparedMeasure.LOSS: lambda trial: is_positive(trial.lost),
    ComparedMeasure.DUPLICATES: lambda trial: (
        None if trial.duplicates is None else trial.duplicates > 0
    ),
}
_NUMBERS: Final[Mapping[ComparedMeasure, Callable[[TrialResult], float | None]]] = {
    ComparedMeasure.LATENCY_P99: lambda trial: (
        trial.latency_ms.ack.p99 if trial.latency_ms.ack else None
    ),
    ComparedMeasure.OUTAGE: lambda trial: trial.unavailable_ms,
    ComparedMeasure.THROUGHPUT: lambda trial: trial.throughput_records_per_s,
}


def compare(a: ComparedSweep, b: ComparedSweep) -> Comparison:
    """Compare two sweeps.

    Raises:
        NotComparable: a sweep was not measured, they have no cell in common, or their loads
            differ.
    """
    for side in (a, b):
        check_measured(side.results)
    pairs = pair_cells(a.results.cells, b.results.cells)
    if not any(not cell.added for cell, _ in pairs):
        raise NotComparable(
            f"{a.plan.sweep_id} and {b.plan.sweep_id} have no cell in common: cells are paired by "
            "their axes, except those with a single, different value in each sweep"
        )
    check_load(pairs, a.plan, b.plan)
    return compare_pairs((a.plan.sweep_id, b.plan.sweep_id), a, b, pairs)


def compare_pairs(
    names: tuple[str, str],
    a: ComparedSweep,
    b: ComparedSweep,
    pairs: Sequence[Pair],
    caveats: Sequence[Caveat] = (),
) -> Comparison:
    """Compare pairs of cells.

    Args:
        names: the names of both sides.
        a: one side.
        b: the other side.
        pairs: each has a cell of `a` and a cell of `b`.
        caveats: come before those about the sweeps.
    """
    cells = tuple(compare_pair(pair, a, b) for pair in pairs)
    paired = all(cell.paired for cell in cells)
    return Comparison(
        a=names[0],
        b=names[1],
        paired=paired,
        caveats=(
            *caveats,
            *_caveats({side.plan.sweep_id: side for side in (a, b)}.values(), paired=paired),
        ),
        settings=tuple(
            SettingChange(scope=scope, name=name, a=a_values, b=b_values)
            for (scope, name), (a_values, b_values) in differing_settings(
                pairs, a.plan, b.plan
            ).items()
        ),
        cells=cells,
        only_a=_unpaired(a.results.cells, [first for first, _ in pairs]),
        only_b=_unpaired(b.results.cells, [second for _, second in pairs]),
    )


def check_measured(results: SweepResults) -> None:
    """Check that a sweep has a sealed trial that was measured.

    Raises:
        NotComparable: it has none.
    """
    if not any(trial.judged for trial in results.trials):
        raise NotComparable(
            f"{results.sweep_id} has no sealed trial that was measured; measure its trials with: "
            f"ackbench measure {results.sweep_id}"
        )


def _caveats(sides: Iterable[ComparedSweep], *, paired: bool) -> Iterator[Caveat]:
    if not paired:
        yield SeedsDiffer()
    for side in sides:
        name, results = side.plan.sweep_id, side.results
        if results.harness.failed:
            yield ControlsFailed(sweep=name, controls=results.harness.sentences)
        if overloaded := sum(bool(one.overloaded) for one in results.trials if one.judged):
            yield MachineOverloaded(sweep=name, trials=overloaded)
        if results.unmeasured or results.pending:
            yield SweepIncomplete(
                sweep=name, not_run=len(results.pending), not_measured=len(results.unmeasured)
            )


def _measure_statement(measure: ComparedMeasure, cells: Sequence[ComparedCell]) -> MeasureStatement:
    by_change: dict[ChangeKind, list[Difference]] = {change: [] for change in ChangeKind}
    for cell in cells:
        difference = cell.difference_in(measure)
        by_change[difference.change].append(difference)
    return MeasureStatement(
        measure=measure,
        cells=len(cells),
        worse=_extent(by_change[ChangeKind.WORSE]),
        better=_extent(by_change[ChangeKind.BETTER]),
        same=len(by_change[ChangeKind.SAME]),
        unknown=len(by_change[ChangeKind.UNKNOWN]),
    )


def _extent(differences: Sequence[Difference]) -> Extent | None:
    values = [
        100 * value if one.measure.is_share else value
        for one in differences
        if (value := one.relative) is not None
    ]
    if not values:
        return None
    return Extent(cells=len(differences), median=median(values), low=min(values), high=max(values))


def _verdicts(cells: Sequence[ComparedCell]) -> VerdictsStatement:
    return VerdictsStatement(
        cells=len(cells),
        changed_cells=sum(bool(cell.verdicts) for cell in cells),
        changed_verdicts=sum(len(cell.verdicts) for cell in cells),
    )


def compare_pair(pair: Pair, a: ComparedSweep, b: ComparedSweep) -> ComparedCell:
    """Compare the measures and verdicts of two cells, in pairs of trials if the seeds are equal."""
    first, second = pair
    paired = _same_seeds(pair, a.plan, b.plan)
    a_trials, b_trials = judged_trials(a.results, first), judged_trials(b.results, second)
    shares = (
        share_difference(measure, _values(a_trials, value), _values(b_trials, value), paired=paired)
        for measure, value in _SHARES.items()
    )
    numbers = (
        number_difference(
            measure, _values(a_trials, value), _values(b_trials, value), paired=paired
        )
        for measure, value in _NUMBERS.items()
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
    """Return whether both sides planned common repeats, and with the same seeds."""
    a_trials, b_trials = trials_by_repeat(a, pair[0]), trials_by_repeat(b, pair[1])
    common = a_trials.keys() & b_trials.keys()
    return bool(common) and all(a_trials[repeat].seed == b_trials[repeat].seed for repeat in common)


_Value = TypeVar("_Value", bool, float)


def _values(
    trials: Sequence[TrialResult], value_of: Callable[[TrialResult], _Value | None]
) -> dict[int, _Value]:
    """Return the trials' values by repeat; a trial without a value is left out."""
    values = ((trial.repeat, value_of(trial)) for trial in trials)
    return {repeat: value for repeat, value in values if repeat is not None and value is not None}


def _verdict_changes(a: Sequence[Judgement], b: Sequence[Judgement]) -> Iterator[VerdictChange]:
    before, after = ({one.guarantee: _side_verdict(one) for one in side} for side in (a, b))
    for guarantee in GUARANTEES:
        a_verdict, b_verdict = before.get(guarantee), after.get(guarantee)
        if a_verdict and b_verdict and a_verdict != b_verdict:
            yield VerdictChange(guarantee=guarantee, a_verdict=a_verdict, b_verdict=b_verdict)


def _side_verdict(judgement: Judgement) -> SideVerdict:
    return SideVerdict(
        verdict=judgement.verdict,
        seen=judgement.violation_seen if judgement.verdict is Verdict.NOT_GUARANTEED else None,
        unproven=is_unproven(judgement),
    )


def _unpaired(cells: Sequence[CellResult], matched: Sequence[CellResult]) -> tuple[str, ...]:
    return tuple(
        cell.label
        for cell in cells
        if cell.refused is None and not any(cell is other for other in matched)
    )
