"""Ctrl-C, SIGTERM and SIGHUP while a sweep runs: noted, and acted on by the loop that watches the run."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType
from typing import Any, Final, Self

HEARD: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Counts the signals that ask for an end, between entering and leaving the context."""

    def __init__(self) -> None:
        self.count = 0
        self.first: signal.Signals | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        """Take the signals over."""
        self._before = {heard: signal.signal(heard, self._note) for heard in HEARD}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Give them back."""
        for heard, before in self._before.items():
            signal.signal(heard, before)

    @property
    def exit_code(self) -> int:
        """What a shell expects of a process that such a signal ended: 128 and its number."""
        return 128 + (self.first or 0)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.first = self.first or signal.Signals(number)
        self.count += 1
