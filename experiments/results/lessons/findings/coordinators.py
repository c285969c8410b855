"""Lesson 4: ZooKeeper coordinates the cluster, KRaft replaces it.

Measures what a failover costs under each of them, also when the coordinator itself crashes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ackbench.experiments.ledger.result_terms import MIN_OUTAGE_NS
from ackbench.experiments.messages.phrases import format_count, format_list
from ackbench.experiments.results.lessons.criterion import conclude, outcome
from ackbench.experiments.results.lessons.finding import (
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
from ackbench.experiments.results.lessons.plots import DotRow, DotsPlot
from ackbench.experiments.results.models import CellResult, TrialResult
from ackbench.experiments.verdicts.statistics import Share, describe_share

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
    partitions: int
    trials: tuple[TrialResult, ...]

    @property
    def crashed(self) -> str:
        return _CRASHED.get(self.fault, self.fault)

    @property
    def cluster(self) -> str:
        return f"Kafka {self.version} with {_NAMES.get(self.coordination, self.coordination)}"

    @property
    def is_kraft(self) -> bool:
        return self.coordination != _ZOOKEEPER

    @property
    def loss(self) -> Share:
        return share_with_loss(self.trials)

    @property
    def has_enough_trials(self) -> bool:
        return min(self.recovered.of, self.loss.of) >= MIN_TRIALS

    @property
    def unavailable_ms(self) -> list[float]:
        return unavailable_ms(self.trials)

    @property
    def recovered(self) -> Share:
        """Trials in which records were acknowledged before the crashed process restarted."""
        return share_recovered_before_heal(self.trials)

    @property
    def never_recovered(self) -> bool:
        return self.recovered.of >= MIN_TRIALS and not self.recovered.seen

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
            *_maximum_sentence(cases),
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
                    name=f"{case.crashed} crashes, {case.cluster}"
                    + (f", {format_count(case.partitions, 'partition')}" if _vary(cases) else ""),
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
        partitions=int(str(cell.cell.get("partitions", 1))),
        trials=tuple(data.cell_trials(cell)),
    )


def _failover_sentences(cases: Sequence[_Case]) -> Iterator[str]:
    """Yield one sentence per crashed process and number of partitions."""
    for fault, partitions in dict.fromkeys((case.fault, case.partitions) for case in cases):
        alike = [case for case in cases if (case.fault, case.partitions) == (fault, partitions)]
        durations = [
            f"{describe_durations(case.unavailable_ms)} on {case.cluster}" for case in alike
        ]
        topic = f", with {format_count(partitions, 'partition')}" if _vary(cases) else ""
        yield (
            f"When the {alike[0].crashed} crashed{topic}, no record was acknowledged for "
            f"{format_list(durations)}."
        )


def _vary(cases: Sequence[_Case]) -> bool:
    """Return whether the cases differ in the number of partitions."""
    return len({case.partitions for case in cases}) > 1


def _maximum_sentence(cases: Sequence[_Case]) -> Iterator[str]:
    """Yield what a figure over more partitions is."""
    if _vary(cases):
        yield (
            "Each time is that of the partition that waited longest: with more partitions it is a "
            "maximum over more of them."
        )


def _recovery_sentence(cases: Sequence[_Case]) -> str:
    shares = [case.recovered for case in cases]
    recovered, trials = sum(one.seen for one in shares), sum(one.of for one in shares)
    return (
        "Records were acknowledged again before the crashed process restarted in "
        f"{recovered} of {trials} trials."
    )


def _conclusion(cases: Sequence[_Case], planned: int) -> Conclusion:
    """Return whether KRaft fails over, and keeps records, wherever ZooKeeper does.

    Cases are compared that crash the same process with the same number of partitions.
    """
    pairs = [
        (kraft, zookeeper)
        for kraft in cases
        if kraft.is_kraft
        for zookeeper in cases
        if not zookeeper.is_kraft
        and (zookeeper.fault, zookeeper.partitions) == (kraft.fault, kraft.partitions)
    ]
    measured = (
        bool(pairs)
        and len(cases) == planned
        and all(
            case.has_enough_trials and case.always_recovered and not case.loss.seen
            for case in cases
        )
    )
    comparable = [
        kraft
        for kraft, zookeeper in pairs
        if zookeeper.has_enough_trials and zookeeper.always_recovered and not zookeeper.loss.seen
    ]
    return conclude(
        [
            outcome(met=any(one.never_recovered for one in comparable), measured=measured),
            outcome(met=any(one.loss.seen for one in comparable), measured=measured),
        ]
    )


def _remark(conclusion: Conclusion, cases: Sequence[_Case]) -> str:
    if conclusion is Conclusion.REFUTED:
        return "KRaft lost acknowledged records, or did not fail over, where ZooKeeper did neither."
    if conclusion is Conclusion.INCONCLUSIVE:
        return (
            "Too few trials were judged, or the crashed process restarted before another one had "
            "taken over: increase fault.restart_after_s."
        )
    remark = (
        "KRaft failed over wherever ZooKeeper did, and lost no acknowledged record, without a "
        f"second system.{_time_remark(cases)}"
    )
    of_leader = [case for case in cases if case.fault == _ZOOKEEPER_LEADER]
    if of_leader and all(
        gap_ms < _STOPPED_MS for case in of_leader for gap_ms in case.unavailable_ms
    ):
        remark += (
            " ZooKeeper elects the controller, a broker, and the controller elects the partition "
            "leaders: producers did not notice the crash of the ZooKeeper leader."
        )
    return remark


def _time_remark(cases: Sequence[_Case]) -> str:
    """Return where the times do not overlap; they are compared within one Kafka version."""
    longer: dict[str, list[str]] = {"KRaft": [], "ZooKeeper": []}
    for kraft in cases:
        for zookeeper in cases:
            alike = (
                kraft.is_kraft
                and not zookeeper.is_kraft
                and (kraft.version, kraft.fault, kraft.partitions)
                == (zookeeper.version, zookeeper.fault, zookeeper.partitions)
            )
            if not alike:
                continue
            name = f"{kraft.crashed} crash, {format_count(kraft.partitions, 'partition')}"
            if min(kraft.unavailable_ms) > max(zookeeper.unavailable_ms):
                longer["KRaft"].append(name)
            elif min(zookeeper.unavailable_ms) > max(kraft.unavailable_ms):
                longer["ZooKeeper"].append(name)
    texts = [
        f" Every trial with {coordinator} took longer than every one with the other in these "
        f"cases: {'; '.join(names)}."
        for coordinator, names in longer.items()
        if names
    ]
    return "".join(texts)
