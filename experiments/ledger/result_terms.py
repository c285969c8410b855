"""The terms of the results: fates of records, anomalies and their causes, phases, outage steps.

`ledger.result_tables` has the tables in which they stand.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Fate(StrEnum):
    """The fate of one record.

    The first nine are exclusive and add up to a trial's attempts. "In the log" means visible to a
    `read_committed` consumer. A record of a transaction is acknowledged when that is committed.
    """

    DELIVERED_ONCE = "DELIVERED_ONCE"
    """Acknowledged, and in the log once."""
    DUPLICATED = "DUPLICATED"
    """Acknowledged, and in the log at several offsets."""
    LOST = "LOST"
    """Acknowledged, and not in the log."""
    REJECTED = "REJECTED"
    """Rejected, and not in the log."""
    REJECTED_PRESENT = "REJECTED_PRESENT"
    """Rejected, and in the log all the same, once or several times."""
    UNKNOWN_PRESENT = "UNKNOWN_PRESENT"
    """Of unknown outcome, and in the log, once or several times."""
    UNKNOWN_ABSENT = "UNKNOWN_ABSENT"
    """Of unknown outcome, and not in the log."""
    ABORTED = "ABORTED"
    """Of a transaction that was not committed, and not visible."""
    ABORTED_VISIBLE = "ABORTED_VISIBLE"
    """Of a transaction that was not committed, and visible all the same."""
    PHANTOM = "PHANTOM"
    """In the log, and never attempted in this trial: foreign, or with an unknown id."""
    CORRUPT = "CORRUPT"
    """In the log with this trial's token and a wrong checksum; it is no copy of any record."""


class Anomaly(StrEnum):
    """A defect of a record or of a read; a record can have several."""

    LOST = "LOST"
    DUPLICATED = "DUPLICATED"
    """One row for each duplicate in the log, that is for each copy after the first."""
    REORDERED = "REORDERED"
    """Its first copy is behind a record that its producer sent later to the same partition."""
    REJECTED_PRESENT = "REJECTED_PRESENT"
    UNKNOWN_ABSENT = "UNKNOWN_ABSENT"
    ABORTED_VISIBLE = "ABORTED_VISIBLE"
    PHANTOM = "PHANTOM"
    CORRUPT = "CORRUPT"
    MISSED = "MISSED"
    """In the log and never received by the consumer, although it read beyond its offset."""
    REDELIVERED = "REDELIVERED"
    """The same offset received again."""
    READ_LOST = "READ_LOST"
    """Received by a consumer, and the log that survived does not have it at that offset."""
    READ_CONFLICT = "READ_CONFLICT"
    """Received at an offset where consumers received another record too; not the log's record."""
    VALUE_LOST = "VALUE_LOST"
    """Acknowledged, not in the compacted log, and the log has no later record of its key."""


class Cause(StrEnum):
    """Why, as far as there is evidence; `docs/metrics.md` has the rule of each cause."""

    DELETED = "DELETED"
    """Its topic was deleted after the acknowledgement, and created again without the record."""
    TRUNCATED = "TRUNCATED"
    """A broker truncated its log at or before the acknowledged offset.

    Either a broker's log reports it, or the offset is past the end of its leader epoch in the log
    that survived.
    """
    NEVER_APPENDED = "NEVER_APPENDED"
    """No offset was reported (acks=0), and the next leader never had the record.

    It was in transit to the previous leader or only in that leader's log; which is unknown.
    """
    RESENT = "RESENT"
    """The client timed out and sent it again.

    The record is then duplicated, out of order, or stored although its last attempt was rejected.
    """
    EPOCH_BUMPED_AFTER_TIMEOUT = "EPOCH_BUMPED_AFTER_TIMEOUT"
    """The idempotent producer bumped its epoch, as records had timed out, and sent it again.

    A broker recognizes a batch that is sent again by producer id, producer epoch and sequence
    number, so a new epoch makes it a new batch (KIP-98, KIP-360).
    """
    EPOCH_BUMPED = "EPOCH_BUMPED"
    """The same, for another reason or for one that the client does not report."""
    UNANSWERED = "UNANSWERED"
    """Of unknown outcome: the client timed out, or lost the connection before the answer."""
    UNATTRIBUTED = "UNATTRIBUTED"
    """There is no evidence for any cause."""


class LatencyKind(StrEnum):
    """The end of a latency; all begin with the time at which a record was due."""

    ACK = "ack"
    """From the intended time to the client's acknowledgement."""
    END_TO_END = "end_to_end"
    """From the intended time to the first read."""


class Phase(StrEnum):
    """A part of the trial relative to the fault, by the record's intended time."""

    ALL = "all"
    BEFORE = "before"
    DURING = "during"
    AFTER = "after"


class Side(StrEnum):
    """For which clients a partition was unavailable."""

    PRODUCER = "producer"
    CONSUMER = "consumer"


class OutageStep(StrEnum):
    """The steps of an outage, in the order in which they happen."""

    LAST_BEFORE = "last_before"
    """The gap began: the last acknowledgement (or read), or later, when the next record was due."""
    DETECTED = "detected"
    """The controller fenced the broker."""
    ELECTED = "elected"
    """Another replica became the leader."""
    LEARNED = "learned"
    """The client learned about the new leader."""
    FIRST_AFTER = "first_after"
    """The first acknowledgement (or read) after the gap."""


QUANTILES: Final = {"p50": 500, "p90": 900, "p99": 990, "p99_9": 999, "max": 1000}
"""Name and rank in thousandths.

By nearest rank: the smallest value that is not exceeded by at least this share of all values.
"""

TIMELINE_SLOT_NS: Final = 100_000_000
MIN_OUTAGE_NS: Final = 1_000_000_000
"""A partition without an acknowledgement for this long, while records were due, was unavailable.

Shorter gaps are normal on a loaded cluster.
"""
ANOMALY_ROWS: Final = 100_000
"""The most rows of `ANOMALIES` per trial, kind and cause: the first by producer and seq.

Reading the table takes memory per row, and a trial can have as many anomalies as records.
`ATTRIBUTION` counts all of them.
"""
