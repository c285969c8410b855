"""Lesson 3: more replicas, more survivors.

Measures how many broker crashes a replication factor survives: for reads, for writes, and for
records that were acknowledged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from experiments.ledger.result_tables import OutageStep, Side
from experiments.lessons.finding import (
    MIN_TRIALS,
    Conclusion,
    Finding,
    FindingInput,
    repeats_needed,
)
from experiments.lessons.plots import ShareDot, SharesPlot
from experiments.messages.phrases import format_count
from experiments.results.models import CellResult, TrialResult
from experiments.results.outages import observed_times_ns, steps_by_partition
from experiments.verdicts.statistics import Share, describe_share, share

_TARGET: Final = 0
"""The partition whose brokers crash."""
_NS_PER_S: Final = 1e9
_REMARK_BY_CONCLUSION: Final = {
    Conclusion.SUPPORTED: "Every partition survived as many broker crashes as it has followers.",
    Conclusion.PARTLY_SUPPORTED: (
        "Replication factor n survives n - 1 broker crashes for reads, and n - min.insync.replicas "
        "for writes with acks=all. Acknowledged records came back with the brokers: a crashed "
        "process leaves its files behind."
    ),
    Conclusion.REFUTED: (
        "A partition did not survive crashes that its replicas should have covered."
    ),
    Conclusion.INCONCLUSIVE: (
        "Too few trials were judged, or the crashed brokers restarted before the others had taken "
        "over: increase fault.restart_after_s."
    ),
}


@dataclass(frozen=True)
class _Outcome:
    """One trial before the crashed brokers restarted."""

    readable: bool
    """Another broker led the partition."""
    writable: bool
    """The topic accepted records."""
    lost: bool | None
    """Whether acknowledged records were lost; None: unknown."""


@dataclass(frozen=True)
class _Case:
    """A replication factor, a minimum, and how many brokers of one partition crashed."""

    replicas: int
    minimum: int
    crashed: int
    outcomes: tuple[_Outcome, ...]

    @property
    def topic(self) -> str:
        return f"replication factor {self.replicas} and min.insync.replicas={self.minimum}"

    @property
    def name(self) -> str:
        return f"RF {self.replicas}, min.insync.replicas {self.minimum}, {self.crashed} crashed"

    @property
    def readable(self) -> Share:
        return share(sum(one.readable for one in self.outcomes), len(self.outcomes))

    @property
    def writable(self) -> Share:
        return share(sum(one.writable for one in self.outcomes), len(self.outcomes))

    @property
    def as_expected(self) -> int:
        """Number of trials as theory predicts.

        The partition is readable while one replica is alive, writable while the minimum is, and no
        longer.
        """
        reads = self.crashed < self.replicas
        writes = self.crashed <= self.replicas - self.minimum
        return sum(one.readable is reads and one.writable is writes for one in self.outcomes)


def find(data: FindingInput) -> Finding:
    """Return whether the partition was readable and writable, by replicas and crashes."""
    cases = sorted(
        (case for case in (_case(data, cell) for cell in data.cells()) if case.outcomes),
        key=lambda case: (case.replicas, case.minimum, case.crashed),
    )
    known = [one.lost for case in cases for one in case.outcomes if one.lost is not None]
    loss = share(sum(known), len(known))
    conclusion = _conclusion(cases, loss, planned=len(data.cells()))
    return Finding(
        lesson=data.lesson,
        conclusion=conclusion,
        lead=(
            "Several brokers of one partition crashed together. Counted is whether the partition "
            "could be read (another broker led) and written before they restarted."
        ),
        sentences=(
            *_topic_sentences(cases),
            _expectation_sentence(cases),
            f"Acknowledged records (acks=all) were lost in {describe_share(loss)}.",
        ),
        remark=_REMARK_BY_CONCLUSION[conclusion],
        repeats_needed=repeats_needed(conclusion),
        plot=SharesPlot(
            caption=(
                "Trials in which the partition could be read, and written, before the crashed "
                "brokers restarted"
            ),
            rows=tuple(
                row
                for case in cases
                for row in (
                    ShareDot(name=f"{case.name}: read", share=case.readable),
                    ShareDot(name=f"{case.name}: written", share=case.writable),
                )
            ),
        ),
    )


def _case(data: FindingInput, cell: CellResult) -> _Case:
    trials = [trial for trial in data.cell_trials(cell) if trial.recovered_before_heal is not None]
    return _Case(
        replicas=int(str(cell.cell["replication.factor"])),
        minimum=int(str(cell.cell["min.insync.replicas"])),
        crashed=max((len(trial.fault.targets) for trial in trials), default=0),
        outcomes=tuple(_outcome(data, trial) for trial in trials),
    )


def _outcome(data: FindingInput, trial: TrialResult) -> _Outcome:
    writable = bool(trial.recovered_before_heal)
    return _Outcome(
        # A partition that was written had a leader, even if the outage was too short to be seen.
        readable=writable or _elected_before_restart(data, trial),
        writable=writable,
        lost=None if trial.lost is None else trial.lost[0] > 0,
    )


def _elected_before_restart(data: FindingInput, trial: TrialResult) -> bool:
    """Return whether a leader was elected before the first crashed broker was started again."""
    steps = steps_by_partition(data.rows("outages")[trial.trial_id])
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
            f"with {format_count(case.crashed, 'crashed broker')} read in {case.readable.seen} and "
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
        "With replication factor n, reads survived n - 1 crashes, writes n - min.insync.replicas, "
        f"and neither more, in {describe_share(expected)}."
    )


def _conclusion(cases: Sequence[_Case], loss: Share, planned: int) -> Conclusion:
    """Return whether further replicas survive further crashes.

    Refuted if crashes were never survived that should have been, or records were lost. Partly
    supported if reads survived more crashes than writes.
    """
    if loss.seen or any(case.as_expected == 0 for case in cases):
        return Conclusion.REFUTED
    trials = min((len(case.outcomes) for case in cases), default=0)
    if len(cases) != planned or trials < MIN_TRIALS:
        return Conclusion.INCONCLUSIVE
    if any(case.as_expected < len(case.outcomes) for case in cases):
        return Conclusion.INCONCLUSIVE
    if any(case.writable.seen < case.readable.seen for case in cases):
        return Conclusion.PARTLY_SUPPORTED
    return Conclusion.SUPPORTED
