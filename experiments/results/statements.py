"""The statements on a sweep: codes, cells and figures, in the order of importance.

`experiments.results.sentences` has the words of the plain answer, and the page shows the verdicts
line by line (`experiments.pages.report.verdict_lines`).

A statement is about one fault, and about cells with one outcome: trials of different faults, or of
settings with different outcomes, are never counted together. What trials showed is stated apart
from what Kafka guarantees.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations

from ackbench.experiments.ledger.trial_manifest import SET_ASIDE
from ackbench.experiments.results.cells import judged_trials
from ackbench.experiments.results.models import CellResult, SweepResults, TrialResult
from ackbench.experiments.sweep.cell_names import FAULT_AXIS, NO_FAULT, cell_sort_key, varying_axes
from ackbench.experiments.sweep.client_kinds import CLIENT_AXIS, VERSION_AXIS
from ackbench.experiments.verdicts.guarantees import GUARANTEES, Guarantee
from ackbench.experiments.verdicts.judge import Judgement, Verdict, violations_of


@dataclass(frozen=True)
class JudgedCell:
    """A cell with its judgement on one guarantee."""

    cell: CellResult
    judgement: Judgement


@dataclass(frozen=True)
class VerdictStatement:
    """The cells with one verdict on one guarantee."""

    guarantee: Guarantee
    verdict: Verdict
    """`NOT_GUARANTEED` only where its opposite was observed."""
    judged: tuple[JudgedCell, ...]


@dataclass(frozen=True)
class CellOutcome:
    """A cell, and its trials that can tell whether they show the opposite of a guarantee."""

    cell: CellResult
    known: tuple[TrialResult, ...]
    seen: tuple[TrialResult, ...]


@dataclass(frozen=True)
class CellGroup:
    """Cells of one fault with one outcome: all of their trials show it, or none, or one cell."""

    outcomes: tuple[CellOutcome, ...]

    @property
    def known(self) -> list[TrialResult]:
        """The trials that can tell."""
        return [trial for one in self.outcomes for trial in one.known]

    @property
    def seen(self) -> list[TrialResult]:
        """The trials that show it."""
        return [trial for one in self.outcomes for trial in one.seen]

    def worst(self, guarantee: Guarantee) -> TrialResult:
        """Return the trial that shows the most of it; there is one that shows it."""
        return max(self.seen, key=guarantee.extent)


@dataclass(frozen=True)
class ObservedStatement:
    """The opposite of a guarantee in trials of one fault, and where it was not."""

    guarantee: Guarantee
    fault: str
    groups: tuple[CellGroup, ...]
    """Cells that show it, those with the most of it first."""
    never: CellGroup
    """The cells of this fault that do not show it."""
    unknown: CellGroup
    """The cells of this fault whose trials cannot tell."""
    axes: tuple[str, ...]
    """The fewest axes whose values tell the groups apart; a version with its client."""


@dataclass(frozen=True)
class NotObservedStatement:
    """The opposite of a guarantee in no trial of the sweep."""

    guarantee: Guarantee
    known: int
    """Trials that can tell."""
    trials: int


@dataclass(frozen=True)
class HungStatement:
    """The cells of one fault in whose trials clients hung, void ones included."""

    fault: str
    hung: CellGroup
    axes: tuple[str, ...]
    """The fewest axes whose values tell these cells from the others of the fault."""


@dataclass(frozen=True)
class SetAsideStatement:
    """Violations in a void, incomplete or failed trial: they are in no share."""

    trial: TrialResult
    violations: dict[Guarantee, int]


class NothingMeasured(StrEnum):
    """Why no trial counts."""

    DISTURBED = "disturbed"
    WITHOUT_EFFECT = "without-effect"
    NOT_RUN = "not-run"


@dataclass(frozen=True)
class ControlNotCleanStatement:
    """The control lost or duplicated records, so the sweep supports no conclusion."""


@dataclass(frozen=True)
class CertaintyStatement:
    """The number of trials of the cells with the fewest and the most."""

    fewest_trials: int
    most_trials: int


Statement = (
    VerdictStatement
    | ObservedStatement
    | NotObservedStatement
    | HungStatement
    | SetAsideStatement
    | ControlNotCleanStatement
    | NothingMeasured
    | CertaintyStatement
)


def statements(results: SweepResults) -> tuple[Statement, ...]:
    """Return what a sweep showed: violations, then fault by fault, then what is not known.

    The controls that the planner added are not part of it, and cells without a fault only if there
    are no others.
    """
    if results.harness.control_clean is False:
        return (ControlNotCleanStatement(),)
    cells = [cell for cell in results.cells if not cell.added and cell.refused is None]
    verdicts = list(verdict_statements(cells))
    with_fault = [cell for cell in cells if cell.fault_name != NO_FAULT] or cells
    measured = [(cell, judged) for cell in with_fault if (judged := judged_trials(results, cell))]
    return (
        *(one for one in verdicts if one.verdict is Verdict.VIOLATED),
        *hung_statements(results, cells),
        *observations(measured),
        *set_aside_statements(results),
        *(one for one in verdicts if one.verdict is not Verdict.VIOLATED),
        CertaintyStatement(min(trials), max(trials))
        if (trials := [len(judged) for _, judged in measured])
        else _nothing_measured(results),
    )


def verdict_statements(cells: Sequence[CellResult]) -> Iterator[VerdictStatement]:
    """Yield the verdicts on cells by guarantee: violated, observed, held, and unknown ones."""
    judged = [
        JudgedCell(cell, judgement)
        for cell in cells
        if not cell.added
        for judgement in cell.judgements
    ]
    for verdict in (Verdict.VIOLATED, Verdict.NOT_GUARANTEED, Verdict.HELD, Verdict.UNKNOWN):
        for guarantee in GUARANTEES:
            found = tuple(
                one
                for one in judged
                if one.judgement.guarantee is guarantee
                and one.judgement.verdict is verdict
                and (verdict is not Verdict.NOT_GUARANTEED or one.judgement.violation_seen)
            )
            if found:
                yield VerdictStatement(guarantee, verdict, found)


_Measured = Sequence[tuple[CellResult, list[TrialResult]]]
"""Cells with their judged trials."""


def observations(measured: _Measured) -> Iterator[ObservedStatement | NotObservedStatement]:
    """Yield one statement per guarantee and fault, or one for all if no trial shows its opposite.

    What no trial can tell is not stated.
    """
    by_fault: dict[str, list[tuple[CellResult, list[TrialResult]]]] = {}
    for entry in sorted(measured, key=lambda entry: cell_sort_key(entry[0].cell)):
        by_fault.setdefault(entry[0].fault_name, []).append(entry)
    trials = [trial for _, judged in measured for trial in judged]
    for guarantee in GUARANTEES:
        shown = [guarantee.observed_in(trial) for trial in trials]
        known = [one for one in shown if one is not None]
        if known and not any(known):
            yield NotObservedStatement(guarantee, len(known), len(trials))
        elif known:
            for fault, entries in by_fault.items():
                yield from _of_fault(guarantee, fault, entries)


def _of_fault(guarantee: Guarantee, fault: str, entries: _Measured) -> Iterator[ObservedStatement]:
    all_of_fault = [_outcome(guarantee, cell, judged) for cell, judged in entries]
    outcomes = [one for one in all_of_fault if one.known]
    unknown = [one for one in all_of_fault if not one.known]
    always = [one for one in outcomes if len(one.seen) == len(one.known)]
    never = [one for one in outcomes if not one.seen]
    sometimes = [[one] for one in outcomes if 0 < len(one.seen) < len(one.known)]
    groups = [CellGroup(tuple(group)) for group in (always, *sometimes) if group]
    if outcomes:
        yield ObservedStatement(
            guarantee,
            fault,
            tuple(sorted(groups, key=lambda one: -guarantee.extent(one.worst(guarantee)))),
            CellGroup(tuple(never)),
            CellGroup(tuple(unknown)),
            _deciding_axes([always, *sometimes, never, unknown]),
        )


def _outcome(guarantee: Guarantee, cell: CellResult, judged: Iterable[TrialResult]) -> CellOutcome:
    known = tuple(trial for trial in judged if guarantee.observed_in(trial) is not None)
    return CellOutcome(cell, known, tuple(trial for trial in known if guarantee.observed_in(trial)))


def hung_statements(results: SweepResults, cells: Sequence[CellResult]) -> Iterator[HungStatement]:
    """Yield one statement per fault under which clients hung."""
    outcomes: dict[str, list[CellOutcome]] = {}
    for cell in cells:
        ran = tuple(
            trial
            for trial in results.trials
            if trial.cell == cell.cell and trial.attempted is not None
        )
        seen = tuple(trial for trial in ran if trial.hung_clients)
        outcomes.setdefault(cell.fault_name, []).append(CellOutcome(cell, ran, seen))
    for fault, of_fault in outcomes.items():
        hung = [one for one in of_fault if one.seen]
        if hung:
            others = [one for one in of_fault if not one.seen]
            yield HungStatement(fault, CellGroup(tuple(hung)), _deciding_axes([hung, others]))


def _deciding_axes(groups: Sequence[Sequence[CellOutcome]]) -> tuple[str, ...]:
    """Return the fewest axes whose values decide to which group a cell belongs; none for one.

    A version stands with its client: no reader knows by heart whose it is.
    """
    cells = [one.cell.cell for group in groups for one in group]
    axes = [axis for axis in varying_axes(cells) if axis != FAULT_AXIS]
    deciding = next(
        chosen
        for number in range(len(axes) + 1)
        for chosen in combinations(axes, number)
        if _decide(chosen, groups)
    )
    named = {*deciding, CLIENT_AXIS} if VERSION_AXIS in deciding else {*deciding}
    return tuple(axis for axis in axes if axis in named)


def _decide(axes: Sequence[str], groups: Sequence[Sequence[CellOutcome]]) -> bool:
    values = [
        {tuple(one.cell.cell.get(axis) for axis in axes) for one in group} for group in groups
    ]
    return all(one.isdisjoint(other) for one, other in combinations(values, 2))


def set_aside_trials(results: SweepResults) -> Iterator[TrialResult]:
    """Yield the void, incomplete and failed trials, by id."""
    return (trial for trial in results.trials if trial.status in SET_ASIDE)


def set_aside_statements(results: SweepResults) -> Iterator[SetAsideStatement]:
    """Yield what trials showed that count in no share; nothing of those that showed nothing."""
    for trial in set_aside_trials(results):
        if violations := violations_of(trial):
            yield SetAsideStatement(trial, violations)


def _nothing_measured(results: SweepResults) -> NothingMeasured:
    measured = [one for one in set_aside_trials(results) if one.attempted is not None]
    if any(trial.disturbances for trial in measured):
        return NothingMeasured.DISTURBED
    return NothingMeasured.WITHOUT_EFFECT if measured else NothingMeasured.NOT_RUN
