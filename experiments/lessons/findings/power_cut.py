"""Lesson 18: data is on disk.

Measures which acknowledged records a power cut of one node, and of all nodes, destroys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ackbench.experiments.ledger.trial_manifest import Scalar
from ackbench.experiments.lessons.criterion import conclude, outcome
from ackbench.experiments.lessons.finding import (
    MIN_TRIALS,
    Conclusion,
    Finding,
    FindingInput,
    describe_lost_records,
    repeats_needed,
    share_with_loss,
)
from ackbench.experiments.lessons.plots import ShareDot, SharesPlot
from ackbench.experiments.results.models import CellResult, TrialResult
from ackbench.experiments.verdicts.statistics import Share, describe_share

_EVERY_RECORD: Final = "1"
"""Value of `flush.messages` that syncs each record before it is acknowledged."""
_FLUSH: Final = "flush.messages=1"
_RECOVERY_POINT_CUT: Final = "recovery-point-cut"
"""Cuts the logs to the recovery points, which a broker writes once a minute.

It says nothing about a topic that syncs each record.
"""
_REMARK_BY_CONCLUSION: Final = {
    Conclusion.SUPPORTED: (
        "Records that all in-sync replicas had acknowledged were still there after the power cut."
    ),
    Conclusion.INCONCLUSIVE: "Too few trials were judged.",
}


@dataclass(frozen=True)
class _Case:
    """Which nodes lost power, and how records were acknowledged and synced."""

    all_nodes: bool
    acks: Scalar
    is_synced: bool
    trials: tuple[TrialResult, ...]

    @property
    def name(self) -> str:
        nodes = "At all nodes" if self.all_nodes else "At the leader's node only"
        synced = f" and each record synced ({_FLUSH})" if self.is_synced else ""
        return f"{nodes} with acks={self.acks}{synced}"

    @property
    def loss(self) -> Share:
        return share_with_loss(self.trials)

    @property
    def sentence(self) -> str:
        return f"{self.name} in {describe_share(self.loss)}{describe_lost_records(self.trials)}."


def find(data: FindingInput) -> Finding:
    """Return what was lost when one node lost power, and when all nodes did."""
    recovery_point = any(
        str(cell.cell["fault"]).endswith(_RECOVERY_POINT_CUT) for cell in data.cells()
    )
    cases = sorted(
        (
            case
            for case in (_case(data, cell) for cell in data.cells())
            if not (recovery_point and case.is_synced)
        ),
        key=lambda case: (case.all_nodes, str(case.acks), case.is_synced),
    )
    conclusion = _conclusion(cases)
    return Finding(
        lesson=data.lesson,
        conclusion=conclusion,
        lead=_lead(recovery_point=recovery_point) if cases else None,
        sentences=tuple(case.sentence for case in cases) or ("No trial was judged.",),
        remark=_REMARK_BY_CONCLUSION.get(conclusion) or _refuted_remark(cases),
        repeats_needed=repeats_needed(conclusion, (case.loss for case in cases)),
        plot=SharesPlot(
            caption="Trials in which acknowledged records were lost",
            rows=tuple(ShareDot(name=case.name, share=case.loss) for case in cases),
        ),
    )


def _lead(*, recovery_point: bool) -> str:
    if recovery_point:
        return (
            "When the logs were cut to the brokers' recovery points, the worst that a power cut "
            "can leave, acknowledged records were lost:"
        )
    return "When the power was cut, acknowledged records were lost:"


def _case(data: FindingInput, cell: CellResult) -> _Case:
    return _Case(
        all_nodes=str(cell.cell["fault"]).startswith("all-"),
        acks=cell.cell["acks"],
        is_synced=str(cell.cell.get("flush.messages")) == _EVERY_RECORD,
        trials=tuple(data.cell_trials(cell)),
    )


def _conclusion(cases: Sequence[_Case]) -> Conclusion:
    """Return whether acks=all kept its records, at one node and at all."""
    one, every = (
        [case.loss for case in cases if case.acks == "all" and case.all_nodes is all_nodes]
        for all_nodes in (False, True)
    )
    return conclude(
        outcome(
            met=any(loss.seen for loss in losses),
            measured=bool(losses) and min(loss.of for loss in losses) >= MIN_TRIALS,
        )
        for losses in (one, every)
    )


def _refuted_remark(cases: Sequence[_Case]) -> str:
    """Return where records with acks=all were lost, and what prevented it."""
    lost = [case for case in cases if case.acks == "all" and case.loss.seen]
    if any(not case.all_nodes for case in lost):
        return "Records with acks=all were lost in the power cut of one node."
    remark = (
        "An acknowledged record is in the memory of the brokers' operating systems, and on disk "
        "some time later: it was lost where all of them lost power at once"
    )
    kept = [case.loss for case in cases if case.all_nodes and case.is_synced]
    if kept and not any(loss.seen for loss in kept) and not any(one.is_synced for one in lost):
        remark += f", and not where each record was synced before its acknowledgement ({_FLUSH})"
    return (
        f"{remark}. Place replicas where one power cut does not reach all of them, or sync each "
        "record and pay for it."
    )
