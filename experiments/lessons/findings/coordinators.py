"""Lesson 4: ZooKeeper coordinates, KRaft replaces it. What a failover costs under each, and what it costs when the coordinator itself dies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from experiments.lessons.finding import (
    LEAST_TRIALS,
    Conclusion,
    Finding,
    FindingInput,
    back_before_the_heal,
    lossy,
    repeats_needed,
    seconds,
)
from experiments.lessons.plots import DotRow, DotsPlot
from experiments.messages.counts import listed
from experiments.results.cells import judged_trials
from experiments.results.models import TrialResult
from experiments.results.trials import STOPPED_NS
from experiments.verdicts.statistics import Share, words

LESSON = 4
_ZOOKEEPER: Final = "zookeeper"
_NAMES: Final = {_ZOOKEEPER: "ZooKeeper", "kraft": "KRaft"}
_WHO: Final = {
    "leader-crash": "the partition's leader",
    "controller-crash": "the controller",
    "zookeeper-leader-crash": "ZooKeeper's own leader",
}
_KEEPERS_LEADER: Final = "zookeeper-leader-crash"
_STOPPED_MS: Final = STOPPED_NS / 1e6


@dataclass(frozen=True)
class _Case:
    """A coordinator, and who died."""

    version: str
    coordination: str
    fault: str
    trials: tuple[TrialResult, ...]

    @property
    def gaps_ms(self) -> list[float]:
        """The longest time without an acknowledgement, one a trial."""
        return [trial.unavailable_ms for trial in self.trials if trial.unavailable_ms is not None]

    @property
    def came_back(self) -> Share:
        """In how many trials records were taken again before the dead process was back."""
        return back_before_the_heal(self.trials)

    @property
    def coordinator(self) -> str:
        return f"{_NAMES.get(self.coordination, self.coordination)} on {self.version}"


def find(material: FindingInput) -> Finding:
    """Return how long records were not taken under each coordinator, by who died, and whether anything was lost."""
    made = (
        _Case(
            str(cell.cell["kafka.version"]),
            str(cell.cell["coordination"]),
            str(cell.cell["fault"]),
            tuple(judged_trials(material.results, cell)),
        )
        for cell in material.cells()
    )
    cases = [case for case in made if case.gaps_ms]
    lost = lossy([trial for case in cases for trial in case.trials])
    conclusion = _conclude(cases, len(material.cells()))
    return Finding(
        lesson=LESSON,
        conclusion=conclusion,
        sentences=(*_told(cases), f"Acknowledged records (acks=all) were lost in {words(lost)}."),
        remark=_remark(conclusion, cases),
        repeats_needed=repeats_needed(conclusion, ()),
        plot=DotsPlot(
            caption="The longest time without an acknowledgement, a dot a trial",
            label="seconds",
            rows=tuple(
                DotRow(
                    name=f"{_WHO.get(case.fault, case.fault)} dies, {case.coordinator}",
                    values=tuple(gap / 1000 for gap in case.gaps_ms),
                )
                for case in cases
            ),
        ),
    )


def _told(cases: Sequence[_Case]) -> list[str]:
    """A sentence for each who died, the coordinators beside each other."""
    told = []
    for fault in dict.fromkeys(case.fault for case in cases):
        beside = [
            f"{seconds(case.gaps_ms)} with {case.coordinator}"
            for case in cases
            if case.fault == fault
        ]
        told.append(
            f"When {_WHO.get(fault, fault)} was killed, no record was taken for {listed(beside)}."
        )
    back = [case.came_back for case in cases]
    told.append(
        f"Records were taken again before the dead process was back in {sum(one.seen for one in back)} of {sum(one.of for one in back)} trials."
    )
    return told


def _conclude(cases: Sequence[_Case], planned: int) -> Conclusion:
    """It stands where KRaft fails over as ZooKeeper does; it falls where it lost what was acknowledged, or never failed over where ZooKeeper always did."""
    kraft = [case for case in cases if case.coordination != _ZOOKEEPER]
    keeper = [case for case in cases if case.coordination == _ZOOKEEPER]
    if any(lossy(case.trials).seen for case in kraft):
        return Conclusion.REFUTED
    if (
        len(cases) < planned
        or not kraft
        or not keeper
        or min(case.came_back.of for case in cases) < LEAST_TRIALS
    ):
        return Conclusion.INCONCLUSIVE
    if all(case.came_back.seen == case.came_back.of for case in cases):
        return Conclusion.SUPPORTED
    never = any(case.came_back.seen == 0 for case in kraft) and all(
        case.came_back.seen == case.came_back.of for case in keeper
    )
    return Conclusion.REFUTED if never else Conclusion.INCONCLUSIVE


def _remark(conclusion: Conclusion, cases: Sequence[_Case]) -> str:
    if conclusion is Conclusion.REFUTED:
        return "So KRaft did not do what ZooKeeper does."
    if conclusion is Conclusion.INCONCLUSIVE:
        return "Too few trials were judged, or the dead process was back before anybody else had taken its place: give it longer (fault.restart_after_s)."
    unnoticed = all(
        gap < _STOPPED_MS for case in cases if case.fault == _KEEPERS_LEADER for gap in case.gaps_ms
    )
    apart = " ZooKeeper itself chooses the controller, a broker, and that chooses the leaders: when ZooKeeper's own leader died, nobody who wrote noticed."
    return "So KRaft does what ZooKeeper did, without a second system." + (
        apart if unnoticed else ""
    )
