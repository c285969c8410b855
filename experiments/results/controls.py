"""The check of the harness by a sweep's own controls: could it have seen a loss, and none else?"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from ackbench.experiments.ledger.trial_manifest import Role
from ackbench.experiments.messages.phrases import format_count
from ackbench.experiments.results.cells import cell_key
from ackbench.experiments.results.models import TrialResult
from ackbench.experiments.sweep.plan import Plan
from ackbench.experiments.verdicts.guarantees import GUARANTEES
from ackbench.experiments.verdicts.guarantees.circumstances import Circumstances
from ackbench.experiments.verdicts.guarantees.late_requests import must_tear_transactions
from ackbench.experiments.verdicts.judge import HarnessCheck, count_detections
from ackbench.experiments.verdicts.statistics import describe_share, share


def harness_check(trials: Sequence[TrialResult], must_tear: Container[str] = ()) -> HarnessCheck:
    """Return what the sealed and measured trials of the controls show about the harness.

    Args:
        trials: all trials of the sweep.
        must_tear: ids of the trials in which a late EndTxn must tear a transaction.
    """
    tearing = [trial for trial in trials if trial.judged and trial.trial_id in must_tear]
    control, positive = (_judged_trials(trials, r) for r in (Role.CONTROL, Role.POSITIVE_CONTROL))
    return HarnessCheck(
        control_clean=not any(map(control_defects, control)) if control else None,
        positive_control_lost=all(map(_lost, positive)) if positive else None,
        positive_control_torn=all(map(_torn, tearing)) if tearing else None,
        sentences=(
            f"control (no fault): {_control_result(trials, control)}",
            f"positive control (must lose): {_positive_control_result(trials, positive)}",
            *([_tearing_result(tearing)] if tearing else []),
        ),
        detections=count_detections(trial for trial in trials if trial.judged),
    )


def trials_that_must_tear(plan: Plan, circumstances: Mapping[str, Circumstances]) -> frozenset[str]:
    """Return the ids of the trials that are positive controls for atomicity.

    Args:
        plan: of the sweep.
        circumstances: of its cells, by `cell_key`.
    """
    tearing = {key for key, one in circumstances.items() if must_tear_transactions(one)}
    return frozenset(spec.trial_id for spec in plan.trials if cell_key(spec.cell) in tearing)


def control_defects(trial: TrialResult) -> dict[str, int]:
    """Return the number of each defect that a trial without a fault must not have."""
    counts = {
        guarantee.in_controls: int(guarantee.extent(trial))
        for guarantee in GUARANTEES
        if guarantee.in_controls and guarantee.is_about(trial)
    }
    if trial.fates:
        counts |= {"phantom": trial.fates.phantom, "corrupt": trial.fates.corrupt}
    return {defect: count for defect, count in counts.items() if count}


def _judged_trials(trials: Sequence[TrialResult], role: Role) -> list[TrialResult]:
    return [trial for trial in trials if trial.role is role and trial.judged]


def _lost(trial: TrialResult) -> int:
    """Return the records that were certainly lost; of a compacted topic, the lost values.

    The other absent records of a compacted topic were removed by compaction.
    """
    if trial.lost_values is not None:
        return trial.lost_values
    return trial.lost[0] if trial.lost else 0


def _torn(trial: TrialResult) -> bool:
    return trial.transactions is not None and trial.transactions.atomicity_violations > 0


def _tearing_result(tearing: Sequence[TrialResult]) -> str:
    torn = sum(map(_torn, tearing))
    result = (
        "positive control (a late EndTxn must tear transactions): torn in "
        f"{describe_share(share(torn, len(tearing)))}"
    )
    if torn == len(tearing):
        return result
    return f"{result}: it must tear in each trial, so this sweep may miss a torn transaction"


def _control_result(trials: Sequence[TrialResult], control: Sequence[TrialResult]) -> str:
    if not control:
        return (
            f"{_why_unjudged(trials, Role.CONTROL)}; "
            "unknown whether the harness itself loses or duplicates records"
        )
    defects = [
        f"{trial.trial_id}: {', '.join(f'{count:,} {defect}' for defect, count in counts.items())}"
        for trial in control
        if (counts := control_defects(trial))
    ]
    total = format_count(len(control), "trial")
    if defects:
        return (
            f"{len(defects)} of {total} not clean ({'; '.join(defects)}): the harness is at fault, "
            "and this sweep supports no verdict"
        )
    records = sum(trial.attempted or 0 for trial in control)
    return f"0 lost, 0 duplicates, 0 phantom, 0 corrupt of {records:,} records in {total}"


def _positive_control_result(trials: Sequence[TrialResult], positive: Sequence[TrialResult]) -> str:
    if not positive:
        return (
            f"{_why_unjudged(trials, Role.POSITIVE_CONTROL)}; "
            "unknown whether the harness would detect a loss"
        )
    losses = [_lost(trial) for trial in positive if _lost(trial)]
    result = f"lost acknowledged records in {describe_share(share(len(losses), len(positive)))}"
    if not losses:
        return f'{result}: this sweep would not detect a loss, so "not observed" proves nothing'
    result = f"{result}; {_range_text(losses)} records per trial"
    if len(losses) < len(positive):
        return f"{result}: it must lose in each trial, so this sweep may miss a loss"
    return result


def _why_unjudged(trials: Sequence[TrialResult], role: Role) -> str:
    statuses = sorted({trial.status.value for trial in trials if trial.role is role})
    return f"no trial could be judged ({', '.join(statuses)})" if statuses else "none was run"


def _range_text(counts: Sequence[int]) -> str:
    smallest, largest = min(counts), max(counts)
    return f"{smallest:,}" if smallest == largest else f"{smallest:,} to {largest:,}"
