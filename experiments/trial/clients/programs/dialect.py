"""The differences between the programs that report their records in lines.

All take the options and report the lines of Kafka's VerifiableProducer and VerifiableConsumer. How
a program is started, what its log shows and what its exceptions mean is its library's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from ackbench.experiments.trial.events.journal import Event

Role = Literal["producer", "consumer"]


@dataclass(frozen=True)
class Launch:
    """The start of a program."""

    command: Sequence[str]
    """The command line; the path of the properties file is its last argument, and follows."""
    settings: Mapping[str, str]
    """The content of the properties file."""
    environment: Mapping[str, str]
    may_fork: bool = True
    """`False`: the program certainly has no child processes."""


class Dialect(Protocol):
    """The programs of one release of a client library."""

    @property
    def kind(self) -> str:
        """The kind of client, as in an experiment."""

    @property
    def overrides_settings(self) -> bool:
        """`True`: a consumer's program sets some settings itself unless options do.

        Whatever its properties file has.
        """

    @property
    def reports_once(self) -> bool:
        """`True`: a program that reports a record twice cannot be trusted."""

    @property
    def logs_time_outs(self) -> bool:
        """`True`: `events` has the requests that timed out."""

    def launch(
        self, role: Role, arguments: Sequence[str], settings: Mapping[str, str], opened: ExitStack
    ) -> Launch:
        """Return how the program is started.

        Args:
            role: what it is to do.
            arguments: of the role.
            settings: of the client, without references.
            opened: ends with the program; what only the program needs is closed there.

        Raises:
            InputError: a setting asks for what the program cannot have.
        """

    def events(self, log: str, client: str, topic: str, ahead_ns: int) -> Iterator[Event]:
        """Yield the events in a program's log so far.

        Args:
            log: the text.
            client: the client's name, with which each detail begins.
            topic: the topic whose leaders to report.
            ahead_ns: how far the trial's clock is ahead of the wall clock.
        """

    def was_removed(self, log: str, since_ms: int) -> bool:
        """Return whether a program says in its log that its group has removed it.

        Args:
            log: the text.
            since_ms: at this time of the wall clock, or later.
        """

    def effective_settings(
        self,
        log: str,
        started: Mapping[str, Any],
        settings: Mapping[str, str],
        passed: Mapping[str, str],
    ) -> dict[str, str]:
        """Return the settings in effect, at least those that were passed.

        Args:
            log: the text.
            started: the line `startup_complete`; empty before it.
            settings: those that the plan takes as effective.
            passed: those of them that the program was given.
        """

    def problem(self, started: Mapping[str, Any]) -> str | None:
        """Return why the program that has started is not the one to test; `None`: it is.

        Args:
            started: the line `startup_complete`.
        """

    def version(self, log: str, started: Mapping[str, Any]) -> str | None:
        """Return the version that the program itself reports; `None`: it reports none."""

    def classify(self, exception: str, retries: int) -> tuple[int, str]:
        """Return the error number of an exception, and the outcome of its record.

        Args:
            exception: as the program reports it.
            retries: the producer's setting.
        """
