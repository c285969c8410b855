"""Kafka's own Java programs as clients under test: how they are started and what they log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ackbench.experiments.trial.clients.java.log import (
    effective_settings,
    read_java_log,
    version_in,
    was_removed,
)
from ackbench.experiments.trial.clients.java.outcomes import classify_exception
from ackbench.experiments.trial.clients.java.token_endpoint import TokenEndpoint
from ackbench.experiments.trial.clients.programs.dialect import Launch, Role
from ackbench.experiments.trial.clients.settings.tokens import TOKEN_COMMAND
from ackbench.experiments.trial.events.journal import Event
from ackbench.infra.jvm.runtime import java_environment
from ackbench.infra.kafka.commands import (
    ClientProgram,
    client_command,
    config_option,
    source_command,
)

_PROGRAMS: Final[Mapping[Role, ClientProgram]] = {
    "producer": "VerifiableProducer",
    "consumer": "VerifiableConsumer",
}
TRANSACTIONAL_PRODUCER: Final = Path(__file__).with_name("TransactionalProducer.java")
COPIER: Final = Path(__file__).with_name("Copier.java")


@dataclass(frozen=True)
class JavaDialect:
    """The programs in the jars of one release of Kafka; implements `programs.Dialect`."""

    release: str
    """Kafka's version, of the jars and so of the clients."""
    cache: Path
    """The cache folder with those jars."""
    source: Path | None = None
    """A program of ackbench's own, which is compiled when it is run; `None`: Kafka's."""
    kind: str = "java"
    logs_time_outs: bool = True
    overrides_settings: bool = True
    reports_once: bool = False
    """A send that raises an exception is reported by VerifiableProducer, and by its callback."""

    def launch(
        self, role: Role, arguments: Sequence[str], settings: Mapping[str, str], opened: ExitStack
    ) -> Launch:
        """Return the command of a JVM; with `TOKEN_COMMAND`, it gets its tokens from an endpoint.

        Raises:
            InputError: the command for tokens gives none.
        """
        java, *program = self._program(role)
        given = dict(settings)
        token_command = given.pop(TOKEN_COMMAND, None)
        if token_command is not None:
            endpoint = TokenEndpoint(token_command)
            opened.callback(endpoint.close)
            given |= endpoint.settings
            program = [*endpoint.jvm_options, *program]
        command = [java, *program, *arguments, self._config_option(role)]
        return Launch(command, given, java_environment(), may_fork=False)

    def _program(self, role: Role) -> Sequence[str]:
        if self.source:
            return source_command(self.cache, self.release, self.source)
        return client_command(self.cache, self.release, _PROGRAMS[role])

    def _config_option(self, role: Role) -> str:
        return "--command-config" if self.source else config_option(self.release, _PROGRAMS[role])

    @staticmethod
    def events(log: str, client: str, topic: str, ahead_ns: int) -> Iterator[Event]:
        """Yield the events in a client's log so far (`java.log`)."""
        return read_java_log(log, client, topic, ahead_ns)

    @staticmethod
    def was_removed(log: str, since_ms: int) -> bool:
        """Return whether the client says that its group has removed it (`java.log`)."""
        return was_removed(log, since_ms)

    @staticmethod
    def effective_settings(
        log: str, started: Mapping[str, Any], settings: Mapping[str, str], passed: Mapping[str, str]
    ) -> dict[str, str]:
        """Return the settings that the client reports in its log."""
        del started, passed
        return effective_settings(log, settings)

    @staticmethod
    def problem(started: Mapping[str, Any]) -> None:
        """Return `None`: the jars are of the release."""
        del started

    @staticmethod
    def version(log: str, started: Mapping[str, Any]) -> str | None:
        """Return the version that the client reports in its log."""
        del started
        return version_in(log)

    @staticmethod
    def classify(exception: str, retries: int) -> tuple[int, str]:
        """Return an exception's error number, and its record's outcome (`java.outcomes`)."""
        return classify_exception(exception, retries)
