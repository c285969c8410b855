"""The answer of a sweep in plain sentences: what was lost, duplicated and out of order, and where.

A sentence is about one fault, and names exactly the settings that it is about: trials of different
faults, or of settings with different outcomes, are never counted together. It says what the trials
showed; what Kafka guarantees is said by the verdicts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from ackbench.experiments.ledger.trial_manifest import Cell, Scalar
from ackbench.experiments.messages.phrases import format_count, format_list
from ackbench.experiments.results.cells import cell_sort_key, judged_trials
from ackbench.experiments.results.models import CellResult, SweepResults, TrialResult
from ackbench.experiments.results.set_aside import seen_in, set_aside_trials
from ackbench.experiments.sweep.cell_names import (
    FAULT_AXIS,
    NO_FAULT,
    cell_group_names,
    fault_name,
    varying_axes,
)
from ackbench.experiments.verdicts.guarantees import Guarantee
from ackbench.experiments.verdicts.guarantees.violations import is_positive
from ackbench.experiments.verdicts.judge import Verdict
from ackbench.experiments.verdicts.statistics import share

_MOST_NAMES: Final = 3
"""More names of cells than this are counted, not listed."""
_MOST_CLAUSES: Final = 4
_LIST_SIGN: Final = " and "
_DIRTY_CONTROL: Final = (
    "No conclusion is possible: records were lost or duplicated in the control, which has no fault"
)


@dataclass(frozen=True)
class _Observation:
    """Something that a trial may show."""

    seen: Callable[[TrialResult], bool | None]
    """Whether the trial shows it; `None`: it cannot tell."""
    extent: Callable[[TrialResult], float]
    """How much of it the trial shows."""
    none: str
    """What is said if no trial of the sweep shows it."""
    never: str
    """What is said of a group of cells without it."""
    worst: Callable[[TrialResult], str]
    """What is said of the trial with the greatest extent."""


def _counted(
    number: Callable[[TrialResult], int | None],
    *,
    none: str,
    never: str,
    worst: Callable[[int], str],
) -> _Observation:
    """Return the observation of a number that is not zero; `None`: the trial cannot tell."""

    def seen(trial: TrialResult) -> bool | None:
        counted = number(trial)
        return None if counted is None else counted > 0

    def extent(trial: TrialResult) -> int:
        return number(trial) or 0

    return _Observation(seen, extent, none, never, lambda trial: worst(extent(trial)))


def _lost(trial: TrialResult) -> int:
    return trial.lost[0] if trial.lost else 0


_OBSERVATIONS: Final = (
    _Observation(
        # Compaction removes records by design: there the last value of each key counts.
        seen=lambda trial: None if trial.compacted is not None else is_positive(trial.lost),
        extent=_lost,
        none="No acknowledged record was lost",
        never="lost no acknowledged record",
        worst=lambda trial: (
            f"lost up to {_lost(trial):,} of {trial.acked or 0:,} acknowledged records"
        ),
    ),
    _counted(
        lambda trial: trial.lost_values,
        none="The last value of every key was kept",
        never="kept the last value of every key",
        worst=lambda keys: f"lost the last values of up to {format_count(keys, 'key')}",
    ),
    _counted(
        lambda trial: trial.duplicates,
        none="No record was duplicated",
        never="duplicated no record",
        worst=lambda copies: f"had up to {format_count(copies, 'duplicate')}",
    ),
    _counted(
        lambda trial: trial.reordered,
        none="No record was out of order",
        never="kept the order",
        worst=lambda records: f"had up to {format_count(records, 'record')} out of order",
    ),
    _Observation(
        seen=lambda trial: (
            trial.transactions.atomicity_violations > 0 if trial.transactions else None
        ),
        extent=lambda trial: trial.transactions.atomicity_violations if trial.transactions else 0,
        none="Every transaction was visible as a whole or not at all",
        never="showed every transaction as a whole or not at all",
        worst=lambda trial: (
            "showed a transaction in part"
            if trial.transactions and trial.transactions.torn
            else "showed records that were not committed"
        ),
    ),
    _counted(
        lambda trial: trial.group_missed,
        none="The group missed no record",
        never="missed no record",
        worst=lambda records: (
            f"committed past up to {format_count(records, 'record')} that the group did not process"
        ),
    ),
    _Observation(
        seen=lambda trial: (
            None if trial.recovered_before_heal is None else not trial.recovered_before_heal
        ),
        extent=lambda trial: trial.unavailable_ms or 0,
        none="Records were accepted again before the fault was healed",
        never="accepted records again before the fault was healed",
        worst=lambda trial: (
            "accepted no records until the fault was healed, for up to "
            f"{(trial.unavailable_ms or 0) / 1000:,.1f} s"
        ),
    ),
)


@dataclass(frozen=True)
class Clause:
    """What is said of some cells."""

    subject: str
    """The cells: `acks=all`. Empty: the predicate is a sentence."""
    predicate: str


@dataclass(frozen=True)
class Sentence:
    """One sentence of the answer."""

    clauses: tuple[Clause, ...]
    fault: str = ""
    """The fault that it is about; empty: the whole sweep."""

    def __str__(self) -> str:
        """Return the sentence as text."""
        clauses = "; ".join(f"{one.subject} {one.predicate}".strip() for one in self.clauses)
        return f"{self.fault}: {clauses}." if self.fault else f"{clauses}."


def plain_answer(results: SweepResults) -> tuple[Sentence, ...]:
    """Return the answer: violations first, then fault by fault, how sure it is last.

    Cells without a fault and the planner's controls are not part of it.
    """
    cells = [cell for cell in results.cells if not cell.added and cell.refused is None]
    with_fault = [cell for cell in cells if fault_name(cell.cell) != NO_FAULT] or cells
    cell_trials = [
        (cell, judged) for cell in with_fault if (judged := judged_trials(results, cell))
    ]
    closing = [*_set_aside(results), *_unknown_verdicts(cells)]
    if results.harness.control_clean is False:
        return (_plain(_DIRTY_CONTROL),)
    if not cell_trials:
        return (*_violations(cells), *closing, _plain(_nothing_measured(results)))
    return (
        *_violations(cells),
        *_observations(cell_trials),
        *closing,
        _plain(_certainty(cell_trials)),
    )


def _plain(text: str) -> Sentence:
    return Sentence((Clause("", text),))


_CellTrials = tuple[CellResult, list[TrialResult]]


def _violations(cells: Sequence[CellResult]) -> Iterator[Sentence]:
    violated: dict[Guarantee, list[CellResult]] = {}
    for cell in cells:
        for judgement in cell.judgements:
            if judgement.verdict is Verdict.VIOLATED:
                violated.setdefault(judgement.guarantee, []).append(cell)
    for guarantee, where in violated.items():
        count = format_count(len(where), "cell")
        text = f"was VIOLATED: {guarantee.label}, in {count}"
        yield Sentence((Clause("A guarantee of Kafka's", text),))


def _unknown_verdicts(cells: Sequence[CellResult]) -> list[Sentence]:
    unknown = sum(
        judgement.verdict is Verdict.UNKNOWN for cell in cells for judgement in cell.judgements
    )
    if not unknown:
        return []
    return [_plain(f"{format_count(unknown, 'verdict')} {'is' if unknown == 1 else 'are'} unknown")]


def _set_aside(results: SweepResults) -> Iterator[Sentence]:
    """Yield what trials showed that count in no share; nothing if they showed nothing."""
    for trial in set_aside_trials(results):
        seen = seen_in(trial)
        if seen:
            where = f"{trial.trial_id}, which is {trial.status} ({trial.label})"
            yield _plain(f"Seen in {where}: {seen}")


def _nothing_measured(results: SweepResults) -> str:
    measured = [one for one in set_aside_trials(results) if one.attempted is not None]
    if any(trial.disturbances for trial in measured):
        return "Every trial was disturbed, or its fault did not take full effect"
    if measured:
        return "In no trial did the fault take full effect"
    return "No trial has been measured"


def _observations(cell_trials: Sequence[_CellTrials]) -> Iterator[Sentence]:
    """Yield one sentence per fault and observation, and one for all that no trial shows."""
    by_fault: dict[str, list[_CellTrials]] = {}
    for entry in sorted(cell_trials, key=lambda entry: cell_sort_key(entry[0].cell)):
        by_fault.setdefault(fault_name(entry[0].cell), []).append(entry)
    for observation in _OBSERVATIONS:
        trials = [trial for _, judged in cell_trials for trial in judged]
        known = [trial for trial in trials if observation.seen(trial) is not None]
        if known and not any(map(observation.seen, known)):
            yield _plain(f"{observation.none} ({_extent(known, trials)})")
            continue
        for fault, entries in by_fault.items():
            clauses = tuple(_clauses(observation, entries))
            if clauses:
                yield Sentence(clauses, "" if fault == NO_FAULT else fault)


def _extent(known: Sequence[TrialResult], trials: Sequence[TrialResult]) -> str:
    counted = format_count(len(trials), "trial")
    if len(known) < len(trials):
        return f"{len(known)} of {counted}; the others cannot tell"
    return counted


@dataclass(frozen=True)
class _Outcome:
    """A cell, and the trials of it that can tell whether they show an observation."""

    cell: CellResult
    known: tuple[TrialResult, ...]
    seen: tuple[TrialResult, ...]


def _clauses(observation: _Observation, entries: Sequence[_CellTrials]) -> Iterator[Clause]:
    """Yield what one fault showed: first the cells with it, with the greatest extent first.

    Cells are counted together only if all of their trials show it, or none does.
    """
    outcomes = [
        _Outcome(cell, tuple(known), tuple(trial for trial in known if observation.seen(trial)))
        for cell, judged in entries
        if (known := [trial for trial in judged if observation.seen(trial) is not None])
    ]
    always = [one for one in outcomes if len(one.seen) == len(one.known)]
    never = [one for one in outcomes if not one.seen]
    sometimes = [[one] for one in outcomes if 0 < len(one.seen) < len(one.known)]
    groups = sorted(
        (group for group in (always, *sometimes) if group),
        key=lambda group: -max(map(observation.extent, _seen(group))),
    )
    axes = _deciding_axes([*groups, never])
    for group in groups[:_MOST_CLAUSES]:
        worst = max(_seen(group), key=observation.extent)
        share_of_trials = f"{len(_seen(group))} of {format_count(len(_known(group)), 'trial')}"
        yield Clause(_names(group, axes), f"{observation.worst(worst)} ({share_of_trials})")
    if groups[_MOST_CLAUSES:]:
        more = format_count(len(groups) - _MOST_CLAUSES, "more cell")
        yield Clause(more, "showed it in some of their trials")
    if never:
        names = _names(never, axes)
        trials = format_count(len(_known(never)), "trial")
        yield Clause(
            "all others" if _LIST_SIGN in names else names, f"{observation.never} ({trials})"
        )


def _deciding_axes(groups: Sequence[Sequence[_Outcome]]) -> tuple[str, ...]:
    """Return the fewest axes whose values decide to which group a cell belongs; none for one."""
    cells = [one.cell.cell for group in groups for one in group]
    axes = [axis for axis in varying_axes(cells) if axis != FAULT_AXIS]
    return next(
        chosen
        for number in range(len(axes) + 1)
        for chosen in combinations(axes, number)
        if _decide(chosen, groups)
    )


def _decide(axes: Sequence[str], groups: Sequence[Sequence[_Outcome]]) -> bool:
    values = [
        {tuple(one.cell.cell.get(axis) for axis in axes) for one in group} for group in groups
    ]
    return all(one.isdisjoint(other) for one, other in combinations(values, 2))


def _known(group: Sequence[_Outcome]) -> list[TrialResult]:
    return [trial for one in group for trial in one.known]


def _seen(group: Sequence[_Outcome]) -> list[TrialResult]:
    return [trial for one in group for trial in one.seen]


def _names(group: Sequence[_Outcome], axes: Sequence[str]) -> str:
    """Return names that denote exactly these cells among those of one fault."""
    if not axes:
        return {1: "the cell", 2: "both cells"}.get(len(group), f"all {len(group)} cells")
    cells = [{axis: one.cell.cell.get(axis) for axis in axes} for one in group]
    names = cell_group_names([dict(cell) for cell in dict.fromkeys(map(_items, cells))], axes)
    return format_list(names) if len(names) <= _MOST_NAMES else format_count(len(group), "cell")


def _items(cell: Cell) -> tuple[tuple[str, Scalar], ...]:
    return tuple(cell.items())


def _certainty(cell_trials: Sequence[_CellTrials]) -> str:
    """Return how sure the answer is, by the cell with the fewest trials."""
    fewest = min(len(judged) for _, judged in cell_trials)
    if fewest == 1:
        return "One trial per cell shows what can happen, not how often"
    most = share(0, fewest).interval.high
    return (
        f"What happened in none of {fewest} trials of a cell may still happen in up to "
        f"{100 * most:.0f} % of them (95 % confidence)"
    )
