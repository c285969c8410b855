"""Two sides compared cell by cell: what differs, by how much, and with which certainty.

Cells are paired by their axes, and trials by their seeds. The sides are two sweeps, or two parts
of one (`experiments.results.comparing.within`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from ackbench.experiments.errors import NotComparable
from ackbench.experiments.ledger.trial_manifest import Frozen, Role
from ackbench.experiments.messages.phrases import format_count
from ackbench.experiments.results.cells import judged_trials
from ackbench.experiments.results.comparing.cell_pairs import (
    Pair,
    check_load,
    differing_settings,
    pair_cells,
    trials_by_repeat,
)
from ackbench.experiments.results.comparing.differences import (
    ComparedMeasure,
    Difference,
    number_difference,
    share_difference,
)
from ackbench.experiments.results.comparing.setting_change import SettingChange
from ackbench.experiments.results.models import CellResult, SweepResults, TrialResult
from ackbench.experiments.results.wording import POWER_NOT_SHOWN, is_unproven
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
    a: str
    b: str


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
    remarks: tuple[str, ...]
    """What a reader must know about the figures."""
    settings: tuple[SettingChange, ...]
    cells: tuple[ComparedCell, ...]
    only_a: tuple[str, ...]
    """Labels of the cells without a partner."""
    only_b: tuple[str, ...]

    def to_json(self) -> str:
        """Return the comparison as `ackbench compare --json` prints it."""
        return self.model_dump_json(indent=2)


def _lost(trial: TrialResult) -> bool | None:
    return is_positive(trial.lost)


def _duplicated(trial: TrialResult) -> bool | None:
    return None if trial.duplicates is None else trial.duplicates > 0


_SHARES: Final[Mapping[ComparedMeasure, Callable[[TrialResult], bool | None]]] = {
    ComparedMeasure.LOSS: _lost,
    ComparedMeasure.DUPLICATES: _duplicated,
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
    remarks: Sequence[str] = (),
) -> Comparison:
    """Compare pairs of cells.

    Args:
        names: the names of both sides.
        a: one side.
        b: the other side.
        pairs: each has a cell of `a` and a cell of `b`.
        remarks: come before those about the sweeps.
    """
    cells = tuple(compare_pair(pair, a, b) for pair in pairs)
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


def _remarks(sides: Iterable[ComparedSweep], *, paired: bool) -> list[str]:
    remarks = []
    if not paired:
        remarks.append(
            "trials are not compared in pairs, because their seeds differ; "
            "this supports weaker conclusions"
        )
    for side in sides:
        name, results = side.plan.sweep_id, side.results
        if results.harness.failed:
            sentences = " ".join(results.harness.sentences)
            remarks.append(f"do not trust {name}: its controls failed. {sentences}".strip())
        overloaded = sum(bool(trial.overloaded) for trial in results.trials if trial.judged)
        if overloaded:
            remarks.append(
                f"the machine was overloaded in {format_count(overloaded, 'trial')} of {name}: "
                "their latencies and outages say nothing of the settings"
            )
        if results.unmeasured or results.pending:
            remarks.append(
                f"{name} is incomplete: {len(results.pending)} trials not run, "
                f"{len(results.unmeasured)} not measured"
            )
    return remarks


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


def _verdict_changes(a: Sequence[Judgement], b: Sequence[Judgement]) -> list[VerdictChange]:
    a_texts, b_texts = (
        {judgement.guarantee: _verdict_text(judgement) for judgement in side} for side in (a, b)
    )
    both = [guarantee for guarantee in GUARANTEES if guarantee in a_texts and guarantee in b_texts]
    return [
        VerdictChange(guarantee=guarantee, a=a_texts[guarantee], b=b_texts[guarantee])
        for guarantee in both
        if a_texts[guarantee] != b_texts[guarantee]
    ]


def _verdict_text(judgement: Judgement) -> str:
    if is_unproven(judgement):
        return f"{judgement.verdict.value}, {POWER_NOT_SHOWN}"
    if judgement.verdict is not Verdict.NOT_GUARANTEED:
        return judgement.verdict.value
    observed = {True: ": observed", False: ": not observed", None: ""}[judgement.seen]
    return judgement.verdict.value + observed


def _unpaired(cells: Sequence[CellResult], matched: Sequence[CellResult]) -> tuple[str, ...]:
    return tuple(
        cell.label
        for cell in cells
        if cell.refused is None and not any(cell is other for other in matched)
    )
