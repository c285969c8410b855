"""Whether partitions accepted records again before the heal."""

from __future__ import annotations

from typing import Any

import pytest

from ackbench.experiments.ledger.trial_manifest import Phases
from ackbench.experiments.results.trials import (
    kept_up_before_fault,
    readable_before_heal,
    recovered_before_heal,
)

S = 1_000_000_000
FAULT = Phases(
    load_begin_ns=0,
    load_end_ns=10 * S,
    fault_begin_ns=2 * S,
    fault_end_ns=6 * S,
    settled_ns=10 * S,
    healthy_ns=10 * S,
)


def gap(
    began_s: float, lasted_s: float, partition: int = 0, stalled_s: float = 0
) -> dict[str, Any]:
    """Return a gap of a partition; times in seconds since the start of the load.

    Args:
        began_s: when it began.
        lasted_s: for how long it lasted, stalls included.
        partition: the partition.
        stalled_s: for how long no producer ran within it.
    """
    return {
        "partition": partition,
        "began_ns": round(began_s * S),
        "ended_ns": round((began_s + lasted_s) * S),
        "gap_ns": round((lasted_s - stalled_s) * S),
        "stalled_ns": round(stalled_s * S),
    }


@pytest.mark.parametrize(
    ("gaps", "recovered"),
    [
        ([gap(2, 3)], True),
        ([gap(2, 4.5)], False),
        ([gap(2, 4)], False),
        ([gap(2, 3), gap(3, 4, 1)], False),
        ([gap(6.1, 3)], True),
        ([gap(0, 1.5)], True),
        ([gap(5.8, 0.9)], True),
        # Not the longest gap of the partition.
        ([gap(2, 3), gap(5.5, 2)], False),
        ([gap(2, 3), gap(6.5, 2)], True),
        # A stall explains a part of it.
        ([gap(2, 4.5, stalled_s=3.5)], False),
        ([gap(2, 3, stalled_s=2.9)], True),
        ([gap(5.8, 0.9, stalled_s=0.8)], True),
    ],
)
def test_a_partition_without_acknowledgements_until_the_heal_did_not_recover(
    gaps: list[dict[str, Any]], recovered: bool
) -> None:
    """One partition is enough.

    A gap that ends before the heal, begins after it, or lasts less than a second does not count.
    """
    assert recovered_before_heal(FAULT, gaps, "all") is recovered


@pytest.mark.parametrize(
    "gaps",
    [
        [gap(5.2, 1.4, stalled_s=1.2)],
        [gap(2, 4, stalled_s=3.1)],
        [gap(5.2, 1, stalled_s=0.1)],
        [gap(2, 3), gap(5.2, 1.4, stalled_s=1.2)],
    ],
)
def test_recovery_is_unknown_if_no_producer_ran_for_a_while_at_the_heal(
    gaps: list[dict[str, Any]],
) -> None:
    """With the stall the gap is an outage, and without it none: it hides what the partition did."""
    assert recovered_before_heal(FAULT, gaps, "all") is None


def test_an_outage_counts_though_a_stall_hides_what_another_partition_did() -> None:
    """One partition is enough."""
    gaps = [gap(5.2, 1.4, stalled_s=1.2), gap(2, 4.5, partition=1)]
    assert recovered_before_heal(FAULT, gaps, "all") is False


@pytest.mark.parametrize(
    ("phases", "gaps", "acks"),
    [
        (FAULT.model_copy(update={"fault_begin_ns": None}), [gap(2, 3)], "all"),
        (FAULT.model_copy(update={"fault_end_ns": None}), [gap(2, 3)], "all"),
        (FAULT, [], "all"),
        (FAULT, [gap(2, 3)], "0"),
    ],
)
def test_recovery_is_unknown_without_evidence(
    phases: Phases, gaps: list[dict[str, Any]], acks: str
) -> None:
    """No fault, no heal, no partition, or acks=0, where no broker acknowledges anything."""
    assert recovered_before_heal(phases, gaps, acks) is None


