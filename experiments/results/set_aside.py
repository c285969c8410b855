"""What void, incomplete and failed trials showed: they are in no share, and are never silent."""

from __future__ import annotations

from collections.abc import Iterator

from ackbench.experiments.ledger.trial_manifest import SET_ASIDE
from ackbench.experiments.messages.phrases import format_list, one_line
from ackbench.experiments.results.judgements import trial_facts
from ackbench.experiments.results.models import SweepResults, TrialResult
from ackbench.experiments.verdicts.judge import violations_of


def set_aside_trials(results: SweepResults) -> Iterator[TrialResult]:
    """Yield the void, incomplete and failed trials, by id."""
    return (trial for trial in results.trials if trial.status in SET_ASIDE)


def describe_set_aside(trial: TrialResult) -> str:
    """Return why a trial is set aside, and what it showed all the same, in one line."""
    reason = one_line(trial.reason or "") or "; ".join(trial.fault.evidence) or "no reason recorded"
    seen = seen_in(trial)
    return f"{reason}; seen all the same: {seen}" if seen else reason


def seen_in(trial: TrialResult) -> str:
    """Return what a trial showed, guaranteed or not: `346 records with duplicates`, or nothing."""
    found = violations_of(trial_facts(trial, {}))
    return format_list(
        [f"{count:,} {one.words.counted[count != 1]}" for one, count in found.items()]
    )
