"""The commands that run Kafka's programs from its jars: with which JVM, flags and start-up cache."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from infra.errors import MachineError
from infra.formatted import formatted_folder
from infra.handle import Launch
from infra.jars import kafka_jars
from infra.jvm import java
from infra.startup_cache import StartupCache, startup_cache
from infra.versions import logs_with_log4j2

_HERE: Final = Path(__file__).parent

NODE_OPTIONS: Final = (
    "-Xms256m",
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",  # three nodes on two cores start in half the time without the second compiler
    "-XX:+ExitOnOutOfMemoryError",
    "-Djava.awt.headless=true",
)


def broker_startup_cache(cache: Path, version: str) -> StartupCache:
    """Return the start-up cache of that version's broker, made or not."""
    return startup_cache(cache, f"kafka-{version}", kafka_jars(cache, version), NODE_OPTIONS)


def broker_launch(cache: Path, version: str) -> Launch:
    """Return how a node of that version is started, with its start-up cache where there is one.

    Raises:
        MachineError: the version is not known or its jars cannot be had.
        HarnessError: no folder could be formatted.
    """
    options = broker_startup_cache(cache, version).options
    command = tool_command(cache, version, "kafka.Kafka", [*NODE_OPTIONS, *options])
    storage_tool = tool_command(cache, version, "kafka.tools.StorageTool", NODE_OPTIONS)
    return Launch((*command, "server.properties"), str(formatted_folder(cache, version, storage_tool)))


def tool_command(cache: Path, version: str, main_class: str, options: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the command that runs a main class of Kafka's jars, ready for its arguments.

    Raises:
        MachineError: the version is not known, its jars cannot be had, or the cache's path cannot stand in a class path.
    """
    jars = kafka_jars(cache, version)
    if any(":" in str(jar) for jar in jars):
        raise MachineError(f"the path {cache} has a colon, which parts a class path: set ACKBENCH_HOME to one without")
    return (str(java()), *options, _logging(version), "-cp", ":".join(map(str, jars)), main_class)


def _logging(version: str) -> str:
    """Each Log4j has a property of its own for where its configuration lies."""
    if logs_with_log4j2(version):
        return f"-Dlog4j2.configurationFile={(_HERE / 'log4j2.properties').as_uri()}"
    return f"-Dlog4j.configuration={(_HERE / 'log4j.properties').as_uri()}"
