"""The messages between a member of a group and its parent, and the events that it writes."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from ackbench.experiments.ledger.trial_manifest import Frozen

# Kinds of the events that a member writes.
ASSIGNED: Final = "assigned"
REVOKED: Final = "revoked"
COMMIT_REFUSED: Final = "commit_refused"
COPY_FAILED: Final = "copy_failed"
"""A copier could not store the copies of all pending records."""
BATCH_FAILED: Final = "batch_failed"
"""A member failed to process a record, on purpose; its detail is what it did then."""
JOINED: Final = "joined"
LEFT: Final = "left"
OUT_OF_RANGE: Final = "out_of_range"
"""The log no longer contains the member's next offset, and the client reported it as an error: the
member reads no further."""
MEMBER_CRASHED: Final = "member_crashed"
"""The member's process ended without leaving its group. Written by the parent."""

# Details of the event `revoked`.
LOST: Final = "lost"
"""The group had taken the partition away before: other members may read it already."""
RELEASED: Final = "released"

# Messages between the parent and the member's process.
HOLD: Final = "hold"
"""To the member, with its number and a breakpoint: wait there."""
HELD: Final = "held"
"""From the member: it waits at the breakpoint of a hold, with its number and a `PendingBatch`."""
RELEASE: Final = "release"
"""To the member: go on from the breakpoint, or do not wait there any more."""
UNTHROTTLE: Final = "unthrottle"
"""To a slow member: process as fast as you can."""


class MemberEvent(Frozen):
    """One line of a member's event file."""

    at_ns: int
    kind: str
    partition: int | None = None
    offset: int | None = None
    detail: str = ""


@dataclass(frozen=True)
class MemberEventLog:
    """Writes a member's event file, one JSON line per event.

    Each line is written at once, so that no event is lost when the member is killed.
    """

    path: Path
    anchor_ns: int
    """Time since the epoch = this + monotonic clock."""

    def write(
        self,
        kind: str,
        detail: str = "",
        *,
        partition: int | None = None,
        offset: int | None = None,
    ) -> None:
        """Append an event that happens now.

        Raises:
            OSError: the file is not writable.
        """
        line = MemberEvent(
            at_ns=self.anchor_ns + time.monotonic_ns(),
            kind=kind,
            partition=partition,
            offset=offset,
            detail=detail,
        ).model_dump_json()
        with self.path.open("a", encoding="utf-8") as file:
            os.write(file.fileno(), f"{line}\n".encode())


class Breakpoint(StrEnum):
    """Where a member can be held."""

    BEFORE_COMMIT = "before-commit"
    """It is about to commit its pending records."""
    AFTER_COMMIT = "after-commit"
    """The coordinator has acknowledged the commit; of an asynchronous one, it was requested."""
    IN_BATCH = "in-batch"
    """It has processed the first half of its pending records, and not the others."""


class PendingBatch(Frozen):
    """The pending records of a member that is held at a breakpoint."""

    breakpoint: Breakpoint
    records: int
    processed_records: int
    """The number of those that are in its mapped file already."""
    commit_answered: bool = True
    """After a commit: whether the coordinator has acknowledged it; otherwise that is unknown."""
