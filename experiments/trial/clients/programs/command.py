"""Any program that speaks the lines of `docs/clients.md` as a client under test."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from ackbench.experiments.ledger.terms import UNKNOWN
from ackbench.experiments.messages.phrases import format_value
from ackbench.experiments.trial.clients.programs.dialect import Launch, Role
from ackbench.experiments.trial.clients.programs.tables import NO_CODE
from ackbench.experiments.trial.clients.settings.tokens import TOKEN_COMMAND
from ackbench.experiments.trial.events.journal import Event
from ackbench.infra.errors import InputError


@dataclass(frozen=True)
class CommandDialect:
    """A program of an adapter or of a user; implements `programs.Dialect`."""

    kind: str
    command: Sequence[str]
    """Without the role."""
    release: str | None = None
    """Of its library, for a program that does not report it."""
    reports_once: bool = True
    overrides_settings: bool = False
    logs_time_outs: bool = False

    def launch(
        self, role: Role, arguments: Sequence[str], settings: Mapping[str, str], opened: ExitStack
    ) -> Launch:
        """Return the command with its role.

        Raises:
            InputError: the settings have a command for tokens.
        """
        del opened
        if TOKEN_COMMAND in settings:
            raise InputError(
                f"token_command with client {self.kind}; allowed: librdkafka or java, which "
                "ackbench passes tokens to"
            )
        command = [*self.command, role, *arguments, "--command-config"]
        options = {"bootstrap.servers", "group.id"}
        given = {name: text for name, text in settings.items() if name not in options}
        return Launch(command, given, os.environ)

    @staticmethod
    def events(log: str, client: str, topic: str, ahead_ns: int) -> Iterator[Event]:
        """Yield nothing: each library logs in its own words."""
        del log, client, topic, ahead_ns
        yield from ()

    @staticmethod
    def was_removed(log: str, since_ms: int) -> bool:
        """Return `False`: each library logs in its own words."""
        del log, since_ms
        return False

    @staticmethod
    def effective_settings(
        log: str, started: Mapping[str, Any], settings: Mapping[str, str], passed: Mapping[str, str]
    ) -> dict[str, str]:
        """Return the settings that the program reports, and those that it was given."""
        del log, settings
        reported = started.get("settings")
        if not isinstance(reported, Mapping):
            return dict(passed)
        return {**passed, **{str(name): str(value) for name, value in reported.items()}}

    def problem(self, started: Mapping[str, Any]) -> str | None:
        """Return that the line has no time, or another version than was asked for."""
        if not isinstance(started.get("timestamp"), int):
            return f"startup_complete has the timestamp {format_value(started.get('timestamp'))}"
        reported = self.version("", started)
        if self.release is None or reported == self.release:
            return None
        return f"it reports version {format_value(reported)}, and {self.release} was asked for"

    def version(self, log: str, started: Mapping[str, Any]) -> str | None:
        """Return the version that the program reports, or else the one that was asked for."""
        del log
        reported = started.get("version")
        return str(reported) if isinstance(reported, str) and reported else self.release

    @staticmethod
    def classify(exception: str, retries: int) -> tuple[int, str]:
        """Return that nothing is known: a line says itself that its record is rejected."""
        del exception, retries
        return NO_CODE, UNKNOWN
