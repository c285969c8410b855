"""The data of the report's charts: outages split by their steps, and percentile curves."""

from __future__ import annotations

import pyarrow as pa
import pytest
from support.builders.records import a_record

from ackbench.experiments.ledger.result_terms import OutageStep
from ackbench.experiments.pages.report.percentiles import percentile_curve
from ackbench.experiments.results.outages import Outage, outages_of


def an_outage(marks: dict[OutageStep, int | None]) -> Outage:
    """Return the outage of a partition with these steps, in milliseconds after the epoch."""
    rows = [
        {
            "partition": 0,
            "side": "producer",
            "began_ns": 0,
            "longest": True,
            "step": mark,
            "at_ns": None if at is None else at * 10**6,
            "resolution_ns": None,
        }
        for mark, at in marks.items()
    ]
    (outage,) = outages_of(a_record(), rows)
    return outage


def test_an_outage_is_split_by_its_steps() -> None:
    """Each part ends at its step; the parts add up to the outage."""
    outage = an_outage(
        {
            OutageStep.LAST_BEFORE: 100,
            OutageStep.DETECTED: 150,
            OutageStep.ELECTED: 160,
            OutageStep.LEARNED: 190,
            OutageStep.FIRST_AFTER: 200,
        }
    )
    assert [(part.step, part.from_ms, part.to_ms) for part in outage.parts] == [
        (OutageStep.DETECTED, 0, 50),
        (OutageStep.ELECTED, 50, 60),
        (OutageStep.LEARNED, 60, 90),
        (OutageStep.FIRST_AFTER, 90, 100),
    ]


def test_the_time_of_an_unobserved_step_belongs_to_the_next_one() -> None:
    """Its own time is unknown."""
    outage = an_outage(
        {
            OutageStep.LAST_BEFORE: 100,
            OutageStep.DETECTED: None,
            OutageStep.ELECTED: 160,
            OutageStep.LEARNED: None,
            OutageStep.FIRST_AFTER: 200,
        }
    )
    assert [(part.step, part.to_ms) for part in outage.parts] == [
        (OutageStep.ELECTED, 60),
        (OutageStep.FIRST_AFTER, 100),
    ]


def test_a_step_out_of_order_ends_no_part() -> None:
    """Clocks with a resolution of 1 ms may contradict each other; no part is negative."""
    outage = an_outage(
        {
            OutageStep.LAST_BEFORE: 100,
            OutageStep.DETECTED: 161,
            OutageStep.ELECTED: 160,
            OutageStep.LEARNED: 190,
            OutageStep.FIRST_AFTER: 200,
        }
    )
    assert outage.out_of_order == (OutageStep.ELECTED,)
    assert [part.step for part in outage.parts] == [
        OutageStep.DETECTED,
        OutageStep.LEARNED,
        OutageStep.FIRST_AFTER,
    ]


def test_an_outage_without_an_end_lasts_until_the_trial_has_settled() -> None:
    """It is marked as not answered."""
    outage = an_outage(
        {
            OutageStep.LAST_BEFORE: 100,
            OutageStep.DETECTED: None,
            OutageStep.ELECTED: None,
            OutageStep.LEARNED: None,
            OutageStep.FIRST_AFTER: None,
        }
    )
    assert (outage.answered, outage.is_split, outage.length_ms) == (False, False, 900)


def test_a_percentile_curve_counts_every_record() -> None:
    """The last point is the largest latency."""
    rows = [
        {"from_us": 1000, "to_us": 1000, "records": 500},
        {"from_us": 2000, "to_us": 2000, "records": 499},
        {"from_us": 9000, "to_us": 9000, "records": 1},
    ]
    curve = percentile_curve("all", [pa.Table.from_pylist(rows)])
    assert curve is not None
    assert curve.records == 1000
    assert curve.rarity.tolist() == pytest.approx([1, 2, 1000, 1000])
    assert curve.latency_ms.tolist() == [1, 2, 9, 9]


def test_no_records_are_no_curve() -> None:
    """It is not a line at 0."""
    assert percentile_curve("none", []) is None
