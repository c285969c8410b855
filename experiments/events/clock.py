"""One clock a process: nanoseconds since the epoch, made from the monotonic clock and one anchor.

The wall clock may be stepped in mid-trial; the monotonic clock may not. All processes of a trial run on one
host, so their anchors differ by what the wall clock was slewed between their starts and no more.
"""

from __future__ import annotations

import time

_ANCHOR_NS = time.time_ns() - time.monotonic_ns()


def now_ns() -> int:
    """Return nanoseconds since the epoch; never goes back within a process."""
    return _ANCHOR_NS + time.monotonic_ns()


def anchor_ns() -> int:
    """Return what added to the monotonic clock gives `now_ns`; a process that is told it counts as this one does."""
    return _ANCHOR_NS


def ahead_of_wall_ns() -> int:
    """How far `now_ns` is before the wall clock: 0, plus what that was stepped or slewed since this process made its anchor."""
    return now_ns() - time.time_ns()


def epoch_ns(monotonic_s: float) -> int:
    """Return the epoch time that a moment of the monotonic clock, in seconds, stands for."""
    return _ANCHOR_NS + round(monotonic_s * 1e9)


def monotonic_s(epoch_ns: int) -> float:
    """Return the moment of the monotonic clock, in seconds, that an epoch time stands for."""
    return (epoch_ns - _ANCHOR_NS) / 1e9
