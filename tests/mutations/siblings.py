"""Words of the job that are easily confused: similar columns, functions and enum members."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

FAMILIES: Final = (
    ("producer", "partition", "consumer"),
    ("seq", "offset"),
    ("intended_ns", "settled_ns", "received_ns", "sent_ns"),
    ("load_begin_ns", "load_end_ns"),
    ("fault_begin_ns", "fault_end_ns"),
    ("first_ack_ns", "last_ack_ns"),
    ("gap_ns", "minus_began_ns"),
    ("acked", "rejected", "unknown"),
    ("records", "copies", "duplicated_records"),
    ("present", "corrupt"),
    ("LOST", "DELIVERED_ONCE", "DUPLICATED"),
    ("REJECTED", "REJECTED_PRESENT"),
    ("UNKNOWN_ABSENT", "UNKNOWN_PRESENT"),
    ("PHANTOM", "CORRUPT"),
    ("BEFORE", "DURING", "AFTER"),
    ("ACK", "END_TO_END"),
    ("min", "max"),
    ("least", "greatest"),
    ("bit_or", "bit_and"),
    ("bitwiseAND", "bitwiseOR"),
    ("isNotNull", "isNull"),
    ("left_anti", "left_semi"),
    ("shiftleft", "shiftright"),
    ("first_value", "last_value"),
    ("currentRow", "unboundedPreceding"),
    ("asc", "desc"),
)
"""A mutant replaces each word by the next one of its family."""
OTHER_NAME: Final = {
    "ACKED": "REJECTED",
    "REJECTED": "UNKNOWN",
    "UNKNOWN": "ACKED",
    "PRESENT": "ABSENT",
    "ABSENT": "PRESENT",
    "min": "max",
    "max": "min",
}


def siblings_of(word: str) -> Iterator[str]:
    """Yield the words that replace a word."""
    for family in FAMILIES:
        if word in family:
            yield family[(family.index(word) + 1) % len(family)]
