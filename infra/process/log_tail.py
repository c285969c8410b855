"""Log files of other processes: the last lines, which explain a failure; new lines; a limit."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_TAIL_BYTES: Final = 65536
_EXCERPT_LINES: Final = 12
_ERROR_SIGNS: Final = (
    "] ERROR ",
    "] FATAL ",
    "Error occurred during initialization of VM",
    "Unrecognized",
)
"""How Kafka, ZooKeeper and the JVM mark the line that explains why they exit."""


def read_from(log: Path, offset_bytes: int) -> str:
    """Return the text of a log file from a byte offset to its current end.

    Raises:
        OSError: the file cannot be read.
    """
    return read_from_bytes(log, offset_bytes).decode(errors="replace")


def read_from_bytes(log: Path, offset_bytes: int) -> bytes:
    """Return what a log file holds from a byte offset to its current end.

    Raises:
        OSError: the file cannot be read.
    """
    with log.open("rb") as file:
        file.seek(offset_bytes)
        return file.read()


def last_lines(log: Path, count: int, *, since_bytes: int = 0) -> list[str]:
    """Return the last lines of a log file that are not blank.

    Args:
        log: the file; a missing one has no lines.
        count: how many lines at most. They are taken from the last 64 KiB of the file.
        since_bytes: ignore what the file held before this offset, as of an earlier run.
    """
    return _tail(log, since_bytes)[-count:]


def last_line(output: str) -> str:
    """Return the last line of what a program printed, which mostly says why it failed."""
    return (output.strip().splitlines() or ["no output"])[-1]


def failure_excerpt(log: Path) -> str:
    """Return up to 12 lines of a log file that explain why its process exited.

    They begin with the first error in the last 64 KiB, because what follows it is mostly the
    shutdown of everything else. Without an error they are the last lines.
    """
    if not log.exists():
        return f"({log} was never written)"
    lines = _tail(log)
    first = next(
        (at for at, line in enumerate(lines) if any(sign in line for sign in _ERROR_SIGNS)),
        max(0, len(lines) - _EXCERPT_LINES),
    )
    return "\n".join(lines[first : first + _EXCERPT_LINES]) or f"({log} is empty)"


def last_error_lines(log: Path, count: int) -> list[str]:
    """Return the last error of a log and what follows it, without the frames of a stack trace.

    These are the last lines if there is no error in the last 64 KiB.
    """
    lines = [line for line in _tail(log) if not line.startswith("\tat ")]
    errors = [at for at, line in enumerate(lines) if any(sign in line for sign in _ERROR_SIGNS)]
    return lines[errors[-1] :][:count] if errors else lines[-count:]


def cut_log(log: Path, limit_bytes: int, kept_bytes: int) -> bool:
    """Cut a log that is larger than a limit to its last lines, while its process goes on.

    The process must have opened the file to append (`O_APPEND`): it then writes at the new end.
    What it writes during the cut may be lost.

    Args:
        log: the file; a link is left alone.
        limit_bytes: a smaller file is left alone.
        kept_bytes: of how many bytes at its end the complete lines are kept.

    Returns:
        Whether it was cut.

    Raises:
        OSError: the file cannot be read or written.
    """
    if log.is_symlink() or log.stat().st_size <= limit_bytes:
        return False
    kept = read_from_bytes(log, log.stat().st_size - kept_bytes).partition(b"\n")[2]
    with log.open("ab") as file:
        file.truncate(0)
        file.write(kept)
    return True


def _tail(log: Path, since_bytes: int = 0) -> list[str]:
    try:
        text = read_from(log, max(since_bytes, log.stat().st_size - _TAIL_BYTES))
    except FileNotFoundError:
        return []
    return [line for line in text.splitlines() if line.strip()]


class LineFollower:
    """Reads the complete lines of a growing file, each of them once."""

    def __init__(self, path: Path, offset_bytes: int = 0) -> None:
        """Start at a byte offset; the file must exist when `new_lines` is called."""
        self._path, self._offset_bytes = path, offset_bytes

    def new_lines(self) -> list[bytes]:
        """Return the lines that were completed since the last call, without their line ends.

        Raises:
            OSError: the file cannot be read.
        """
        content = read_from_bytes(self._path, self._offset_bytes)
        complete = content[: content.rfind(b"\n") + 1]
        self._offset_bytes += len(complete)
        return complete.split(b"\n")[:-1]