def reader(
    last_read_s: float | None, unread_since_s: float | None, stalled_s: float = 0
) -> dict[str, Any]:
    """Return a partition's row of `READERS`; times in seconds since the start of the load."""
    return {
        "last_read_ns": None if last_read_s is None else round(last_read_s * S),
        "unread_since_ns": None if unread_since_s is None else round(unread_since_s * S),
        "stalled_ns": round(stalled_s * S),
    }


@pytest.mark.parametrize(
    ("readers", "readable"),
    [
        ([reader(5.9, 5.95)], True),
        ([reader(5.9, None)], True),
        ([reader(2.1, 2.2)], False),
        ([reader(None, 5)], False),
        ([reader(5.9, None), reader(2.1, 3)], False),
        ([reader(2.1, None)], None),
        ([reader(2.1, 5.5)], None),
        ([reader(5, None)], None),
        ([reader(5.9, None), reader(2.1, None)], None),
        ([reader(None, None)], None),
        ([], None),
        # The consumer did not run for a while.
        ([reader(2.1, 2.2, stalled_s=2.8)], False),
        ([reader(2.1, 2.2, stalled_s=2.9)], None),
        ([reader(2.1, 2.2, stalled_s=2.9), reader(2.1, 2.2)], False),
    ],
)
def test_a_partition_whose_acknowledged_records_waited_until_the_heal_was_not_readable(
    readers: list[dict[str, Any]], readable: bool | None
) -> None:
    """One partition is enough; one that had nothing to receive tells nothing."""
    assert readable_before_heal(FAULT, readers, "all") is readable


def test_readability_is_unknown_without_evidence() -> None:
    """Without a fault, without a heal, and with acks=0."""
    rows = [reader(2.1, 2.2)]
    no_fault = FAULT.model_copy(update={"fault_begin_ns": None, "fault_end_ns": None})
    not_healed = FAULT.model_copy(update={"fault_end_ns": None})
    assert [readable_before_heal(phases, rows, "1") for phases in (no_fault, not_healed)] == [
        None,
        None,
    ]
    assert readable_before_heal(FAULT, rows, "0") is None


def test_what_was_read_before_a_short_fault_tells_nothing() -> None:
    """The last second before the heal counts from the begin of the fault."""
    short = FAULT.model_copy(update={"fault_begin_ns": round(5.5 * S)})
    assert readable_before_heal(short, [reader(5.4, None)], "all") is None
    assert readable_before_heal(short, [reader(5.6, None)], "all") is True


def slots(*records: tuple[int, int]) -> list[dict[str, int]]:
    """Return rows of `TIMELINE`, of records sent and acknowledged in each tenth of a second."""
    return [
        {"slot": slot, "sent_records": sent, "acked_records": acked}
        for slot, (sent, acked) in enumerate(records)
    ]


@pytest.mark.parametrize(
    ("acked_per_slot", "kept_up"), [(100, True), (75, True), (74, False), (0, False)]
)
def test_a_cluster_kept_up_if_it_is_less_than_half_a_second_behind_when_the_fault_begins(
    acked_per_slot: int, kept_up: bool
) -> None:
    """100 records are sent in each tenth of a second, and the fault begins after twenty of them."""
    timeline = slots(*[(100, acked_per_slot)] * 20, *[(100, 1000)] * 5)
    assert kept_up_before_fault(FAULT, timeline) is kept_up


def test_without_a_fault_nothing_has_to_be_kept_up_with() -> None:
    """And a fault in the first half of a second finds nothing that is late."""
    none = FAULT.model_copy(update={"fault_begin_ns": None})
    early = FAULT.model_copy(update={"fault_begin_ns": S // 2})
    assert kept_up_before_fault(none, slots((100, 0))) is None
    assert kept_up_before_fault(early, slots(*[(100, 0)] * 5)) is True
