"""The answer of a sweep in plain sentences: what was lost, duplicated and out of order, and where.

Each observation is reported by the axis that separates the cells with it from those without it
best. A sentence says what the trials showed; what Kafka guarantees is said by the verdicts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from experiments.ledger.record import Scalar
from experiments.messages.phrases import format_count, format_list
from experiments.results.cells import cell_sort_key, judged_trials
from experiments.results.models import CellResult, SweepResults, TrialResult
from experiments.results.wording import GUARANTEE_NAMES
from experiments.sweep.cell_names import (
    CORE_AXES,
    FAULT_AXIS,
    NO_FAULT,
    axes_by_fault,
    fault_name,
    setting_text,
)
from experiments.verdicts.contract import Guarantee
from experiments.verdicts.judge import Verdict, shows_loss
from experiments.verdicts.statistics import share

_MOST_NAMES: Final = 4
"""More values of an axis than this are counted, not named."""
_MOST_CLAUSES: Final = 4
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
    setting: str | None = None
    """The setting with which Kafka prevents it: it tells the cells apart if one value never shows
    it, even if another axis does so better."""


def _counted(
    number: Callable[[TrialResult], int | None],
    *,
    none: str,
    never: str,
    worst: Callable[[int], str],
    setting: str | None = None,
) -> _Observation:
    """Return the observation of a number that is not zero; `None`: the trial cannot tell."""

    def seen(trial: TrialResult) -> bool | None:
        counted = number(trial)
        return None if counted is None else counted > 0

    def extent(trial: TrialResult) -> int:
        return number(trial) or 0

    return _Observation(seen, extent, none, never, lambda trial: worst(extent(trial)), setting)


def _lost(trial: TrialResult) -> int:
    return trial.lost[0] if trial.lost else 0


_OBSERVATIONS: Final = (
    _Observation(
        # Compaction removes records by design: there the last value of each key counts.
        seen=lambda trial: None if trial.compacted is not None else shows_loss(trial.lost),
        extent=_lost,
        none="No acknowledged record was lost",
        never="lost no acknowledged record",
        worst=lambda trial: (
            f"lost up to {_lost(trial):,} of {trial.acked or 0:,} acknowledged records"
        ),
        setting="acks",
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
        setting="enable.idempotence",
    ),
    _counted(
        lambda trial: trial.reordered,
        none="No record was out of order",
        never="kept the order",
        worst=lambda records: f"had up to {format_count(records, 'record')} out of order",
        setting="enable.idempotence",
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
    """The cells: `acks=all`. Empty: the clause says it of the whole sweep."""
    predicate: str


@dataclass(frozen=True)
class Sentence:
    """One sentence of the answer."""

    clauses: tuple[Clause, ...]

    def __str__(self) -> str:
        """Return the sentence as text."""
        return f"{'; '.join(f'{one.subject} {one.predicate}'.strip() for one in self.clauses)}."


def plain_answer(results: SweepResults) -> tuple[Sentence, ...]:
    """Return the answer: violations first, how sure it is last.

    Cells without a fault and the planner's controls are not part of it.
    """
    cells = [cell for cell in results.cells if not cell.added and cell.refused is None]
    with_fault = [cell for cell in cells if fault_name(cell.cell) != NO_FAULT] or cells
    cell_trials = [
        (cell, judged) for cell in with_fault if (judged := judged_trials(results, cell))
    ]
    unknown = _unknown_verdicts(cells)
    if not cell_trials:
        return (*unknown, _plain("No trial has been measured"))
    if results.harness.control_clean is False:
        return (_plain(_DIRTY_CONTROL),)
    sentences = (_sentence(observation, cell_trials) for observation in _OBSERVATIONS)
    return (
        *_violations(cells),
        *filter(None, sentences),
        *unknown,
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
        text = f"was VIOLATED: {GUARANTEE_NAMES[guarantee]}, in {count}"
        yield Sentence((Clause("A guarantee of Kafka's", text),))


def _unknown_verdicts(cells: Sequence[CellResult]) -> list[Sentence]:
    unknown = sum(
        judgement.verdict is Verdict.UNKNOWN for cell in cells for judgement in cell.judgements
    )
    if not unknown:
        return []
    return [_plain(f"{format_count(unknown, 'verdict')} {'is' if unknown == 1 else 'are'} unknown")]


def _sentence(observation: _Observation, cell_trials: Sequence[_CellTrials]) -> Sentence | None:
    """Return what is said of an observation; `None` if no trial can tell."""
    trials = [trial for _, judged in cell_trials for trial in judged]
    known = [trial for trial in trials if observation.seen(trial) is not None]
    if not known:
        return None
    if not any(map(observation.seen, known)):
        counted = format_count(len(trials), "trial")
        if len(known) < len(trials):
            counted = f"{len(known)} of {counted}; the others cannot tell"
        return _plain(f"{observation.none} ({counted})")
    groups = _groups(observation, cell_trials)
    never = [group for group in groups if not any(map(observation.seen, group.trials))]
    some = sorted(
        (group for group in groups if group not in never),
        key=lambda group: max(map(observation.extent, group.trials)),
    )
    clauses = [*_never_clauses(observation, never)]
    clauses += [_some_clause(observation, group) for group in some[-_MOST_CLAUSES:]]
    return Sentence(tuple(clauses))


@dataclass(frozen=True)
class _Group:
    """The cells with one value of an axis."""

    axis: str
    value: Scalar
    trials: tuple[TrialResult, ...]
    """Those that can tell; at least one."""

    @property
    def name(self) -> str:
        if self.axis == FAULT_AXIS:
            return str(self.value)
        return setting_text(self.axis, self.value)


def _groups(observation: _Observation, cell_trials: Sequence[_CellTrials]) -> list[_Group]:
    """Return the cells by the axis whose values say most about the observation."""
    cells = [cell.cell for cell, _ in cell_trials]
    own_of_fault = axes_by_fault(cells)
    axes = [
        axis
        for axis in dict.fromkeys([*CORE_AXES, *(axis for cell in cells for axis in cell)])
        if axis not in own_of_fault and all(cell.get(axis) is not None for cell in cells)
    ]
    by_axis = [_by_value(axis, observation, cell_trials) for axis in axes]
    varying = [groups for groups in by_axis if len(groups) > 1] or by_axis[:1]
    own = [groups for groups in varying if groups[0].axis == observation.setting]
    if own and not all(any(map(observation.seen, group.trials)) for group in own[0]):
        return own[0]
    return min(varying, key=lambda groups: _impurity(observation, groups))


def _by_value(
    axis: str, observation: _Observation, cell_trials: Sequence[_CellTrials]
) -> list[_Group]:
    by_value: dict[str, tuple[Scalar, list[TrialResult]]] = {}
    for cell, judged in sorted(cell_trials, key=lambda pair: cell_sort_key(pair[0].cell)):
        value = cell.cell.get(axis)
        known = [trial for trial in judged if observation.seen(trial) is not None]
        by_value.setdefault(repr(value), (value, []))[1].extend(known)
    return [_Group(axis, value, tuple(trials)) for value, trials in by_value.values() if trials]


def _impurity(observation: _Observation, groups: Sequence[_Group]) -> float:
    """Return the mean Gini impurity of the groups, weighted by their trials.

    0: each value of the axis has the observation in all of its trials, or in none. Many values, as
    of a fault, are less telling than few, so each value costs a little.
    """
    trials = sum(len(group.trials) for group in groups)
    impurity = 0.0
    for group in groups:
        seen = sum(bool(observation.seen(trial)) for trial in group.trials) / len(group.trials)
        impurity += len(group.trials) / trials * 2 * seen * (1 - seen)
    return impurity + 0.01 * len(groups)


def _never_clauses(observation: _Observation, groups: Sequence[_Group]) -> Iterator[Clause]:
    if not groups:
        return
    trials = format_count(sum(len(group.trials) for group in groups), "trial")
    names, axis = [group.name for group in groups], groups[0].axis
    values = "faults" if axis == FAULT_AXIS else f"values of {axis}"
    named = format_list(names) if len(names) <= _MOST_NAMES else f"{len(names)} {values}"
    yield Clause(named, f"{observation.never} ({trials})")


def _some_clause(observation: _Observation, group: _Group) -> Clause:
    seen = [trial for trial in group.trials if observation.seen(trial)]
    worst = max(seen, key=observation.extent)
    share_of_trials = f"{len(seen)} of {format_count(len(group.trials), 'trial')}"
    return Clause(group.name, f"{observation.worst(worst)} ({share_of_trials})")


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
