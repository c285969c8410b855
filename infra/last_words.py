"""The end of a log file, as far as it tells why a process ended."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_TAIL_BYTES: Final = 65536
_SHOWN_LINES: Final = 12
_TROUBLE: Final = ("] ERROR ", "] FATAL ", "Error occurred during initialization of VM", "Unrecognized")


def last_words(log: Path) -> str:
    """Return up to twelve lines: from the first error on in the log's last 64 KiB, or else its last ones."""
    try:
        lines = log.read_bytes()[-_TAIL_BYTES:].decode(errors="replace").splitlines()
    except FileNotFoundError:
        return f"({log} was never written)"
    first = next((at for at, line in enumerate(lines) if any(sign in line for sign in _TROUBLE)), max(0, len(lines) - _SHOWN_LINES))
    return "\n".join(lines[first : first + _SHOWN_LINES]) or f"({log} is empty)"
