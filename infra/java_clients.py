"""The commands that run Kafka's own command-line clients: with which JVM, flags and start-up cache."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from infra.brokers import tool_command
from infra.jars import kafka_jars
from infra.startup_cache import StartupCache, startup_cache
from infra.versions import numbers_of

Program = Literal["VerifiableProducer", "VerifiableConsumer"]
PROGRAMS: Final[tuple[Program, ...]] = ("VerifiableProducer", "VerifiableConsumer")

_PACKAGE: Final = "org.apache.kafka.tools"
_COMMAND_CONFIG: Final = (4, 2, 0)
"""From here on all tools name their file of settings alike (KIP-1147)."""
_OPTIONS: Final = (
    "-Xms256m",
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",  # beside three nodes on two cores the second compiler costs more than it gives in a trial's few seconds
    "-XX:+DisplayVMOutputToStderr",  # the standard output is the program's own
    "-XX:+ExitOnOutOfMemoryError",
    "-Djava.awt.headless=true",
)


def client_startup_cache(cache: Path, version: str, program: Program) -> StartupCache:
    """Return the start-up cache of one of the programs, made or not.

    Raises:
        MachineError: the version's jars cannot be had.
    """
    return startup_cache(cache, f"{program}-{version}", kafka_jars(cache, version), _OPTIONS)


def client_command(cache: Path, version: str, program: Program, options: Sequence[str] | None = None) -> tuple[str, ...]:
    """Return the command that runs one of the programs, ready for its arguments.

    Args:
        cache: the home's cache folder.
        version: Kafka's.
        program: which one.
        options: of the JVM, in the place of those that use the start-up cache.

    Raises:
        MachineError: the version is not known, or its jars cannot be had.
    """
    more = client_startup_cache(cache, version, program).options if options is None else options
    return tool_command(cache, version, f"{_PACKAGE}.{program}", [*_OPTIONS, *more], logs="-client")


def config_argument(version: str, program: Program) -> str:
    """Return what the program calls the argument that names its file of settings."""
    if numbers_of(version) >= _COMMAND_CONFIG:
        return "--command-config"
    return "--producer.config" if program == "VerifiableProducer" else "--consumer.config"
