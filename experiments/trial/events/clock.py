"""One clock per process: nanoseconds since the epoch, from the monotonic clock and one anchor.

The wall clock may be stepped during a trial; the monotonic clock may not. All processes of a trial
run on one host, so their anchors differ only by what the wall clock was slewed between their
starts.
"""

from __future__ import annotations

import time

_ANCHOR_NS = time.time_ns() - time.monotonic_ns()


def now_ns() -> int:
    """Return the current time in nanoseconds since the epoch; it never decreases in a process."""
    return _ANCHOR_NS + time.monotonic_ns()


def anchor_ns() -> int:
    """Return the anchor: `now_ns` minus the monotonic clock.

    A process that gets another one's anchor has the same clock.
    """
    return _ANCHOR_NS


def ahead_of_wall_ns() -> int:
    """Return how far `now_ns` is ahead of the wall clock.

    That is 0 minus what the wall clock was stepped or slewed forward since this process started.
    """
    return now_ns() - time.time_ns()


def epoch_ns(monotonic_s: float) -> int:
    """Return the time since the epoch at a time of the monotonic clock, in seconds."""
    return _ANCHOR_NS + round(monotonic_s * 1e9)


def monotonic_s(epoch_ns: int) -> float:
    """Return the time of the monotonic clock, in seconds, at a time since the epoch."""
    return (epoch_ns - _ANCHOR_NS) / 1e9
