"""The only place that sleeps: waiting for a condition, with a timeout and a message that says what was seen."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from infra.errors import WaitTimeout

Seen = TypeVar("Seen")


def wait_until(
    probe: Callable[[], Seen | None],
    *,
    awaiting: str,
    timeout_s: float,
    every_s: float = 0.05,
    seen: Callable[[], object] | None = None,
) -> Seen:
    """Call `probe` until it returns something true, and return that.

    Args:
        probe: what to ask; `None`, `False` and empty mean "not yet". What it raises goes to the caller.
        awaiting: what is awaited, for the message.
        timeout_s: how long to wait at most.
        every_s: the pause between two calls.
        seen: tells, for the message, what there was instead.

    Raises:
        WaitTimeout: the time is up.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        answer = probe()
        if answer:
            return answer
        if time.monotonic() >= deadline:
            instead = f"; seen instead: {seen()}" if seen else ""
            raise WaitTimeout(f"waited {timeout_s:g} s for {awaiting}{instead}")
        time.sleep(every_s)


def sleep_until(monotonic_s: float, unless: threading.Event | None = None) -> bool:
    """Return true at a moment of the monotonic clock; at once when it has passed. For schedules, never for hoping.

    Args:
        monotonic_s: the moment.
        unless: where this is set, or becomes so, false is returned at once.
    """
    ended = unless or threading.Event()
    while (left := monotonic_s - time.monotonic()) > 0:
        if ended.wait(left):
            return False
    return not ended.is_set()
