"""One bit flipped in a segment, as a failing disk does it: the broker is not told, and reads it from the same page cache."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from infra.disk.batches import HEADER_BYTES, Batch, batches_in, is_sound
from infra.disk.replica import segments_of

_BIT: Final = 3
_COMPRESSION: Final = 0x07
_ATTRIBUTES_AT: Final = 22
"""The low byte of a batch's attributes; its last three bits say how it is compressed."""
_FROM_END_BYTES: Final = 8
"""Before the last record's header count, in its value: no length of any field changes, and what is not the value stays as it was."""


@dataclass(frozen=True)
class Flip:
    """What was flipped."""

    segment: str
    position: int
    """In the segment, bytes."""
    bit: int
    base_offset: int
    last_offset: int
    """Of the batch."""
    broke: bool
    """The batch's CRC held before, and does not any more."""


def flip_bit(replica: Path, below_offset: int) -> Flip | None:
    """Flip a bit of the last record's value in the middle one of the plain batches below an offset; `None`: there is no such batch.

    In a compressed batch a flipped bit would touch every record of it, or make it unreadable as a whole, by chance.
    """
    found = list(_plain_batches(replica, below_offset))
    return _flip(*found[len(found) // 2]) if found else None


def _plain_batches(replica: Path, below_offset: int) -> Iterator[tuple[Path, Batch]]:
    for segment in segments_of(replica):
        content = segment.read_bytes()
        for batch in batches_in(content):
            room = batch.size_bytes > HEADER_BYTES + 2 * _FROM_END_BYTES
            if batch.last_offset < below_offset and room and not content[batch.position + _ATTRIBUTES_AT] & _COMPRESSION:
                yield segment, batch


def _flip(segment: Path, batch: Batch) -> Flip:
    position = batch.end - 1 - _FROM_END_BYTES
    sound = is_sound(segment.read_bytes(), batch)
    descriptor = os.open(segment, os.O_RDWR)
    try:
        (byte,) = os.pread(descriptor, 1, position)
        os.pwrite(descriptor, bytes([byte ^ 1 << _BIT]), position)
    finally:
        os.close(descriptor)
    return Flip(segment.name, position, _BIT, batch.base_offset, batch.last_offset, sound and not is_sound(segment.read_bytes(), batch))
