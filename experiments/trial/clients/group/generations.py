"""A program that a trial starts, through all its generations: faults kill it and start it again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Generic, Self, TypeVar

from ackbench.experiments.ledger.terms import Source
from ackbench.experiments.trial.clients.group.messages import MEMBER_CRASHED
from ackbench.experiments.trial.clients.process.session_process import SessionProcess
from ackbench.experiments.trial.events.clock import now_ns
from ackbench.experiments.trial.events.journal import Event

Process = TypeVar("Process", bound=SessionProcess)


class Generations(ABC, Generic[Process]):
    """The processes of one program of a group, one after another, as a context manager.

    Args:
        name: of the program in messages: `application 1`.

    Raises:
        OSError: the first process could not be started.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._crashes: list[Event] = []
        self._generations = [self._start(0)]

    @abstractmethod
    def _start(self, generation: int) -> Process:
        """Start the process of a generation."""

    def __enter__(self) -> Self:
        """Return the program; leaving the context kills it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Kill the process of each generation unless it has exited."""
        for generation in self._generations:
            generation.kill()

    @property
    def _now(self) -> Process:
        return self._generations[-1]

    @property
    def pid(self) -> int:
        """The process of the current generation."""
        return self._now.pid

    @property
    def generation_name(self) -> str:
        """The program and its generation: `application 1.0`."""
        return self._now.name

    def is_held(self) -> bool:
        """Return whether a fault keeps the process stopped now."""
        return self._now.is_paused

    def is_alive(self) -> bool:
        """Return whether the process runs."""
        return not self._now.has_exited()

    def require_alive(self) -> None:
        """Raise an error if the process has exited; see `SessionProcess.require_alive`."""
        self._now.require_alive()

    def unexpected_exit(self) -> str | None:
        """Return how the process has exited, unless a fault or the end of the trial ended it."""
        return None if self._now.was_ended or self.is_alive() else self._now.describe_exit()

    def crash(self) -> None:
        """Kill the process and its children as a fault, and note it.

        Raises:
            HarnessError: it has exited by itself.
        """
        self.require_alive()
        self._now.kill()
        self._crashes.append(
            Event(now_ns(), MEMBER_CRASHED, Source.TRIAL, detail=self.generation_name)
        )

    def restart(self) -> None:
        """Start the next generation with the same command."""
        self._generations.append(self._start(len(self._generations)))

    def pause(self) -> None:
        """Pause the process and its children; see `SessionProcess.pause`."""
        self._now.pause()

    def resume(self) -> None:
        """Resume them; has no effect on a process that has exited."""
        self._now.resume()

    def events(self) -> Iterator[Event]:
        """Yield its crashes."""
        yield from self._crashes
