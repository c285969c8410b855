"""What the page's charts are drawn from: outages taken apart by their marks, latencies put together by percentile."""

from __future__ import annotations

import pytest
from support.builders.records import a_record

from experiments.ledger.result_tables import OutageStep
from experiments.report.percentiles import percentile_curve
from experiments.results.outages import Outage, outages_of


def an_outage(marks: dict[OutageStep, int | None]) -> Outage:
    """Return the outage of a partition whose marks were seen so many milliseconds after the epoch."""
    rows = [
        {
            "partition": 0,
            "side": "producer",
            "mark": mark,
            "at_ns": None if at is None else at * 10**6,
            "resolution_ns": None,
        }
        for mark, at in marks.items()
    ]
    (found,) = outages_of(a_record(), rows)
    return found


def test_an_outage_is_taken_apart_by_its_marks() -> None:
    """Each part ends at its mark; together they are the outage."""
    found = an_outage(
        {
            OutageStep.LAST_BEFORE: 100,
            OutageStep.DETECTED: 150,
            OutageStep.ELECTED: 160,
            OutageStep.LEARNED: 190,
            OutageStep.FIRST_AFTER: 200,
        }
    )
    assert [(part.step, part.from_ms, part.to_ms) for part in found.parts] == [
        (OutageStep.DETECTED, 0, 50),
        (OutageStep.ELECTED, 50, 60),
        (OutageStep.LEARNED, 60, 90),
        (OutageStep.FIRST_AFTER, 90, 100),
    ]


def test_a_mark_that_was_not_seen_gives_its_time_to_the_next_one() -> None:
    """Nobody knows where it would have been."""
    found = an_outage(
        {
            OutageStep.LAST_BEFORE: 100,
            OutageStep.DETECTED: None,
            OutageStep.ELECTED: 160,
            OutageStep.LEARNED: None,
            OutageStep.FIRST_AFTER: 200,
        }
    )
    assert [(part.step, part.to_ms) for part in found.parts] == [
        (OutageStep.ELECTED, 60),
        (OutageStep.FIRST_AFTER, 100),
    ]


def test_a_mark_out_of_its_order_ends_no_part() -> None:
    """Clocks of a millisecond contradict each other; nothing is sorted away, and no part is negative."""
    found = an_outage(
        {
            OutageStep.LAST_BEFORE: 100,
            OutageStep.DETECTED: 161,
            OutageStep.ELECTED: 160,
            OutageStep.LEARNED: 190,
            OutageStep.FIRST_AFTER: 200,
        }
    )
    assert found.out_of_order == (OutageStep.ELECTED,)
    assert [part.step for part in found.parts] == [
        OutageStep.DETECTED,
        OutageStep.LEARNED,
        OutageStep.FIRST_AFTER,
    ]


def test_an_outage_that_nothing_ended_lasts_until_all_was_settled() -> None:
    """And says that nothing ended it."""
    found = an_outage(
        {
            OutageStep.LAST_BEFORE: 100,
            OutageStep.DETECTED: None,
            OutageStep.ELECTED: None,
            OutageStep.LEARNED: None,
            OutageStep.FIRST_AFTER: None,
        }
    )
    assert (found.answered, found.is_split, found.length_ms) == (False, False, 900)


def test_a_percentile_curve_counts_every_record() -> None:
    """Half of the records below the 50th percentile, a thousandth beyond the 99.9th, and the largest at the end."""
    rows = [
        {"from_us": 1000, "to_us": 1000, "records": 500},
        {"from_us": 2000, "to_us": 2000, "records": 499},
        {"from_us": 9000, "to_us": 9000, "records": 1},
    ]
    found = percentile_curve("all", rows)
    assert found is not None
    assert found.records == 1000
    assert found.rarity.tolist() == pytest.approx([1, 2, 1000, 1000])
    assert found.latency_ms.tolist() == [1, 2, 9, 9]


def test_no_records_are_no_curve() -> None:
    """Not a line at 0."""
    assert percentile_curve("none", []) is None
