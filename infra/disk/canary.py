"""A file written a moment before a power cut and not synced: where it comes back, the cut was none."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Final

CANARY: Final = "canary"
"""A file among Kafka's own, which takes no file for a partition's."""
_BYTES: Final = 64 << 10


def plant(data: Path) -> bytes:
    """Write the file; return what it holds."""
    song = secrets.token_bytes(_BYTES)
    (data / CANARY).write_bytes(song)
    return song


def died(data: Path, song: bytes) -> bool:
    """Whether the file, or what it held, is gone; what is left of it is removed."""
    try:
        return (data / CANARY).read_bytes() != song
    except FileNotFoundError:
        return True
    finally:
        (data / CANARY).unlink(missing_ok=True)
