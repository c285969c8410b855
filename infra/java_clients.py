"""The commands that run Kafka's own command-line clients: with which JVM and flags."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from infra.brokers import tool_command
from infra.versions import numbers_of

Program = Literal["VerifiableProducer", "VerifiableConsumer"]

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


def client_command(cache: Path, version: str, program: Program) -> tuple[str, ...]:
    """Return the command that runs one of the programs, ready for its arguments.

    Raises:
        MachineError: the version is not known, or its jars cannot be had.
    """
    return tool_command(cache, version, f"{_PACKAGE}.{program}", _OPTIONS, logs="-client")


def config_argument(version: str, program: Program) -> str:
    """Return what the program calls the argument that names its file of settings."""
    if numbers_of(version) >= _COMMAND_CONFIG:
        return "--command-config"
    return "--producer.config" if program == "VerifiableProducer" else "--consumer.config"
