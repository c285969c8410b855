"""A file system filled to its last block, and freed again."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

BALLAST: Final = "ballast"
"""A file among Kafka's own, which takes no file for a partition's."""
_BLOCK_BYTES: Final = 4096


def fill(data: Path) -> int:
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


def free(data: Path) -> None:
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
