"""The counts of a sweep's page: what was counted, what is unknown, and what cannot be."""

from collections import Counter
from typing import Any

import pytest

from ackbench.experiments.ledger.quantities import TRIAL_PLACES, CopyCounts
from ackbench.experiments.ledger.trial_manifest import Role, Status
from ackbench.experiments.pages.report.trials import _facts
from ackbench.experiments.results.formats.counts import listed_counts, listed_text
from ackbench.experiments.results.models import FaultResult, TrialResult
from ackbench.experiments.verdicts.guarantees import GUARANTEES, Guarantee


def a_trial(**counts: Any) -> TrialResult:
    """Return a sealed trial in which nothing happened, but for some counts."""
    measured = {"attempted": 10, "acked": 10, "rejected": 0, "unknown": 0, "lost": (0, 0)}
    return TrialResult(
        trial_id="000-a",
        cell={},
        label="",
        role=Role.CELL,
        repeat=0,
        status=Status.SEALED,
        fault=FaultResult(kind="leader-crash"),
        **{**measured, "duplicates": 0, "missed": 0, **counts},
    )


def facts_of(trial: TrialResult, *others: TrialResult) -> dict[str, str]:
    """Return what the page says of a trial of a sweep."""
    return dict(_facts(listed_counts([trial, *others]), trial))


def test_each_count_has_a_head_of_its_own() -> None:
    """A table has a column for each."""
    heads = Counter(one.quantity.head for one in TRIAL_PLACES if one.bound != "high")
    assert [head for head, count in heads.items() if head and count > 1] == []


@pytest.mark.parametrize("guarantee", [one for one in GUARANTEES if not one.of_time], ids=str)
def test_the_count_of_each_guarantee_is_listed(guarantee: Guarantee) -> None:
    """A new one is not forgotten where trials are shown."""
    counted = {"atomicity_violations": {"transactions_torn", "transactions_aborted_visible"}}.get(
        guarantee.figure, {guarantee.figure}
    )
    assert counted <= {place.measure for place in TRIAL_PLACES if place.quantity.head}


def test_what_no_trial_of_a_sweep_can_have_is_not_listed() -> None:
    """Without a consumer group nothing was missed by one, and nothing is unknown of it."""
    facts = facts_of(a_trial())
    assert not [text for text in facts.values() if "group" in text or "copied" in text]
    assert (facts["none"], facts["acked"]) == (
        "rejected; unknown; lost; duplicates; missed by the consumer",
        "10",
    )
    assert "reordered" in facts["unknown"].split("; ")  # a trial always has it


def test_a_count_that_a_sweeps_other_trials_have_is_neither_zero_nor_unknown() -> None:
    """Its positive control has no group."""
    grouped, control = a_trial(group_missed=330, group_redelivered=0), a_trial()
    assert facts_of(grouped, control)["missed by the group"] == "330"
    assert not [text for text in facts_of(control, grouped).values() if "group" in text]
    places = {place.measure: place for place in listed_counts([grouped, control])}
    place = places["group_missed"]
    assert listed_text(place, control, [control]) == "n/a"
    assert listed_text(place, control, []) == "unknown"  # no trial of the cell was measured
    assert listed_text(place, control, [control, grouped]) == "unknown"


def test_what_the_consumer_did_not_read_to_the_end_is_unknown() -> None:
    """There was something to count."""
    assert "missed by the consumer" in facts_of(a_trial(missed=None))["unknown"].split("; ")


def test_what_copiers_missed_and_repeated_is_listed() -> None:
    """A trial's facts had the lost and the hidden copies alone."""
    copies = CopyCounts(copied=1_670, missed=330, output_lost=0, repeated=7, hidden=0)
    facts = facts_of(a_trial(copies=copies))
    assert (facts["missed by the copiers"], facts["copied more than once"]) == ("330", "7")


def test_bounds_of_the_lost_records_are_a_range() -> None:
    """The upper one adds absent records of unknown outcome."""
    assert facts_of(a_trial(lost=(2, 5)))["lost"] == "2 to 5"
