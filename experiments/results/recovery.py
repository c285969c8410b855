"""Whether the partitions took records again before the fault was healed. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from experiments.ledger.record import Phases
from experiments.results.rows import Row

STOPPED_NS: Final = 1_000_000_000
"""A partition that acknowledged nothing for a second, though load was due, had stopped; shorter is how a loaded cluster breathes."""


def recovered_before_heal(phases: Phases, gaps: Sequence[Row], acks: str) -> bool | None:
    """Say whether every partition that had stopped took records again before the heal.

    Args:
        phases: the trial's.
        gaps: each partition's longest time without an acknowledgement.
        acks: the producer's; with `0` no acknowledgement says that a partition took anything.

    Returns:
        `None` where it is not known: no fault, none that was healed, no partition, or acks=0.
    """
    if phases.fault_begin_ns is None or phases.fault_end_ns is None or not gaps or acks == "0":
        return None
    heal_ns = phases.fault_end_ns
    stopped = (gap for gap in gaps if gap["gap_ns"] >= STOPPED_NS)
    return not any(gap["began_ns"] < heal_ns <= gap["began_ns"] + gap["gap_ns"] for gap in stopped)
