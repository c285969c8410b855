"""The signals that ask a program to end, and a handler that has them for a while."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

INTERRUPTS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, a supervisor, and a terminal that is closed."""


@contextmanager
def handled_by(
    handler: Callable[[int, FrameType | None], Any], signals: Iterable[signal.Signals] = INTERRUPTS
) -> Iterator[None]:
    """Let a handler have signals within the context; then the former handlers are back."""
    before = {number: signal.signal(number, handler) for number in signals}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)
