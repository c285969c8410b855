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
    ("first_ns", "last_ns"),
    ("due_ns", "first_due_ns"),
    ("outcome", "reported_outcome"),
    ("values", "records"),
    ("acked", "rejected", "unknown"),
    ("records", "copies", "duplicated_records"),
    ("first_seq", "end_seq"),
    ("low", "high"),
    ("intact", "visible"),
    ("LOST", "DELIVERED_ONCE", "DUPLICATED"),
    ("REJECTED", "REJECTED_PRESENT"),
    ("UNKNOWN_ABSENT", "UNKNOWN_PRESENT"),
    ("PHANTOM", "CORRUPT"),
    ("BEFORE", "DURING", "AFTER"),
    ("ACK", "END_TO_END"),
    ("min", "max"),
    ("minimum", "maximum"),
    ("any", "all"),
    ("zeros", "ones"),
    ("left", "right"),
    ("and_", "or_"),
    ("less", "less_equal"),
    ("greater_equal", "greater"),
)
"""A mutant replaces each word by the next one of its family."""
OTHER_NAME: Final = {
    "ACKED": "REJECTED",
    "REJECTED": "UNKNOWN",
    "UNKNOWN": "ACKED",
    "ACKED_CODE": "REJECTED_CODE",
    "REJECTED_CODE": "UNKNOWN_CODE",
    "UNKNOWN_CODE": "ABORTED_CODE",
    "ABORTED_CODE": "ACKED_CODE",
    "NO_NUMBER": "NULL",
    "NULL": "NO_NUMBER",
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
