"""Whether partitions accepted records again before the heal."""

from __future__ import annotations

from typing import Any

import pytest

from experiments.ledger.record import Phases
from experiments.results.trials import recovered_before_heal

S = 1_000_000_000
FAULT = Phases(
    load_begin_ns=0,
    load_end_ns=10 * S,
    fault_begin_ns=2 * S,
    fault_end_ns=6 * S,
    settled_ns=10 * S,
    healthy_ns=10 * S,
)


def gap(began_s: float, lasted_s: float, partition: int = 0) -> dict[str, Any]:
    """Return a partition's longest gap; times in seconds since the start of the load."""
    return {"partition": partition, "began_ns": round(began_s * S), "gap_ns": round(lasted_s * S)}


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
