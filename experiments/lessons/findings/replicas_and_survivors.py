"""Lesson 3: more replicas, more survivors.

Measures how many broker crashes a replication factor survives: for reads, for writes, and for
records that were acknowledged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ackbench.experiments.ledger.result_tables import OutageStep, Side
from ackbench.experiments.lessons.finding import (
    MIN_TRIALS,
    Conclusion,
    Finding,
    FindingInput,
    repeats_needed,
)
from ackbench.experiments.lessons.plots import ShareDot, SharesPlot
from ackbench.experiments.messages.phrases import format_count
from ackbench.experiments.results.models import CellResult, TrialResult
from ackbench.experiments.results.outages import observed_times_ns, steps_of_longest_gaps
from ackbench.experiments.verdicts.statistics import Share, describe_share, share

_TARGET: Final = 0
"""The partition whose brokers crash."""
_NS_PER_S: Final = 1e9
_REMARK_BY_CONCLUSION: Final = {
    Conclusion.SUPPORTED: "Every topic survived as many broker crashes as it has followers.",
    Conclusion.PARTLY_SUPPORTED: (
        "Replication factor n survives n - min.insync.replicas broker crashes, for writes with "
        "acks=all and for reads of new records alike."
    ),
    Conclusion.REFUTED: "A topic did not survive crashes that its replicas should have covered.",
    Conclusion.INCONCLUSIVE: (
        "Too few trials could tell, or the crashed brokers restarted before the clients had moved "
        "to the other brokers: increase fault.restart_after_s."
    ),
}
_HIDDEN: Final = (
    "With acks=1 the remaining leader also acknowledges records after further crashes, and hides "
    "them from consumers until min.insync.replicas are in sync again."
)


@dataclass(frozen=True)
class _Outcome:
    """One trial before the crashed brokers restarted."""

    readable: bool | None
    """Whether the consumer received what was acknowledged; `None`: nothing was acknowledged."""
    writable: bool
    """Whether the topic accepted records."""
    lost: bool | None
    """Whether acknowledged records were lost; `None`: unknown."""


@dataclass(frozen=True)
class _Case:
    """A topic, its producer's acks, and how many brokers of one partition crashed."""

    acks: str
    replicas: int
    minimum: int
    crashed: int
    outcomes: tuple[_Outcome, ...]

    @property
    def topic(self) -> str:
        return (
            f"acks={self.acks}, replication factor {self.replicas} and "
            f"min.insync.replicas={self.minimum}"
        )

    @property
    def name(self) -> str:
        return (
            f"acks={self.acks}, RF {self.replicas}, min.insync.replicas {self.minimum}, "
            f"{self.crashed} crashed"
        )

    @property
    def readable(self) -> Share | None:
        """Of the trials that can tell; `None`: there are none."""
        known = [one.readable for one in self.outcomes if one.readable is not None]
        return share(sum(known), len(known)) if known else None

    @property
    def readable_text(self) -> str:
        """In how many trials the topic was readable; a range if some cannot tell."""
        seen = sum(one.readable is True for one in self.outcomes)
        unknown = sum(one.readable is None for one in self.outcomes)
        return f"{seen} to {seen + unknown}" if unknown else str(seen)

    @property
    def writable(self) -> Share:
        return share(sum(one.writable for one in self.outcomes), len(self.outcomes))

    @property
    def enough_for_readers(self) -> bool:
        """Whether as many replicas are alive as the high watermark needs to advance."""
        return self.crashed <= self.replicas - self.minimum

    @property
    def enough_for_writers(self) -> bool:
        """Whether as many replicas are alive as an acknowledgement needs."""
        return self.enough_for_readers if self.acks == "all" else self.crashed < self.replicas

    @property
    def as_expected(self) -> int:
        """Number of trials in which nothing differs from theory; what is unknown does not."""
        return sum(
            one.readable in {self.enough_for_readers, None}
            and one.writable is self.enough_for_writers
            for one in self.outcomes
        )

    @property
    def hides(self) -> bool:
        """Whether records were acknowledged that no consumer received before the restart."""
        return any(one.writable and one.readable is False for one in self.outcomes)


def find(data: FindingInput) -> Finding:
    """Return whether the partition was readable and writable, by replicas and crashes."""
    cases = sorted(
        (case for case in (_case(data, cell) for cell in data.cells()) if case.outcomes),
        key=lambda case: (case.replicas, case.minimum, case.crashed, case.acks != "all"),
    )
    known = [
        one.lost
        for case in cases
        for one in case.outcomes
        if one.lost is not None and case.acks == "all"
    ]
    loss = share(sum(known), len(known))
    conclusion = _conclusion(cases, loss, planned=len(data.cells()))
    return Finding(
        lesson=data.lesson,
        conclusion=conclusion,
        lead=(
            "Several brokers of one partition crashed together. Counted is whether the topic "
            "accepted records before they restarted, and whether the consumer received what was "
            "acknowledged by then."
        ),
        sentences=(
            *_topic_sentences(cases),
            _expectation_sentence(cases),
            f"Acknowledged records (acks=all) were lost in {describe_share(loss)}.",
        ),
        remark=_remark(conclusion, cases),
        repeats_needed=repeats_needed(conclusion),
        plot=SharesPlot(
            caption=(
                "Trials in which the topic was read, and written, before the crashed brokers "
                "restarted"
            ),
            rows=tuple(
                row
                for case in cases
                for name, measured in (("read", case.readable), ("written", case.writable))
                if measured is not None
                for row in (ShareDot(name=f"{case.name}: {name}", share=measured),)
            ),
        ),
    )


