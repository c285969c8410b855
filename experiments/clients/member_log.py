"""What a member tells of its group while it runs: partitions given and taken, commits refused. A line each, as JSON. Pure but for the writer."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from experiments.journal import Event
from experiments.ledger.record import Frozen
from experiments.ledger.schema import Source

ASSIGNED: Final = "assigned"
REVOKED: Final = "revoked"
COMMIT_REFUSED: Final = "commit_refused"
COPY_FAILED: Final = "copy_failed"
"""A copier could not store all copies of what it had in hand."""
JOINED: Final = "joined"
LEFT: Final = "left"
OUT_OF_RANGE: Final = "out_of_range"
"""The log does not hold the offset any more at which it was to read on, and it was told so as an error: it reads no further."""
LOST: Final = "lost"
"""In the detail of `revoked`: the group had taken the partition away before."""
GIVEN_BACK: Final = "given back"


class Told(Frozen):
    """One line."""

    at_ns: int
    kind: str
    partition: int | None = None
    offset: int | None = None
    detail: str = ""


@dataclass(frozen=True)
class MemberLog:
    """The member's side: each line is written at once, so that a killed one has told it."""

    path: Path
    anchor_ns: int
    """The trial's: epoch = this + monotonic clock."""

    def tell(self, kind: str, detail: str = "", *, partition: int | None = None, offset: int | None = None) -> None:
        """Write a line.

        Raises:
            OSError: the file cannot be written.
        """
        line = Told(at_ns=self.anchor_ns + time.monotonic_ns(), kind=kind, partition=partition, offset=offset, detail=detail).model_dump_json()
        with self.path.open("a", encoding="utf-8") as file:
            os.write(file.fileno(), f"{line}\n".encode())


def read_member_log(text: str, member: str) -> Iterator[Event]:
    """Give what a member told, in its order; a last line that was cut off when it was killed is left out.

    Args:
        text: the file.
        member: who it is, as the details begin: `member 1.0`.
    """
    for line in text.splitlines(keepends=True):
        if line.endswith("\n"):
            told = Told.model_validate_json(line)
            yield Event(told.at_ns, told.kind, Source.CLIENT, None, None, told.partition, None, told.offset, f"{member}: {told.detail}".removesuffix(": "))
