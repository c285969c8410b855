"""Lesson 15: in a group each partition has one consumer, and a consumer may have several.

Every group receives all records; surplus members are idle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from ackbench.experiments.lessons.criterion import conclude, outcome
from ackbench.experiments.lessons.finding import (
    MIN_TRIALS,
    Conclusion,
    Finding,
    FindingInput,
    describe_duration,
    describe_durations,
    describe_values,
    repeats_needed,
)
from ackbench.experiments.lessons.plots import DotRow, DotsPlot
from ackbench.experiments.messages.phrases import format_count, format_list
from ackbench.experiments.results.models import TrialResult
from ackbench.experiments.results.rows import Row
from ackbench.experiments.sweep.plan import TrialSpec

_JOINS: Final = "consumer-joins"
_LEAVES: Final = "consumer-leaves"
_PAUSE: Final = "consumer-pause"
_CHANGES: Final = {
    _JOINS: "a member joined",
    _LEAVES: "a member left",
    "consumer-crash-before-commit": "a member crashed",
    _PAUSE: "a member was paused for longer than its session",
}
_NS_PER_MS: Final = 1e6
_NS_PER_S: Final = 1e9
_REMARK_BY_CONCLUSION: Final = {
    Conclusion.SUPPORTED: "All five statements held in every trial.",
    Conclusion.REFUTED: "A statement of the lesson did not hold in a trial.",
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
    def overlap_s(self) -> float:
        """How long partitions had two members of the first group that held them, in total."""
        return float(self.groups[0]["overlap_ns"]) / _NS_PER_S

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
        "No partition was held by two members of a group that kept their session",
        lambda trial: trial.fault != _PAUSE,
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
_MAY: Final = _STATEMENTS[1]
"""Says what may happen: one trial shows it, and none refutes it."""


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
    paused = [trial for trial in trials if trial.fault == _PAUSE]
    conclusion = _conclusion(tallies, paused)
    sentences = [tally.sentence for tally in tallies if tally.of]
    return Finding(
        lesson=data.lesson,
        conclusion=conclusion,
        sentences=(
            *sentences,
            *_two_holders_sentence(paused),
            *_change_sentences(trials),
            *_session_sentence(data),
        )
        or ("No trial was judged.",),
        remark=_REMARK_BY_CONCLUSION.get(conclusion) or _partial_remark(tallies, paused),
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


def _conclusion(tallies: Sequence[_Tally], paused: Sequence[_Trial]) -> Conclusion:
    """Return whether each statement held; partly, if a paused member was a second holder."""
    must = [tally for tally in tallies if tally.statement is not _MAY]
    may = [tally for tally in tallies if tally.statement is _MAY]
    return conclude(
        [outcome(met=not tally.always, measured=tally.of >= MIN_TRIALS) for tally in must],
        [outcome(met=False, measured=tally.held > 0) for tally in may],
        limited=any(trial.overlap_s > 0 for trial in paused),
    )


def _partial_remark(tallies: Sequence[_Tally], paused: Sequence[_Trial]) -> str:
    remark = ""
    if any(trial.overlap_s > 0 for trial in paused):
        remark = (
            "A partition has one consumer as far as the group's coordinator knows. A member that "
            "is paused for longer than its session does not learn that it was removed, and goes on "
            "with its batch while another member has the partition: processing must tolerate that."
        )
    if any(tally.statement is _MAY and not tally.held for tally in tallies):
        remark += " That one member has several partitions was not observed."
    return remark.strip()


def _two_holders_sentence(paused: Sequence[_Trial]) -> Iterator[str]:
    """Yield for how long two members held a partition when one of them was paused."""
    for protocol, group in _by_protocol(paused).items():
        overlapping = [trial for trial in group if trial.overlap_s > 0]
        sentence = (
            "When a member was paused for longer than its session, it and another member held a "
            f"partition at the same time in {len(overlapping)} of "
            f"{format_count(len(group), 'trial')} with the {protocol} protocol"
        )
        if overlapping:
            overlaps_ms = [1000 * trial.overlap_s for trial in overlapping]
            sentence += f", for {describe_durations(overlaps_ms)}, summed over partitions"
        yield f"{sentence}."


def _session_sentence(data: FindingInput) -> Iterator[str]:
    """Yield the session timeouts of the trials: they are most of the time after a crash."""
    sessions_ms = {
        protocol: sorted({int(value) for trial in data.plan.trials if (value := read(trial))})
        for protocol, read in (("classic", _classic_session), ("KIP-848", _kip_848_session))
    }
    texts = [
        f"{format_list([describe_duration(value) for value in values])} with the {protocol} "
        "protocol"
        for protocol, values in sessions_ms.items()
        if values
    ]
    if texts:
        yield (
            f"The session timeout was {format_list(texts)}; Kafka's default is 45 s. A member that "
            "crashes is noticed only after it."
        )


def _classic_session(trial: TrialSpec) -> str | None:
    return None if _is_kip_848(trial) else trial.consumer.get("session.timeout.ms")


def _kip_848_session(trial: TrialSpec) -> str | None:
    key = "group.consumer.session.timeout.ms"
    return trial.cluster.broker.get(key) if _is_kip_848(trial) else None


def _is_kip_848(trial: TrialSpec) -> bool:
    return trial.cell.get("group.protocol") == "consumer"


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
