"""The text of a file that somebody gives: bounded, no binary, UTF-8."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ackbench.infra.errors import InputError

MAX_FILE_BYTES: Final = 1_000_000
_MAGIC: Final = {b"\x1f\x8b": "gzip", b"PK": "zip", b"\x28\xb5\x2f\xfd": "zstd"}


def text_of(path: Path) -> str:
    """Return the text of a file.

    Raises:
        InputError: it cannot be read, is too large, or is no text; one line.
    """
    try:
        if not path.is_file():
            raise InputError(f"{path} is no file")
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise InputError(f"{path} has {size:,} bytes; allowed: {MAX_FILE_BYTES:,}")
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    packed = next((name for magic, name in _MAGIC.items() if content.startswith(magic)), None)
    if packed or b"\0" in content:
        raise InputError(f"{path} is {packed or 'binary'}, no text")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is no UTF-8 text (byte {error.start})") from error
