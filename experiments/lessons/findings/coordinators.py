"""Lesson 4: ZooKeeper coordinates the cluster, KRaft replaces it.

Measures what a failover costs under each of them, also when the coordinator itself crashes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from experiments.lessons.finding import (
    MIN_TRIALS,
    Conclusion,
    Finding,
    FindingInput,
    describe_durations,
    repeats_needed,
    share_recovered_before_heal,
    share_with_loss,
    unavailable_ms,
)
from experiments.lessons.plots import DotRow, DotsPlot
from experiments.messages.phrases import format_list
from experiments.results.models import CellResult, TrialResult
from experiments.results.trials import MIN_OUTAGE_NS
from experiments.verdicts.statistics import Share, describe_share

_ZOOKEEPER: Final = "zookeeper"
_NAMES: Final = {_ZOOKEEPER: "ZooKeeper", "kraft": "KRaft"}
_ZOOKEEPER_LEADER: Final = "zookeeper-leader-crash"
_CRASHED: Final = {
    "leader-crash": "partition leader",
    "controller-crash": "controller",
    _ZOOKEEPER_LEADER: "ZooKeeper leader",
}
"""The process that crashes, by fault."""
_STOPPED_MS: Final = MIN_OUTAGE_NS / 1e6


@dataclass(frozen=True)
class _Case:
    """A coordinator, and the process that crashed."""

    version: str
    coordination: str
    fault: str
    trials: tuple[TrialResult, ...]

    @property
    def crashed(self) -> str:
        return _CRASHED.get(self.fault, self.fault)

    @property
    def cluster(self) -> str:
        return f"Kafka {self.version} with {_NAMES.get(self.coordination, self.coordination)}"

    @property
    def unavailable_ms(self) -> list[float]:
        return unavailable_ms(self.trials)

    @property
    def recovered(self) -> Share:
        """Trials in which records were acknowledged before the crashed process restarted."""
        return share_recovered_before_heal(self.trials)

    @property
    def always_recovered(self) -> bool:
        return self.recovered.seen == self.recovered.of


def find(data: FindingInput) -> Finding:
    """Return how long each coordinator's failover took, by crashed process, and what was lost."""
    cases = [case for case in (_case(data, cell) for cell in data.cells()) if case.unavailable_ms]
    loss = share_with_loss([trial for case in cases for trial in case.trials])
    conclusion = _conclusion(cases, planned=len(data.cells()))
    return Finding(
        lesson=data.lesson,
        conclusion=conclusion,
        sentences=(
            *_failover_sentences(cases),
            _recovery_sentence(cases),
            f"Acknowledged records (acks=all) were lost in {describe_share(loss)}.",
        ),
        remark=_remark(conclusion, cases),
        repeats_needed=repeats_needed(conclusion),
        plot=DotsPlot(
            caption="Longest time without an acknowledgement, one dot per trial",
            label="seconds",
            rows=tuple(
                DotRow(
                    name=f"{case.crashed} crashes, {case.cluster}",
                    values=tuple(gap_ms / 1000 for gap_ms in case.unavailable_ms),
                )
                for case in cases
            ),
        ),
    )


def _case(data: FindingInput, cell: CellResult) -> _Case:
    return _Case(
        version=str(cell.cell["kafka.version"]),
        coordination=str(cell.cell["coordination"]),
        fault=str(cell.cell["fault"]),
        trials=tuple(data.cell_trials(cell)),
    )


def _failover_sentences(cases: Sequence[_Case]) -> Iterator[str]:
    """Yield one sentence per crashed process, which compares the coordinators."""
    for fault in dict.fromkeys(case.fault for case in cases):
        of_fault = [case for case in cases if case.fault == fault]
        durations = [
            f"{describe_durations(case.unavailable_ms)} on {case.cluster}" for case in of_fault
        ]
        yield (
            f"When the {of_fault[0].crashed} crashed, no record was acknowledged for "
            f"{format_list(durations)}."
        )


def _recovery_sentence(cases: Sequence[_Case]) -> str:
    shares = [case.recovered for case in cases]
    recovered, trials = sum(one.seen for one in shares), sum(one.of for one in shares)
    return (
        "Records were acknowledged again before the crashed process restarted in "
        f"{recovered} of {trials} trials."
    )


def _conclusion(cases: Sequence[_Case], planned: int) -> Conclusion:
    """Return whether KRaft fails over as ZooKeeper does.

    Refuted if KRaft lost acknowledged records, or never failed over where ZooKeeper always did.
    """
    kraft = [case for case in cases if case.coordination != _ZOOKEEPER]
    zookeeper = [case for case in cases if case.coordination == _ZOOKEEPER]
    if any(share_with_loss(case.trials).seen for case in kraft):
        return Conclusion.REFUTED
    if (
        len(cases) < planned
        or not kraft
        or not zookeeper
        or min(case.recovered.of for case in cases) < MIN_TRIALS
    ):
        return Conclusion.INCONCLUSIVE
    if all(case.always_recovered for case in cases):
        return Conclusion.SUPPORTED
    never = any(case.recovered.seen == 0 for case in kraft)
    if never and all(case.always_recovered for case in zookeeper):
        return Conclusion.REFUTED
    return Conclusion.INCONCLUSIVE


def _remark(conclusion: Conclusion, cases: Sequence[_Case]) -> str:
    if conclusion is Conclusion.REFUTED:
        return "KRaft lost acknowledged records, or did not fail over where ZooKeeper did."
    if conclusion is Conclusion.INCONCLUSIVE:
        return (
            "Too few trials were judged, or the crashed process restarted before another one had "
            "taken over: increase fault.restart_after_s."
        )
    remark = "KRaft fails over as ZooKeeper does, without a second system."
    unnoticed = all(
        gap_ms < _STOPPED_MS
        for case in cases
        if case.fault == _ZOOKEEPER_LEADER
        for gap_ms in case.unavailable_ms
    )
    if unnoticed:
        remark += (
            " ZooKeeper elects the controller, a broker, and the controller elects the partition "
            "leaders: producers did not notice the crash of the ZooKeeper leader."
        )
    return remark
