"""The words of statements: the plain answer, and what trials that are set aside showed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Final

from ackbench.experiments.messages.phrases import format_count, format_list, one_line
from ackbench.experiments.results.models import SweepResults, TrialResult
from ackbench.experiments.results.statements import (
    CellGroup,
    CertaintyStatement,
    ControlNotCleanStatement,
    HungStatement,
    NothingMeasured,
    NotObservedStatement,
    ObservedStatement,
    SetAsideStatement,
    Statement,
    VerdictStatement,
    statements,
)
from ackbench.experiments.sweep.cell_names import NO_FAULT, cell_group_names
from ackbench.experiments.verdicts.guarantees import Guarantee
from ackbench.experiments.verdicts.judge import Verdict, violations_of
from ackbench.experiments.verdicts.statistics import share

_MOST_NAMES: Final = 3
"""More names of cells than this are counted, not listed."""
_MOST_CLAUSES: Final = 4
_LIST_SIGN: Final = " and "
_NOTHING_MEASURED: Final = {
    NothingMeasured.DISTURBED: "Every trial was disturbed, or its fault did not take full effect",
    NothingMeasured.WITHOUT_EFFECT: "In no trial did the fault take full effect",
    NothingMeasured.NOT_RUN: "No trial has been measured",
}


@dataclass(frozen=True)
class Clause:
    """A subject and its predicate."""

    subject: str
    """The cells: `acks=all`. Empty: the predicate is a sentence."""
    predicate: str


@dataclass(frozen=True)
class Sentence:
    """One sentence of the answer."""

    clauses: tuple[Clause, ...]
    fault: str = ""
    """The fault that it is about; empty: the whole sweep."""
    of_cells: bool = False
    """It says which cells showed what, as a table of the cells does."""
    counts_unknown: bool = False
    """Whether it says how many verdicts are unknown."""

    def __str__(self) -> str:
        """Return the sentence as text."""
        clauses = "; ".join(f"{one.subject} {one.predicate}".strip() for one in self.clauses)
        return f"{self.fault}: {clauses}." if self.fault else f"{clauses}."


def plain_answer(results: SweepResults) -> tuple[Sentence, ...]:
    """Return the answer in sentences, in the order of the statements.

    Verdicts that held, and observations where nothing is guaranteed, are in what the trials
    showed; unknown verdicts are counted.
    """
    stated = statements(results)
    unknown = sum(
        len(one.judged)
        for one in stated
        if isinstance(one, VerdictStatement) and one.verdict is Verdict.UNKNOWN
    )
    *others, last = (sentence for one in stated for sentence in _sentences(one))
    return (*others, *([_unknown(unknown)] if unknown else []), last)


@singledispatch
def _sentences(statement: Statement) -> Iterator[Sentence]:
    raise AssertionError(statement)  # each kind has its function below


def _plain(text: str) -> Sentence:
    return Sentence((Clause("", text),))


@_sentences.register(ControlNotCleanStatement)
def _(_statement: ControlNotCleanStatement) -> Iterator[Sentence]:
    yield _plain(
        "No conclusion is possible: records were lost or duplicated in the control, which has no "
        "fault"
    )


@_sentences.register(VerdictStatement)
def _(statement: VerdictStatement) -> Iterator[Sentence]:
    if statement.verdict is Verdict.VIOLATED:
        cells = format_count(len(statement.judged), "cell")
        text = f"was VIOLATED: {statement.guarantee.label}, in {cells}"
        yield Sentence((Clause("A guarantee of Kafka's", text),))


def _unknown(verdicts: int) -> Sentence:
    are = "is" if verdicts == 1 else "are"
    text = f"{format_count(verdicts, 'verdict')} {are} unknown"
    return Sentence((Clause("", text),), counts_unknown=True)


@_sentences.register(NotObservedStatement)
def _(statement: NotObservedStatement) -> Iterator[Sentence]:
    if statement.guarantee.answer.none:
        extent = format_count(statement.trials, "trial")
        if statement.known < statement.trials:
            extent = f"{statement.known} of {extent}; the others cannot tell"
        yield _plain(f"{statement.guarantee.answer.none} ({extent})")


@_sentences.register(ObservedStatement)
def _(statement: ObservedStatement) -> Iterator[Sentence]:
    fault = "" if statement.fault == NO_FAULT else statement.fault
    yield Sentence(tuple(_clauses(statement)), fault, of_cells=True)


def _clauses(statement: ObservedStatement) -> Iterator[Clause]:
    """Yield first the cells that showed it, with the greatest extent first."""
    answer = statement.guarantee.answer
    for group in statement.groups[:_MOST_CLAUSES]:
        worst = answer.worst(group.worst(statement.guarantee))
        share_of_trials = f"{len(group.seen)} of {format_count(len(group.known), 'trial')}"
        yield Clause(_names(group, statement.axes), f"{worst} ({share_of_trials})")
    if statement.groups[_MOST_CLAUSES:]:
        more = format_count(len(statement.groups) - _MOST_CLAUSES, "more cell")
        yield Clause(more, "showed it in some of their trials")
    if statement.never.outcomes:
        names = _names(statement.never, statement.axes)
        trials = format_count(len(statement.never.known), "trial")
        others = "all others" if _LIST_SIGN in names and not statement.unknown.outcomes else names
        yield Clause(others, f"{answer.never} ({trials})")
    if statement.unknown.outcomes:
        yield Clause(_names(statement.unknown, statement.axes), "cannot tell")


def _names(group: CellGroup, axes: Sequence[str]) -> str:
    """Return names that denote exactly these cells among those of one fault."""
    cells = [one.cell.cell for one in group.outcomes]
    if not axes:
        return {1: "the cell", 2: "both cells"}.get(len(cells), f"all {len(cells)} cells")
    chosen = dict.fromkeys(tuple((axis, cell.get(axis)) for axis in axes) for cell in cells)
    names = cell_group_names([dict(cell) for cell in chosen], axes)
    return format_list(names) if len(names) <= _MOST_NAMES else format_count(len(cells), "cell")


@_sentences.register(HungStatement)
def _(statement: HungStatement) -> Iterator[Sentence]:
    fault = "" if statement.fault == NO_FAULT else statement.fault
    hung, trials = statement.hung.seen, format_count(len(statement.hung.known), "trial")
    predicate = f"had a client that HUNG ({len(hung)} of {trials}): {hung[0].hung_clients[0]}"
    yield Sentence((Clause(_names(statement.hung, statement.axes), predicate),), fault)


@_sentences.register(SetAsideStatement)
def _(statement: SetAsideStatement) -> Iterator[Sentence]:
    trial = statement.trial
    where = f"{trial.trial_id}, which is {trial.status} ({trial.label})"
    yield _plain(f"Seen in {where}: {describe_violations(statement.violations)}")


@_sentences.register(NothingMeasured)
def _(statement: NothingMeasured) -> Iterator[Sentence]:
    yield _plain(_NOTHING_MEASURED[statement])


@_sentences.register(CertaintyStatement)
def _(statement: CertaintyStatement) -> Iterator[Sentence]:
    """Yield how sure the answer is, by the cell with the fewest trials."""
    fewest = statement.fewest_trials
    if fewest == 1:
        trials = "One trial per cell" if statement.most_trials == 1 else "A cell with one trial"
        yield _plain(f"{trials} shows what can happen, not how often")
    else:
        most = share(0, fewest).interval.high
        yield _plain(
            f"What happened in none of {fewest} trials of a cell may still happen in up to "
            f"{100 * most:.0f} % of them (95 % confidence)"
        )


def describe_set_aside(trial: TrialResult) -> str:
    """Return why a trial is set aside, and what it showed all the same, in one line."""
    reason = one_line(trial.reason or "") or "; ".join(trial.fault.evidence) or "no reason recorded"
    violations = violations_of(trial)
    return (
        f"{reason}; seen all the same: {describe_violations(violations)}" if violations else reason
    )


def describe_violations(violations: Mapping[Guarantee, int]) -> str:
    """Return what a trial showed, guaranteed or not: `346 records with duplicates`."""
    return format_list(
        [f"{count:,} {one.words.counted[count != 1]}" for one, count in violations.items()]
    )
