"""Lesson 15: in a group a partition has one consumer, and a consumer may have several; each group gets everything; who is too many is idle."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from experiments.lessons.finding import (
    LEAST_TRIALS,
    Conclusion,
    Finding,
    FindingInput,
    seconds,
    spread,
)
from experiments.lessons.plots import DotRow, DotsPlot
from experiments.messages.counts import counted
from experiments.results.models import TrialResult
from experiments.results.rows import Row

LESSON = 15
_JOINS = "consumer-joins"
_NS_PER_MS = 1e6


class _Trial(NamedTuple):
    """A judged trial and its groups' rows, the first group first."""

    result: TrialResult
    groups: Sequence[Row]


class _Sentence(NamedTuple):
    """One of the lesson's sentences, and in how many of the trials that can tell it held."""

    says: str
    held: int
    of: int

    @property
    def text(self) -> str:
        return f"{self.says}: {'in each' if self.held == self.of else f'{self.held}'} of {counted(self.of, 'trial')}."


def find(material: FindingInput) -> Finding:
    """Return whether each of the lesson's five sentences held, and what a change of the group cost."""
    rows = material.rows("groups")
    trials = [
        _Trial(trial, sorted(rows.get(trial.trial_id, ()), key=lambda row: row["group"]))
        for trial in material.trials()
    ]
    trials = [trial for trial in trials if trial.groups]
    sentences = [
        _judged(says, held, [trial for trial in trials if tells(trial)])
        for says, tells, held in _SENTENCES
    ]
    conclusion = _conclude(sentences)
    told = [sentence.text for sentence in sentences if sentence.of]
    return Finding(
        lesson=LESSON,
        conclusion=conclusion,
        sentences=(*told, *_price(trials)) or ("No trial was judged.",),
        remark=_REMARKS[conclusion],
        repeats_needed=2 * LEAST_TRIALS if conclusion is Conclusion.INCONCLUSIVE else None,
        plot=_plot(trials),
    )


def _judged(says: str, held: Callable[[_Trial], bool], trials: Sequence[_Trial]) -> _Sentence:
    return _Sentence(says, sum(map(held, trials)), len(trials))


def _has_all(row: Row) -> bool:
    return bool(row["processed_records"] == row["shown_records"] and row["missed_records"] == 0)


def _struck(fault: str) -> Callable[[_Trial], bool]:
    return lambda trial: trial.result.cell["fault"] == fault


def _any(_trial: _Trial) -> bool:
    return True


_SENTENCES: tuple[tuple[str, Callable[[_Trial], bool], Callable[[_Trial], bool]], ...] = (
    (
        "No partition was held by two members of a group at once",
        _any,
        lambda trial: all(row["overlap_ns"] == 0 for row in trial.groups),
    ),
    (
        "With one member gone another held two of the three partitions",
        _struck("consumer-leaves"),
        lambda trial: trial.groups[0]["max_partitions"] > 1,
    ),
    (
        "Each of the two groups processed every record",
        _any,
        lambda trial: len(trial.groups) > 1 and all(map(_has_all, trial.groups)),
    ),
    (
        "So did the consumer without a group",
        lambda trial: trial.result.missed is not None,
        lambda trial: trial.result.missed == 0,
    ),
    (
        "With a fourth member one of the four sat idle",
        _struck(_JOINS),
        lambda trial: trial.groups[0]["idle_members"] == 1,
    ),
)
"""What the lesson says, which trials can tell, and whether it held in one."""

_REMARKS: Mapping[Conclusion, str | None] = {
    Conclusion.SUPPORTED: "So all five sentences stand; what they leave out is that a change of the group costs time, and that records are processed again.",
    Conclusion.PARTLY_SUPPORTED: "So not each of the five sentences held each time.",
    Conclusion.REFUTED: "So a partition had two consumers of one group at the same time, which a group is there to exclude.",
    Conclusion.INCONCLUSIVE: "Too few trials were judged to tell.",
}


def _conclude(sentences: Sequence[_Sentence]) -> Conclusion:
    if min(sentence.of for sentence in sentences) < LEAST_TRIALS:
        return Conclusion.INCONCLUSIVE
    if all(sentence.held == sentence.of for sentence in sentences):
        return Conclusion.SUPPORTED
    return (
        Conclusion.REFUTED if sentences[0].held < sentences[0].of else Conclusion.PARTLY_SUPPORTED
    )


def _price(trials: Sequence[_Trial]) -> list[str]:
    """Return, by what happened and by protocol, how long a partition of the first group stood still, and what was processed again."""
    told = (
        _of_change(change, [trial for trial in trials if trial.result.cell["fault"] == fault])
        for fault, change in _CHANGES.items()
    )
    return [sentence for sentence in told if sentence]


_CHANGES = {
    _JOINS: "When one joined",
    "consumer-leaves": "When one left",
    "consumer-killed-before-commit": "When one was killed",
}


def _of_change(change: str, trials: Sequence[_Trial]) -> str | None:
    by_protocol = _by_protocol(trials)
    if not by_protocol:
        return None
    still = ", ".join(
        f"{seconds(_still_ms(of))} with the {protocol} protocol"
        for protocol, of in by_protocol.items()
    )
    again = spread([trial.groups[0]["redelivered_reads"] for trial in trials])
    return f"{change}, a partition stood still for {still}; records processed again: {again}."


def _by_protocol(trials: Sequence[_Trial]) -> dict[str, list[_Trial]]:
    found: dict[str, list[_Trial]] = {}
    for trial in trials:
        found.setdefault(_protocol(trial.result), []).append(trial)
    return dict(sorted(found.items(), reverse=True))


def _protocol(trial: TrialResult) -> str:
    return "KIP-848" if trial.cell.get("group.protocol") == "consumer" else "classic"


def _still_ms(trials: Sequence[_Trial]) -> list[float]:
    return [trial.groups[0]["processing_gap_ns"] / _NS_PER_MS for trial in trials]


def _plot(trials: Sequence[_Trial]) -> DotsPlot:
    rows = [
        DotRow(
            name=f"{change.removeprefix('When ')}, {protocol}",
            values=tuple(value / 1000 for value in _still_ms(of)),
        )
        for fault, change in _CHANGES.items()
        for protocol, of in _by_protocol(
            [trial for trial in trials if trial.result.cell["fault"] == fault]
        ).items()
    ]
    return DotsPlot(
        caption="The longest time in which nobody of the group processed a partition, a dot a trial",
        label="seconds",
        rows=tuple(rows),
    )
