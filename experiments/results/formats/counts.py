"""The counts that a page lists of trials and cells: those that are declared with a head."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from ackbench.experiments.ledger.quantities import TRIAL_PLACES, CellQuantities, Place
from ackbench.experiments.results.models import TrialResult
from ackbench.experiments.results.wording import UNKNOWN_TEXT, bounds_text, count_text

FATE_HEADS: Final = {
    "rejected_present": "rejected but in the log",
    "unknown_present": "unknown but in the log",
    "unknown_absent": "unknown and not in the log",
}
"""Names of the fates (`experiments.results.models.Fates`) that no count names."""
NOT_APPLICABLE: Final = "n/a"
"""In place of a count of what cannot be in such trials: members of a group without a group."""


def listed_counts(trials: Collection[TrialResult]) -> tuple[Place, ...]:
    """Return the counts of a sweep, in the declared order; of bounds the lower one's place.

    Left out is what none of its trials can have.
    """
    return tuple(
        place
        for place in TRIAL_PLACES
        if place.quantity.head
        and place.bound != "high"
        and (not _may_be_absent(place) or any(place.of(trial) is not None for trial in trials))
    )


def listed_text(place: Place, result: CellQuantities[Any], trials: Collection[TrialResult]) -> str:
    """Return a count, or bounds, as a page shows it.

    Args:
        place: of `listed_counts`.
        result: of a trial or a cell.
        trials: those that the result is of.
    """
    if place.bound:
        return bounds_text(getattr(result, place.measure))
    absent = all(place.of(trial) is None for trial in trials)
    not_applicable = _may_be_absent(place) and trials and absent
    return count_text(place.of(result), NOT_APPLICABLE if not_applicable else UNKNOWN_TEXT)


def _may_be_absent(place: Place) -> bool:
    return bool(place.quantity.null) and not place.quantity.null_is_unknown
