"""Lesson 2: a follower takes over very fast, almost unnoticed. How long a partition is away when its broker dies, and what that time is made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from experiments.ledger.record import Cell
from experiments.ledger.result_tables import OutageStep, Side
from experiments.lessons.finding import (
    LEAST_TRIALS,
    Conclusion,
    Finding,
    FindingInput,
    repeats_needed,
    seconds,
    seconds_of_one,
)
from experiments.lessons.plots import BarPart, BarRow, BarsPlot
from experiments.results.outages import PARTS, OutagePart, marks_of, parts_between, seen
from experiments.results.trials import STOPPED_NS

LESSON = 2
_STRUCK: Final = 0
"""The partition whose leader the fault strikes."""
_STOPPED_MS: Final = STOPPED_NS / 1e6
"""Shorter is how a loaded cluster breathes; whoever writes does not notice."""
_WHAT: Final = {
    "leader-crash": "killed",
    "leader-pause": "made to stand still",
    "leader-stop": "asked to end",
}
_SETTINGS: Final = {
    "replica.fetch.backoff.ms": "fetch backoff",
    "broker.session.timeout.ms": "session",
}
"""What a case is told apart by: the first of them that its cell has."""
_REMARKS: Final = {
    Conclusion.SUPPORTED: "So whoever writes does not notice that a broker is gone.",
    Conclusion.PARTLY_SUPPORTED: (
        "So the takeover is fast, and the noticing is not: until broker.session.timeout.ms has passed nobody knows that a broker is dead. "
        "A broker that is stopped in good order hands its partitions over before it goes; what is left to see is a follower that asks the new leader "
        "too early and waits for replica.fetch.backoff.ms."
    ),
    Conclusion.REFUTED: "So whoever writes notices, however the broker goes.",
    Conclusion.INCONCLUSIVE: "Too few trials were judged.",
}


@dataclass(frozen=True)
class _Gap:
    """How long a partition acknowledged nothing in one trial."""

    lasted_ms: float
    parts: tuple[OutagePart, ...]
    """Empty: it was not taken apart."""


@dataclass(frozen=True)
class _Case:
    """A cell, and what became of its partitions."""

    name: str
    struck: tuple[_Gap, ...]
    """The longest gaps of the partition whose leader was struck, one a trial, the shortest first."""
    followed_ms: tuple[float, ...]
    """Those of partitions that kept their leader, one for each in each trial."""

    @property
    def middle(self) -> _Gap:
        return self.struck[len(self.struck) // 2]

    @property
    def noticed(self) -> bool:
        """Whether whoever writes notices, at the median: on a busy machine a single trial may stand still by itself."""
        return median(gap.lasted_ms for gap in self.struck) >= _STOPPED_MS


def find(material: FindingInput) -> Finding:
    """Return how long the partition took nothing, by fault and session timeout, and the parts of that time."""
    cases = [
        case for case in (_case(material, cell.cell) for cell in material.cells()) if case.struck
    ]
    conclusion = _conclude(cases, len(material.cells()))
    return Finding(
        lesson=LESSON,
        conclusion=conclusion,
        sentences=(*map(_told, cases), *_told_of_others(cases)) or ("No trial was judged.",),
        remark=_REMARKS[conclusion],
        repeats_needed=repeats_needed(conclusion, ()),
        plot=BarsPlot(
            caption="The time without an acknowledgement, of each case the trial in the middle",
            label="seconds",
            rows=tuple(BarRow(name=case.name, parts=tuple(_bar(case.middle))) for case in cases),
        ),
    )


def _case(material: FindingInput, cell: Cell) -> _Case:
    trials = [
        trial.trial_id
        for trial in material.trials(
            **{name.replace(".", "__"): value for name, value in cell.items()}
        )
    ]
    gaps = {trial: dict(_gaps(material, trial)) for trial in trials}
    setting = next(
        (
            f"{name} {int(str(cell[axis])) / 1000:g} s"
            for axis, name in _SETTINGS.items()
            if cell.get(axis)
        ),
        None,
    )
    fault = str(cell["fault"])
    return _Case(
        name=_WHAT.get(fault, f"struck by {fault}") + (f" ({setting})" if setting else ""),
        struck=tuple(
            sorted(
                (of[_STRUCK] for of in gaps.values() if _STRUCK in of),
                key=lambda gap: gap.lasted_ms,
            )
        ),
        followed_ms=tuple(
            gap.lasted_ms
            for of in gaps.values()
            for partition, gap in of.items()
            if partition != _STRUCK and not _moved(gap)
        ),
    )


def _gaps(material: FindingInput, trial_id: str) -> Iterator[tuple[int, _Gap]]:
    marks = marks_of(material.rows("outages")[trial_id])
    for row in material.rows("gaps")[trial_id]:
        if row["side"] == Side.PRODUCER:
            at_ns = seen(marks.get((row["partition"], Side.PRODUCER), {}))
            whole = OutageStep.LAST_BEFORE in at_ns and OutageStep.FIRST_AFTER in at_ns
            parts = parts_between(at_ns[OutageStep.LAST_BEFORE], at_ns)[0] if whole else ()
            yield row["partition"], _Gap(row["gap_ns"] / 1e6, parts)


def _moved(gap: _Gap) -> bool:
    return any(part.mark is OutageStep.ELECTED for part in gap.parts)


def _told(case: _Case) -> str:
    """What is known of one case; its parts are those of one trial, so that they add up."""
    values = [gap.lasted_ms for gap in case.struck]
    apart = [f"{seconds_of_one(part.lasted_ms)} {PARTS[part.mark]}" for part in case.middle.parts]
    made_of = f"; in the trial in the middle {', '.join(apart)}" if len(apart) > 1 else ""
    others = (
        f"; partitions that it only followed, for {seconds_of_one(median(case.followed_ms))} at the median"
        if case.followed_ms
        else ""
    )
    return f"When its leader was {case.name} a partition took nothing for {seconds(values)}{made_of}{others}."


def _told_of_others(cases: Sequence[_Case]) -> list[str]:
    """Why partitions waited that kept their leader, where they did."""
    waited = any(case.followed_ms and median(case.followed_ms) >= _STOPPED_MS for case in cases)
    return (
        [
            "Partitions that only lost a follower waited as well, as acks=all waits for a follower that is in sync until it is taken for dead."
        ]
        if waited
        else []
    )


def _conclude(cases: Sequence[_Case], planned: int) -> Conclusion:
    """Almost unnoticed is less than a second; in part, where a broker may go that way and not in another."""
    if len(cases) < planned or min((len(case.struck) for case in cases), default=0) < LEAST_TRIALS:
        return Conclusion.INCONCLUSIVE
    noticed = {case.noticed for case in cases}
    return (
        Conclusion.PARTLY_SUPPORTED
        if len(noticed) > 1
        else Conclusion.REFUTED
        if noticed.pop()
        else Conclusion.SUPPORTED
    )


def _bar(gap: _Gap) -> Iterator[BarPart]:
    if not gap.parts:
        yield BarPart(name="not taken apart", value=gap.lasted_ms / 1000)
    for part in gap.parts:
        yield BarPart(name=PARTS[part.mark], value=part.lasted_ms / 1000)
