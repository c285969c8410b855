"""The only module that sleeps: waits have a timeout, and a message with the last observed state."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from ackbench.infra.errors import WaitTimeout

Result = TypeVar("Result")


def wait_until(
    probe: Callable[[], Result | None],
    *,
    awaiting: str,
    timeout_s: float,
    every_s: float = 0.05,
    seen: Callable[[], object] | None = None,
) -> Result:
    """Call `probe` until it returns a true value, and return that value.

    Args:
        probe: the condition; `None`, `False` and empty values mean "not yet". An exception that
            it raises ends the wait and goes to the caller.
        awaiting: the condition in words, for the message.
        timeout_s: how long to wait at most.
        every_s: the pause between two calls.
        seen: returns the observed state, for the message.

    Raises:
        WaitTimeout: the probe returned no true value in time.
    """
    deadline_s = time.monotonic() + timeout_s
    while True:
        result = probe()
        if result:
            return result
        if time.monotonic() >= deadline_s:
            observed = f"; observed: {seen()}" if seen else ""
            raise WaitTimeout(f"waited {timeout_s:g} s for {awaiting}{observed}")
        time.sleep(every_s)


def sleep_until(monotonic_s: float, unless: threading.Event | None = None) -> bool:
    """Sleep until a moment of a schedule; return whether it was reached.

    To wait for a condition, use `wait_until`.

    Args:
        monotonic_s: the moment, seconds of the monotonic clock. A past one is reached at once.
        unless: ends the sleep as soon as it is set; the result is then false.
    """
    ended = unless or threading.Event()
    while (left_s := monotonic_s - time.monotonic()) > 0:
        if ended.wait(left_s):
            return False
    return not ended.is_set()
