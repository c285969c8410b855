"""Failures of what runs on an event loop and is awaited by no task, such as a relay's connection.

`asyncio` reports them to the loop's exception handler, closes the connection in question, and goes
on. Errors of the network (`OSError`) are not among them: these are a relay's daily work.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from ackbench.infra.process.exits import ProcessExit


class LoopFailures:
    """The failures of one event loop."""

    def __init__(self, name: str) -> None:
        """Begin without failures.

        Args:
            name: what runs on the loop, in messages: `a relay`.
        """
        self._name = name
        self._failures: list[ProcessExit] = []

    @property
    def so_far(self) -> tuple[ProcessExit, ...]:
        """All failures so far, by time."""
        return tuple(self._failures)

    def note(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Note a failure and log it, as the exception handler of a loop."""
        self.add(context.get("exception") or context["message"])
        loop.default_exception_handler(context)

    def add(self, failure: object) -> None:
        """Note a failure now."""
        number = len(self._failures) + 1
        how = f"failed ({failure!r})"
        self._failures.append(ProcessExit(self._name, number, time.monotonic(), how))
