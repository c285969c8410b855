"""What is wrong with single records, and why: the tables `anomalies` and `attribution` of `results/`."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import pyarrow as pa

from experiments.ledger.columns import count, perhaps, text


class Anomaly(StrEnum):
    """What can be wrong with one record or one read; a record can have several."""

    LOST = "LOST"
    DUPLICATED = "DUPLICATED"
    """A row for each copy in the log beyond the first."""
    REORDERED = "REORDERED"
    """Its first copy lies behind a record that the same producer sent later to the same partition."""
    REJECTED_PRESENT = "REJECTED_PRESENT"
    UNKNOWN_ABSENT = "UNKNOWN_ABSENT"
    ABORTED_VISIBLE = "ABORTED_VISIBLE"
    PHANTOM = "PHANTOM"
    CORRUPT = "CORRUPT"
    MISSED = "MISSED"
    """In the log, and never received by the consumer, although that read on beyond it."""
    REDELIVERED = "REDELIVERED"
    """The same offset received again."""


class Cause(StrEnum):
    """Why, as far as the evidence carries; `docs/metrics.md` has the rule of each."""

    DELETED = "DELETED"
    """Its topic was deleted after it was acknowledged, and made again under its name without it."""
    TRUNCATED = "TRUNCATED"
    """Its acknowledged offset lies at or past the place to which a broker says that it cut its log, or past the end of its epoch in the log that survived."""
    NEVER_APPENDED = "NEVER_APPENDED"
    """Nobody told an offset (acks=0), and the next leader never had it. It was on its way to the one before, or in that one's log alone; which is not known."""
    RESENT = "RESENT"
    """The client gave up waiting for the answer and sent it again: so it is there twice, or late, or although the last try was refused."""
    UNANSWERED = "UNANSWERED"
    """Of unknown fate: the client gave up waiting for the leader's answer, or lost the connection on which it was to come."""
    UNATTRIBUTED = "UNATTRIBUTED"
    """The evidence does not say."""


_SCENE: Final = [
    perhaps("phase", pa.string()),  # by at_ns: before, during, after; null: a trial without fault, or no time is known
    perhaps("leader", pa.int32()),  # who led then; of records in the log: when they were appended; TRUNCATED: who acknowledged; NEVER_APPENDED: to whom sent
    perhaps("leader_epoch", pa.int32()),
    perhaps("isr", pa.string()),  # "1,2,3", as the watcher saw it then
    text("cause"),
    perhaps("truncated_to", pa.int64()),  # the offset to which `truncated_by` says that it cut its log, or where the epoch ends in the log that survived
    perhaps("truncated_by", pa.int32()),  # null beside `truncated_to`: no broker's log says so, the leader epochs do
]

ANOMALIES: Final = pa.schema(
    [
        text("trial_id"),
        text("kind"),  # of `Anomaly`
        perhaps("producer", pa.int32()),
        perhaps("seq", pa.int64()),
        perhaps("partition", pa.int32()),
        perhaps("offset", pa.int64()),  # LOST: as acknowledged; in the log or read: where
        perhaps("at_ns", pa.int64()),  # when it was acknowledged, or given up (attempts); received (reads)
        *_SCENE,
    ]
)

ATTRIBUTION: Final = pa.schema(
    [
        text("trial_id"),
        text("kind"),
        perhaps("partition", pa.int32()),
        *_SCENE,
        count("records"),
        perhaps("first_offset", pa.int64()),
        perhaps("last_offset", pa.int64()),
        perhaps("first_at_ns", pa.int64()),
        perhaps("last_at_ns", pa.int64()),
    ]
)
"""`ANOMALIES`, counted by all that they have in common."""