def _remark(conclusion: Conclusion, cases: Sequence[_Case]) -> str:
    remark = _REMARK_BY_CONCLUSION[conclusion]
    hidden = any(case.hides and case.acks == "1" and not case.enough_for_readers for case in cases)
    return f"{remark} {_HIDDEN}" if hidden and conclusion is Conclusion.PARTLY_SUPPORTED else remark


def _case(data: FindingInput, cell: CellResult) -> _Case:
    trials = [trial for trial in data.cell_trials(cell) if trial.recovered_before_heal is not None]
    return _Case(
        acks=str(cell.cell.get("acks", "all")),
        replicas=int(str(cell.cell["replication.factor"])),
        minimum=int(str(cell.cell["min.insync.replicas"])),
        crashed=max((len(trial.fault.targets) for trial in trials), default=0),
        outcomes=tuple(_outcome(data, trial) for trial in trials),
    )


def _outcome(data: FindingInput, trial: TrialResult) -> _Outcome:
    writable, readable = bool(trial.recovered_before_heal), trial.readable_before_heal
    if readable is None and not writable and not _elected_before_restart(data, trial):
        readable = False  # nothing was acknowledged, and no broker led the partition
    return _Outcome(
        readable=readable,
        writable=writable,
        lost=None if trial.lost is None else trial.lost[0] > 0,
    )


def _elected_before_restart(data: FindingInput, trial: TrialResult) -> bool:
    """Return whether a leader was elected before the first crashed broker was started again."""
    steps = steps_of_longest_gaps(data.rows("outages")[trial.trial_id])
    at_ns = observed_times_ns(steps.get((_TARGET, Side.PRODUCER), {}))
    if OutageStep.ELECTED not in at_ns or OutageStep.LAST_BEFORE not in at_ns:
        return False
    restarts_s = [
        float(str(value))
        for name, value in trial.fault.parameters.items()
        if name.rpartition(".")[2] == "restart_after_s"
    ]
    elected_after_ns = at_ns[OutageStep.ELECTED] - at_ns[OutageStep.LAST_BEFORE]
    return elected_after_ns < min(restarts_s, default=0.0) * _NS_PER_S


def _topic_sentences(cases: Sequence[_Case]) -> Iterator[str]:
    """Yield one sentence per topic, its cases ordered by the number of crashes."""
    for topic in dict.fromkeys(case.topic for case in cases):
        outcomes = [
            f"with {format_count(case.crashed, 'crashed broker')} read in {case.readable_text} and "
            f"written in {case.writable.seen} of {len(case.outcomes)} trials"
            for case in cases
            if case.topic == topic
        ]
        yield f"With {topic}: {', '.join(outcomes)}."


def _expectation_sentence(cases: Sequence[_Case]) -> str:
    expected = share(
        sum(case.as_expected for case in cases), sum(len(case.outcomes) for case in cases)
    )
    return (
        "With replication factor n, reads of new records and writes with acks=all survived "
        "n - min.insync.replicas crashes, writes with acks=1 n - 1, and none of them more, in "
        f"{describe_share(expected)}."
    )


def _conclusion(cases: Sequence[_Case], loss: Share, planned: int) -> Conclusion:
    """Return whether further replicas survive further crashes.

    Refuted if crashes were never survived that should have been, or records were lost. Partly
    supported if a topic with a replica alive could not be read or written.
    """
    if loss.seen or any(case.as_expected == 0 for case in cases):
        return Conclusion.REFUTED
    trials = min((_telling_trials(case) for case in cases), default=0)
    if len(cases) != planned or trials < MIN_TRIALS:
        return Conclusion.INCONCLUSIVE
    if any(case.as_expected < len(case.outcomes) for case in cases):
        return Conclusion.INCONCLUSIVE
    if any(case.crashed < case.replicas and not case.enough_for_readers for case in cases):
        return Conclusion.PARTLY_SUPPORTED
    return Conclusion.SUPPORTED


def _telling_trials(case: _Case) -> int:
    """Return how many trials tell what is claimed of the case.

    That a topic is readable has to be seen. Where even writes are not possible, nothing new can be
    read, and the trial tells that it was not written.
    """
    if not case.enough_for_readers and not case.writable.seen:
        return len(case.outcomes)
    return case.readable.of if case.readable else 0
