"""Lesson 15: in a group each partition has one consumer, and a consumer may have several.

Every group receives all records; surplus members are idle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from experiments.lessons.finding import (
    MIN_TRIALS,
    Conclusion,
    Finding,
    FindingInput,
    describe_durations,
    describe_values,
    repeats_needed,
)
from experiments.lessons.plots import DotRow, DotsPlot
from experiments.messages.phrases import format_count
from experiments.results.models import TrialResult
from experiments.results.rows import Row

_JOINS: Final = "consumer-joins"
_LEAVES: Final = "consumer-leaves"
_CHANGES: Final = {
    _JOINS: "a member joined",
    _LEAVES: "a member left",
    "consumer-crash-before-commit": "a member crashed",
}
_NS_PER_MS: Final = 1e6
_REMARK_BY_CONCLUSION: Final = {
    Conclusion.SUPPORTED: (
        "All five statements hold. What they omit: a change of the group costs time, and records "
        "are processed again."
    ),
    Conclusion.PARTLY_SUPPORTED: "Not all five statements held in every trial.",
    Conclusion.REFUTED: (
        "A partition had two consumers of one group at the same time, which a consumer group is "
        "meant to exclude."
    ),
    Conclusion.INCONCLUSIVE: "Too few trials were judged.",
}


class _Trial(NamedTuple):
    """A judged trial, and the rows of its groups ordered by their number."""

    result: TrialResult
    groups: Sequence[Row]

    @property
    def fault(self) -> str:
        return str(self.result.cell["fault"])

    @property
    def protocol(self) -> str:
        return "KIP-848" if self.result.cell.get("group.protocol") == "consumer" else "classic"


class _Statement(NamedTuple):
    """One statement of the lesson."""

    text: str
    applies: Callable[[_Trial], bool]
    """Whether a trial can confirm or contradict it."""
    holds: Callable[[_Trial], bool]


def _processed_all(row: Row) -> bool:
    return bool(row["processed_records"] == row["shown_records"] and row["missed_records"] == 0)


_STATEMENTS: Final = (
    _Statement(
        "No partition was assigned to two members of a group at the same time",
        lambda _trial: True,
        lambda trial: all(row["overlap_ns"] == 0 for row in trial.groups),
    ),
    _Statement(
        "After one member had left, another one had two of the three partitions",
        lambda trial: trial.fault == _LEAVES,
        lambda trial: trial.groups[0]["max_partitions"] > 1,
    ),
    _Statement(
        "Each of the two groups processed every record",
        lambda _trial: True,
        lambda trial: len(trial.groups) > 1 and all(map(_processed_all, trial.groups)),
    ),
    _Statement(
        "The consumer without a group read every record",
        lambda trial: trial.result.missed is not None,
        lambda trial: trial.result.missed == 0,
    ),
    _Statement(
        "With a fourth member, one of the four was idle",
        lambda trial: trial.fault == _JOINS,
        lambda trial: trial.groups[0]["idle_members"] == 1,
    ),
)
"""The first one is what a group is there for: the claim is refuted without it."""


class _Tally(NamedTuple):
    """A statement, and in how many of the trials to which it applies it held."""

    statement: _Statement
    held: int
    of: int

    @property
    def always(self) -> bool:
        return self.held == self.of

    @property
    def sentence(self) -> str:
        held = "each" if self.always else str(self.held)
        return f"{self.statement.text}: in {held} of {format_count(self.of, 'trial')}."


def find(data: FindingInput) -> Finding:
    """Return whether each of the lesson's statements held, and what a change of the group cost."""
    trials = list(_trials(data))
    tallies = [_tally(statement, trials) for statement in _STATEMENTS]
    conclusion = _conclusion(tallies)
    sentences = [tally.sentence for tally in tallies if tally.of]
    return Finding(
        lesson=data.lesson,
        conclusion=conclusion,
        sentences=(*sentences, *_change_sentences(trials)) or ("No trial was judged.",),
        remark=_REMARK_BY_CONCLUSION[conclusion],
        repeats_needed=repeats_needed(conclusion),
        plot=_plot(trials),
    )


def _trials(data: FindingInput) -> Iterator[_Trial]:
    rows = data.rows("groups")
    for result in data.trials():
        groups = sorted(rows.get(result.trial_id, ()), key=lambda row: row["group"])
        if groups:
            yield _Trial(result, groups)


def _tally(statement: _Statement, trials: Sequence[_Trial]) -> _Tally:
    held = [statement.holds(trial) for trial in trials if statement.applies(trial)]
    return _Tally(statement, sum(held), len(held))


def _conclusion(tallies: Sequence[_Tally]) -> Conclusion:
    if min(tally.of for tally in tallies) < MIN_TRIALS:
        return Conclusion.INCONCLUSIVE
    if all(tally.always for tally in tallies):
        return Conclusion.SUPPORTED
    return Conclusion.PARTLY_SUPPORTED if tallies[0].always else Conclusion.REFUTED


def _change_sentences(trials: Sequence[_Trial]) -> Iterator[str]:
    """Yield for each change how long a partition was not processed, and what was reprocessed."""
    for fault, change in _CHANGES.items():
        affected = [trial for trial in trials if trial.fault == fault]
        if affected:
            gaps = ", ".join(
                f"{describe_durations(_gaps_ms(group))} with the {protocol} protocol"
                for protocol, group in _by_protocol(affected).items()
            )
            again = describe_values([trial.groups[0]["redelivered_reads"] for trial in affected])
            yield (
                f"When {change}, a partition was not processed for {gaps}; "
                f"records processed again: {again}."
            )


def _by_protocol(trials: Sequence[_Trial]) -> dict[str, list[_Trial]]:
    groups: dict[str, list[_Trial]] = {}
    for trial in trials:
        groups.setdefault(trial.protocol, []).append(trial)
    return dict(sorted(groups.items(), reverse=True))


def _gaps_ms(trials: Sequence[_Trial]) -> list[float]:
    return [trial.groups[0]["processing_gap_ns"] / _NS_PER_MS for trial in trials]


def _plot(trials: Sequence[_Trial]) -> DotsPlot:
    rows = [
        DotRow(
            name=f"{change}, {protocol} protocol",
            values=tuple(gap_ms / 1000 for gap_ms in _gaps_ms(group)),
        )
        for fault, change in _CHANGES.items()
        for protocol, group in _by_protocol(
            [trial for trial in trials if trial.fault == fault]
        ).items()
    ]
    return DotsPlot(
        caption="Longest time in which the group processed nothing of a partition, one dot per "
        "trial",
        label="seconds",
        rows=tuple(rows),
    )
