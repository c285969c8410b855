"""What void, incomplete and failed trials showed: they are in no share, and are never silent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ackbench.experiments.ledger.trial_manifest import SET_ASIDE
from ackbench.experiments.messages.phrases import format_list, one_line
from ackbench.experiments.results.models import SweepResults, TrialResult
from ackbench.experiments.verdicts.guarantees import Guarantee
from ackbench.experiments.verdicts.judge import violations_of


def set_aside_trials(results: SweepResults) -> Iterator[TrialResult]:
    """Yield the void, incomplete and failed trials, by id."""
    return (trial for trial in results.trials if trial.status in SET_ASIDE)


def describe_set_aside(trial: TrialResult) -> str:
    """Return why a trial is set aside, and what it showed all the same, in one line."""
    reason = one_line(trial.reason or "") or "; ".join(trial.fault.evidence) or "no reason recorded"
    violations = violations_of(trial)
    return (
        f"{reason}; seen all the same: {describe_violations(violations)}" if violations else reason
    )


def describe_violations(violations: Mapping[Guarantee, int]) -> str:
    """Return what a trial showed, guaranteed or not: `346 records with duplicates`."""
    return format_list(
        [f"{count:,} {one.words.counted[count != 1]}" for one, count in violations.items()]
    )
