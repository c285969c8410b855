"""The terms of the ledger: its version, the outcomes of attempts and transactions, and sources.

`ledger.schema` has the tables in which they stand.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

LEDGER_VERSION: Final = 5
"""Increased whenever a reader of the old layout would misread the new one."""
READABLE_VERSIONS: Final = (4, LEDGER_VERSION)
"""Version 4 has the same tables, and no digests."""


def other_version(version: object) -> str:
    """Return what is wrong with an unreadable ledger version, as the rest of a sentence."""
    is_newer = isinstance(version, int) and version > LEDGER_VERSION
    remedy = "read it with a newer ackbench" if is_newer else "run the sweep again"
    readable = " and ".join(map(str, READABLE_VERSIONS))
    return f"has ledger version {version}; this ackbench reads the versions {readable}: {remedy}"


# Outcomes of an attempt.
ACKED: Final = "acked"
"""The client reported success. With acks=0 it only means: written to the socket."""
REJECTED: Final = "rejected"
"""The client reported that the record was not persisted."""
UNKNOWN: Final = "unknown"
"""The client does not know, or never settled the record at all."""

# Outcomes of a transaction; UNKNOWN too.
COMMITTED: Final = "committed"
"""The client received the confirmation that the transaction is committed."""
ABORTED: Final = "aborted"
"""The client received the confirmation that the transaction is aborted."""
FENCED: Final = "fenced"
"""The coordinator fenced the producer before it asked to commit.

Another producer took its `transactional.id`, or `transaction.timeout.ms` had passed. Either way the
coordinator has aborted the transaction and raised the producer's epoch.
"""
ABANDONED: Final = "abandoned"
"""The producer exited or gave up before it asked to commit.

The coordinator aborts the transaction after `transaction.timeout.ms`.
"""


class Source(StrEnum):
    """Who reported an event, and so how exact its time is; `docs/ledger.md` has the resolutions."""

    TRIAL = "trial"
    """The trial itself and its fault: exact."""
    METADATA = "metadata"
    """A broker's metadata, polled: the time between two answers."""
    BROKER = "broker"
    """The log of a broker or controller: one millisecond."""
    CLIENT = "client"
    """The client's own log: one millisecond."""
    MACHINE = "machine"
    """The kernel's figures of the trial's processes, sampled: the time between two samples."""
