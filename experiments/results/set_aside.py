"""What void, incomplete and failed trials showed: they are in no share, and are never silent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from ackbench.experiments.ledger.record import SET_ASIDE
from ackbench.experiments.messages.phrases import format_list, one_line
from ackbench.experiments.results.judgements import trial_facts
from ackbench.experiments.results.models import SweepResults, TrialResult
from ackbench.experiments.verdicts.guarantees import Guarantee
from ackbench.experiments.verdicts.guarantees.atomicity import ATOMICITY
from ackbench.experiments.verdicts.guarantees.consumers_agree import CONSUMERS_AGREE
from ackbench.experiments.verdicts.guarantees.duplicates import NO_DUPLICATES
from ackbench.experiments.verdicts.guarantees.last_value_kept import LAST_VALUE_KEPT
from ackbench.experiments.verdicts.guarantees.loss import NO_ACKED_LOSS
from ackbench.experiments.verdicts.guarantees.missed_records import NO_MISSED_RECORDS
from ackbench.experiments.verdicts.guarantees.order import ORDER
from ackbench.experiments.verdicts.guarantees.read_loss import NO_READ_LOSS
from ackbench.experiments.verdicts.guarantees.reprocessing import NO_REPROCESSING
from ackbench.experiments.verdicts.judge import violations_of

_NOUNS: Final[Mapping[Guarantee, tuple[str, str]]] = {
    NO_ACKED_LOSS: ("lost record", "lost records"),
    NO_DUPLICATES: ("record with duplicates", "records with duplicates"),
    ORDER: ("record out of order", "records out of order"),
    NO_READ_LOSS: ("record received and lost", "records received and lost"),
    CONSUMERS_AGREE: ("record received in conflict", "records received in conflict"),
    LAST_VALUE_KEPT: ("lost last value", "lost last values"),
    ATOMICITY: ("violation of atomicity", "violations of atomicity"),
    NO_MISSED_RECORDS: (
        "record missed by the group",
        "records missed by the group",
    ),
    NO_REPROCESSING: ("record processed again", "records processed again"),
}
"""Singular and plural of what violates a guarantee."""


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
    return format_list([f"{count:,} {_NOUNS[one][count != 1]}" for one, count in found.items()])
