"""Why records were lost, duplicated, reordered or missed, in sentences.

The input is rows of the table `attribution`: groups of records with the same anomaly, partition,
leader, epoch and cause. `experiments.ledger.result_tables.ATTRIBUTION` describes its columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ackbench.experiments.ledger.result_terms import Anomaly, Cause, Phase
from ackbench.experiments.messages.phrases import format_count, format_list
from ackbench.experiments.results.rows import Row


@dataclass(frozen=True)
class AttributionRow:
    """One row of `experiments.ledger.result_tables.ATTRIBUTION`; that schema has the meanings."""

    trial_id: str
    kind: str
    partition: int | None
    phase: str | None
    leader: int | None
    leader_epoch: int | None
    isr: str | None
    cause: str
    truncated_to: int | None
    truncated_by: int | None
    records: int
    first_offset: int | None
    last_offset: int | None
    first_at_ns: int | None
    last_at_ns: int | None


_NOUNS: Final[Mapping[Anomaly, tuple[str, str]]] = {
    Anomaly.LOST: ("lost record", "lost records"),
    Anomaly.DUPLICATED: ("duplicate", "duplicates"),
    Anomaly.REORDERED: ("out-of-order record", "out-of-order records"),
    Anomaly.REJECTED_PRESENT: (
        "rejected record that is in the log",
        "rejected records that are in the log",
    ),
    Anomaly.UNKNOWN_ABSENT: (
        "record of unknown outcome that is not in the log",
        "records of unknown outcome that are not in the log",
    ),
    Anomaly.ABORTED_VISIBLE: (
        "record of an aborted transaction that is visible to consumers",
        "records of aborted transactions that are visible to consumers",
    ),
    Anomaly.PHANTOM: (
        "record that this trial did not send",
        "records that this trial did not send",
    ),
    Anomaly.CORRUPT: ("record with an invalid checksum", "records with an invalid checksum"),
    Anomaly.MISSED: (
        "record that the consumer did not receive",
        "records that the consumer did not receive",
    ),
    Anomaly.REDELIVERED: ("record received again", "records received again"),
    Anomaly.READ_LOST: (
        "record that a consumer received and the log lost",
        "records that consumers received and the log lost",
    ),
    Anomaly.READ_CONFLICT: (
        "record received at an offset where another one was received",
        "records received at offsets where others were received",
    ),
    Anomaly.VALUE_LOST: (
        "lost record without a later one of its key",
        "lost records without a later one of their key",
    ),
}
"""Singular and plural."""
_TIMED_EVENTS: Final[Mapping[Anomaly, str]] = {
    Anomaly.DUPLICATED: "acknowledged",
    Anomaly.REORDERED: "acknowledged",
    Anomaly.REJECTED_PRESENT: "rejected",
    Anomaly.ABORTED_VISIBLE: "stored",
    Anomaly.MISSED: "acknowledged",
    Anomaly.REDELIVERED: "received",
    Anomaly.READ_LOST: "received",
    Anomaly.READ_CONFLICT: "received",
}
"""The event whose time decides the phase, where the sentence does not name it already."""
_PHASES: Final = {
    Phase.BEFORE: "before the fault",
    Phase.DURING: "during the fault",
    Phase.AFTER: "after the heal",
}
_LEADER_ROLES: Final[Mapping[Anomaly, str]] = {
    Anomaly.LOST: "acknowledged by leader",
    Anomaly.VALUE_LOST: "acknowledged by leader",
    Anomaly.READ_LOST: "returned by leader",
    Anomaly.READ_CONFLICT: "returned by leader",
    Anomaly.UNKNOWN_ABSENT: "while the leader was",
}
_APPENDED: Final = "appended by leader"
_EXPLANATIONS: Final[Mapping[Cause, str]] = {
    Cause.DELETED: "their topic was deleted, and created again without them",
    Cause.NEVER_APPENDED: (
        "the next leader never had them; they were in transit, or only in the previous leader's "
        "log (with acks=0 no offset is returned that could show which)"
    ),
    Cause.RESENT: "the client timed out waiting for a response and sent again",
    Cause.EPOCH_BUMPED_AFTER_TIMEOUT: (
        "producer epoch bumped after time-outs: other records had timed out, and the producer sent "
        "these again under a new producer epoch, in which no broker recognizes them"
    ),
    Cause.EPOCH_BUMPED: (
        "producer epoch bumped: the producer sent them again under a new producer epoch, in which "
        "no broker recognizes them"
    ),
    Cause.UNANSWERED: (
        "the client timed out waiting for the leader's response, or lost the connection before it"
    ),
    Cause.UNATTRIBUTED: "unknown",
}
"""A clause each; `TRUNCATED` depends on the row."""
_SUMMARIES: Final[Mapping[Cause, str]] = {
    Cause.DELETED: "deleted with their topic",
    Cause.TRUNCATED: "truncated from the log of the leader that had acknowledged them",
    Cause.NEVER_APPENDED: "in transit when the leader changed, or truncated with its log",
    Cause.RESENT: "sent again by a client that timed out waiting for a response",
    Cause.EPOCH_BUMPED_AFTER_TIMEOUT: (
        "sent again under a new producer epoch, which was bumped after time-outs"
    ),
    Cause.EPOCH_BUMPED: "sent again under a new producer epoch",
    Cause.UNANSWERED: "without a response before the timeout, or with a broken connection",
    Cause.UNATTRIBUTED: "of unknown cause",
}
"""What follows the number of records with this cause."""
_KINDS: Final = tuple(Anomaly)
MAX_SENTENCES: Final = 12
"""Sentences per trial, for the largest groups."""


def cause_summaries(rows: Sequence[Row]) -> Iterator[str]:
    """Yield one sentence per kind of anomaly: how many records, and how many by each cause."""
    for kind in Anomaly:
        causes: Counter[Cause] = Counter()
        for row in rows:
            if row["kind"] == kind:
                causes[Cause(row["cause"])] += row["records"]
        if causes:
            parts = [
                f"{records:,} {_SUMMARIES[cause]}"
                for cause, records in sorted(
                    causes.items(), key=lambda entry: (-entry[1], entry[0])
                )
            ]
            yield f"{_count(kind, causes.total())}: {format_list(parts)}."


def attribution_sentences(rows: Sequence[Row]) -> Iterator[str]:
    """Yield one sentence per group of records, the largest first.

    After `MAX_SENTENCES` groups follows how many records are in the remaining ones.
    """
    ordered = sorted(
        rows,
        key=lambda row: (
            -row["records"],
            _KINDS.index(row["kind"]),
            str(row["partition"]),
            str(row["first_offset"]),
        ),
    )
    yield from (describe_attribution(AttributionRow(**row)) for row in ordered[:MAX_SENTENCES])
    remaining = ordered[MAX_SENTENCES:]
    if remaining:
        records = format_count(sum(row["records"] for row in remaining), "record")
        yield f"{records} in {format_count(len(remaining), 'smaller group')}"


def describe_attribution(row: AttributionRow) -> str:
    """Return a row as one sentence; null columns are left out, and an unknown cause is named."""
    counted = f"{_count(Anomaly(row.kind), row.records)}{_location(row)}"
    description = ", ".join(part for part in (counted, _leader(row), _time(row)) if part)
    if row.cause == Cause.UNATTRIBUTED:
        return f"cause unknown: {description}"
    return f"{description}: {_explanation(row)}"


def _count(kind: Anomaly, records: int) -> str:
    singular, plural = _NOUNS[kind]
    return f"{records:,} {singular if records == 1 else plural}"


def _location(row: AttributionRow) -> str:
    if row.partition is None:
        return ""
    if row.first_offset is None or row.last_offset is None:
        return f" of partition {row.partition}"
    offsets = (
        f"offset {row.first_offset:,}"
        if row.first_offset == row.last_offset
        else f"offsets {row.first_offset:,} to {row.last_offset:,}"
    )
    return f" of partition {row.partition} ({offsets})"


def _leader(row: AttributionRow) -> str:
    """Return which broker led the partition, in which epoch and with which ISR.

    A lost record without an offset was sent with acks=0: no broker acknowledged it, so the leader
    is the one that the producer knew.
    """
    if row.leader is None:
        return "" if row.leader_epoch is None else f"in epoch {row.leader_epoch}"
    if row.kind == Anomaly.LOST and row.first_offset is None:
        role = "sent to leader"
    else:
        role = _LEADER_ROLES.get(Anomaly(row.kind), _APPENDED)
    epoch = "" if row.leader_epoch is None else f" in epoch {row.leader_epoch}"
    return f"{role} {row.leader}{epoch}" + (f" with ISR {row.isr}" if row.isr else "")


def _time(row: AttributionRow) -> str:
    if row.phase is None:
        return ""
    return f"{_TIMED_EVENTS.get(Anomaly(row.kind), '')} {_PHASES[Phase(row.phase)]}".strip()


def _explanation(row: AttributionRow) -> str:
    cause = Cause(row.cause)
    if cause is not Cause.TRUNCATED:
        return _EXPLANATIONS[cause]
    if row.truncated_by is not None:
        return f"node {row.truncated_by} truncated its log to offset {row.truncated_to:,}"
    return f"in the log that survived, epoch {row.leader_epoch} ends at offset {row.truncated_to:,}"
