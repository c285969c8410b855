"""Whether a sweep's own controls say that its figures can be believed. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.judging.verdicts import HarnessCheck
from experiments.ledger.record import Role
from experiments.plurals import counted
from experiments.results.models import TrialResult
from experiments.statistics import share, words


def harness_check(trials: Sequence[TrialResult]) -> HarnessCheck:
    """Return what the sealed and measured trials of both controls showed; what no trial showed is not known."""
    control, positive = (_measured(trials, role) for role in (Role.CONTROL, Role.POSITIVE_CONTROL))
    return HarnessCheck(
        control_clean=not any(map(stains, control)) if control else None,
        positive_control_lost=any(map(_lost, positive)) if positive else None,
        sentences=(_of_control(trials, control), _of_positive_control(trials, positive)),
    )


def stains(trial: TrialResult) -> dict[str, int]:
    """Return what a trial without a fault must not have, by its word, where it has any."""
    found = {"lost": _lost(trial), "duplicates": trial.duplicates or 0}
    if trial.fates:
        found |= {"phantom": trial.fates.phantom, "corrupt": trial.fates.corrupt}
    if trial.transactions:
        found |= {"torn transactions": trial.transactions.torn, "aborted, yet shown": trial.transactions.aborted_visible}
    return {word: count for word, count in found.items() if count}


def _measured(trials: Sequence[TrialResult], role: Role) -> list[TrialResult]:
    return [trial for trial in trials if trial.role is role and trial.judged]


def _lost(trial: TrialResult) -> int:
    return trial.lost[0] if trial.lost else 0


def _of_control(trials: Sequence[TrialResult], control: Sequence[TrialResult]) -> str:
    if not control:
        return f"control (no fault): {_why_none(trials, Role.CONTROL)}, so whether the harness itself loses or repeats records is not known"
    stained = [f"{trial.trial_id}: {', '.join(f'{count:,} {word}' for word, count in stains(trial).items())}" for trial in control if stains(trial)]
    if stained:
        told = f"{len(stained)} of {counted(len(control), 'trial')} not clean ({'; '.join(stained)})"
        return f"control (no fault): {told}: the harness is at fault, judge nothing by this sweep"
    records = sum(trial.attempted or 0 for trial in control)
    return f"control (no fault): 0 lost, 0 duplicates, 0 phantom, 0 corrupt of {records:,} records in {counted(len(control), 'trial')}"


def _of_positive_control(trials: Sequence[TrialResult], positive: Sequence[TrialResult]) -> str:
    if not positive:
        return f"positive control (must lose): {_why_none(trials, Role.POSITIVE_CONTROL)}, so whether the harness would see a loss is not known"
    losing = [_lost(trial) for trial in positive if _lost(trial)]
    told = words(share(len(losing), len(positive)))
    if not losing:
        return f"positive control (must lose): lost nothing, {told}: this sweep would not see a loss, so nothing that it did not see is known"
    return f"positive control (must lose): lost acknowledged records in {told}; {_range(losing)} records a trial"


def _why_none(trials: Sequence[TrialResult], role: Role) -> str:
    ended = [trial.status.value for trial in trials if trial.role is role]
    return f"no trial of it could be judged ({', '.join(sorted(set(ended)))})" if ended else "none was run"


def _range(counts: Sequence[int]) -> str:
    least, most = min(counts), max(counts)
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"
