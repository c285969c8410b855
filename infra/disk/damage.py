"""Faults of a disk's content: a flipped bit, a full file system, and the canary of a power cut."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ackbench.infra.kafka.replica_files import (
    HEADER_BYTES,
    RecordBatch,
    has_valid_crc,
    read_batches,
    segment_files,
)

# Both are files in Kafka's log folder, where Kafka takes only folders for partitions.
BALLAST: Final = "ballast"
CANARY: Final = "canary"

_FLIPPED_BIT: Final = 3
_COMPRESSION_MASK: Final = 0x07
_ATTRIBUTES_LOW_BYTE: Final = 22
"""Position in a batch; the byte's last three bits are the compression type."""
_BYTES_AFTER_FLIP: Final = 8
"""The flipped bit is this far before the end of the last record, which ends with its header count.
So it is in the record's value: no length field changes, and everything else stays valid."""
_BLOCK_BYTES: Final = 4096
_CANARY_BYTES: Final = 64 << 10


# A flipped bit


@dataclass(frozen=True)
class FlippedBit:
    """A bit that was flipped in a segment."""

    segment: str
    position: int
    """Bytes from the start of the segment."""
    bit: int
    base_offset: int
    """Of the batch."""
    last_offset: int
    """Of the batch."""
    invalidated_crc: bool
    """Whether the batch's CRC was valid before and is not any more."""


def flip_bit(replica: Path, below_offset: int) -> FlippedBit | None:
    """Flip one bit in a segment, as a failing disk does.

    The broker is not notified, and reads the changed byte from the page cache. The bit is in the
    value of the last record of the middle batch among the uncompressed ones below an offset. In a
    compressed batch a flipped bit would affect an unpredictable number of records.

    Args:
        replica: the replica's folder.
        below_offset: only batches that end before this offset are used.

    Returns:
        The flipped bit; `None`: there is no uncompressed batch below the offset.
    """
    batches = list(_uncompressed_batches(replica, below_offset))
    return _flip(*batches[len(batches) // 2]) if batches else None


def _uncompressed_batches(replica: Path, below_offset: int) -> Iterator[tuple[Path, RecordBatch]]:
    for segment in segment_files(replica):
        content = segment.read_bytes()
        for batch in read_batches(content):
            has_value = batch.size_bytes > HEADER_BYTES + 2 * _BYTES_AFTER_FLIP
            if (
                batch.last_offset < below_offset
                and has_value
                and not content[batch.position + _ATTRIBUTES_LOW_BYTE] & _COMPRESSION_MASK
            ):
                yield segment, batch


def _flip(segment: Path, batch: RecordBatch) -> FlippedBit:
    position = batch.end - 1 - _BYTES_AFTER_FLIP
    was_valid = has_valid_crc(segment.read_bytes(), batch)
    descriptor = os.open(segment, os.O_RDWR)
    try:
        (byte,) = os.pread(descriptor, 1, position)
        os.pwrite(descriptor, bytes([byte ^ 1 << _FLIPPED_BIT]), position)
    finally:
        os.close(descriptor)
    return FlippedBit(
        segment.name,
        position,
        _FLIPPED_BIT,
        batch.base_offset,
        batch.last_offset,
        was_valid and not has_valid_crc(segment.read_bytes(), batch),
    )


# A full file system


def fill_disk(data: Path) -> int:
    """Allocate every free block of the file system of a folder.

    Blocks are allocated, not written: that takes no time, and the disk image does not grow.

    Returns:
        How many bytes are still free, less than a block.
    """
    descriptor = os.open(data / BALLAST, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        size_bytes = _BLOCK_BYTES << 20
        while size_bytes >= _BLOCK_BYTES:
            if not _allocate(descriptor, size_bytes):
                size_bytes >>= 1
    finally:
        os.close(descriptor)
    return free_bytes(data)


def free_disk(data: Path) -> None:
    """Free the blocks that `fill_disk` allocated; a second call has no effect."""
    (data / BALLAST).unlink(missing_ok=True)


def free_bytes(data: Path) -> int:
    """Return how many bytes can still be written to the file system of a folder."""
    stat = os.statvfs(data)
    return stat.f_bavail * stat.f_frsize


def _allocate(descriptor: int, size_bytes: int) -> bool:
    """Append allocated blocks to a file; return whether there was enough space."""
    try:
        os.posix_fallocate(descriptor, os.fstat(descriptor).st_size, size_bytes)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            return False
        raise
    return True


# The canary of a power cut


def write_canary(data: Path) -> bytes:
    """Write a file that a power cut must lose, because it is not synced; return its content."""
    content = secrets.token_bytes(_CANARY_BYTES)
    (data / CANARY).write_bytes(content)
    return content


def canary_lost(data: Path, content: bytes) -> bool:
    """Return whether the canary, or its content, is lost; remove what is left of it.

    If it is still there, unsynced data survived: there was no power cut.
    """
    try:
        return (data / CANARY).read_bytes() != content
    except FileNotFoundError:
        return True
    finally:
        (data / CANARY).unlink(missing_ok=True)
