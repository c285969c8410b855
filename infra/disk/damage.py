"""One bit flipped in a segment, as a failing disk does it: the broker is not told, and reads it from the same page cache."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from infra.kafka.replica_files import (
    HEADER_BYTES,
    RecordBatch,
    has_valid_crc,
    read_batches,
    segment_files,
)

_BIT: Final = 3
_COMPRESSION: Final = 0x07
_ATTRIBUTES_AT: Final = 22
"""The low byte of a batch's attributes; its last three bits say how it is compressed."""
_FROM_END_BYTES: Final = 8
"""Before the last record's header count, in its value: no length of any field changes, and what is not the value stays as it was."""


@dataclass(frozen=True)
class FlippedBit:
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


def flip_bit(replica: Path, below_offset: int) -> FlippedBit | None:
    """Flip a bit of the last record's value in the middle one of the plain batches below an offset; `None`: there is no such batch.

    In a compressed batch a flipped bit would touch every record of it, or make it unreadable as a whole, by chance.
    """
    found = list(_plain_batches(replica, below_offset))
    return _flip(*found[len(found) // 2]) if found else None


def _plain_batches(replica: Path, below_offset: int) -> Iterator[tuple[Path, RecordBatch]]:
    for segment in segment_files(replica):
        content = segment.read_bytes()
        for batch in read_batches(content):
            room = batch.size_bytes > HEADER_BYTES + 2 * _FROM_END_BYTES
            if (
                batch.last_offset < below_offset
                and room
                and not content[batch.position + _ATTRIBUTES_AT] & _COMPRESSION
            ):
                yield segment, batch


def _flip(segment: Path, batch: RecordBatch) -> FlippedBit:
    position = batch.end - 1 - _FROM_END_BYTES
    sound = has_valid_crc(segment.read_bytes(), batch)
    descriptor = os.open(segment, os.O_RDWR)
    try:
        (byte,) = os.pread(descriptor, 1, position)
        os.pwrite(descriptor, bytes([byte ^ 1 << _BIT]), position)
    finally:
        os.close(descriptor)
    return FlippedBit(
        segment.name,
        position,
        _BIT,
        batch.base_offset,
        batch.last_offset,
        sound and not has_valid_crc(segment.read_bytes(), batch),
    )


# ---------- A file system filled to its last block, and freed again.


BALLAST: Final = "ballast"
"""A file among Kafka's own, which takes no file for a partition's."""
_BLOCK_BYTES: Final = 4096


def fill_disk(data: Path) -> int:
    """Take every free block of the file system that a folder lies on; return how many bytes are left for others: below a block.

    Blocks are taken, not written: it costs no time, and the image under the file system does not grow.
    """
    descriptor = os.open(data / BALLAST, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        piece = _BLOCK_BYTES << 20
        while piece >= _BLOCK_BYTES:
            piece = piece if _took(descriptor, piece) else piece >> 1
    finally:
        os.close(descriptor)
    return free_bytes(data)


def free_disk(data: Path) -> None:
    """Give the blocks back; a second time finds nothing to do."""
    (data / BALLAST).unlink(missing_ok=True)


def free_bytes(data: Path) -> int:
    """Return how much can still be written."""
    room = os.statvfs(data)
    return room.f_bavail * room.f_frsize


def _took(descriptor: int, size_bytes: int) -> bool:
    try:
        os.posix_fallocate(descriptor, os.fstat(descriptor).st_size, size_bytes)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            return False
        raise
    return True


# ---------- A file written a moment before a power cut and not synced: where it comes back, the cut was none.


CANARY: Final = "canary"
"""A file among Kafka's own, which takes no file for a partition's."""
_BYTES: Final = 64 << 10


def write_canary(data: Path) -> bytes:
    """Write the file; return what it holds."""
    song = secrets.token_bytes(_BYTES)
    (data / CANARY).write_bytes(song)
    return song


def canary_lost(data: Path, song: bytes) -> bool:
    """Whether the file, or what it held, is gone; what is left of it is removed."""
    try:
        return (data / CANARY).read_bytes() != song
    except FileNotFoundError:
        return True
    finally:
        (data / CANARY).unlink(missing_ok=True)
