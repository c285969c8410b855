"""The commands that run Kafka's programs from its jars: with which JVM, flags and start-up cache."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from infra.errors import InputError, MachineError
from infra.jvm.runtime import java_binary
from infra.jvm.startup_cache import StartupCache, startup_cache
from infra.kafka.jars import kafka_jars
from infra.kafka.spec import ClusterSpec, LaunchSpec
from infra.kafka.storage import formatted_folder
from infra.kafka.versions import parse_version, supports_zookeeper, uses_log4j2
from infra.kafka.zookeeper import MAIN_CLASS, PROPERTIES_FILE

_HERE: Final = Path(__file__).parent

NODE_JVM_OPTIONS: Final = (
    "-Xms256m",
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",  # three nodes on two cores start in half the time without the second compiler
    "-XX:+ExitOnOutOfMemoryError",
    "-Djava.awt.headless=true",
)


ZOOKEEPER_JVM_OPTIONS: Final = ("-Xms64m", "-Xmx64m", *NODE_JVM_OPTIONS[2:])


def broker_startup_cache(cache: Path, spec: ClusterSpec) -> StartupCache:
    """Return the start-up cache of such a cluster's nodes, made or not: what a broker loads is another thing under ZooKeeper."""
    name = "kafka" if spec.coordination == "kraft" else "kafka-zk"
    return startup_cache(
        cache,
        f"{name}-{spec.kafka_version}",
        kafka_jars(cache, spec.kafka_version),
        NODE_JVM_OPTIONS,
    )


def zookeeper_startup_cache(cache: Path, spec: ClusterSpec) -> StartupCache:
    """Return the start-up cache of that version's ZooKeeper servers, made or not."""
    return startup_cache(
        cache,
        f"zookeeper-of-{spec.kafka_version}",
        kafka_jars(cache, spec.kafka_version),
        ZOOKEEPER_JVM_OPTIONS,
    )


def launch_spec(cache: Path, spec: ClusterSpec) -> LaunchSpec:
    """Return how the members of such a cluster are started, with their start-up caches where there are any.

    Raises:
        InputError: its version is none, or has no ZooKeeper.
        MachineError: its jars cannot be had.
        HarnessError: no folder could be formatted.
    """
    version = spec.kafka_version
    options = broker_startup_cache(cache, spec).options
    command = (
        *tool_command(cache, version, "kafka.Kafka", [*NODE_JVM_OPTIONS, *options]),
        "server.properties",
    )
    if spec.coordination == "zookeeper":
        return LaunchSpec(command, "", _zookeeper_command(cache, spec))
    storage_tool = tool_command(cache, version, "kafka.tools.StorageTool", NODE_JVM_OPTIONS)
    return LaunchSpec(command, str(formatted_folder(cache, version, storage_tool, spec.features)))


def _zookeeper_command(cache: Path, spec: ClusterSpec) -> tuple[str, ...]:
    if not supports_zookeeper(spec.kafka_version):
        raise InputError(
            f"Kafka {spec.kafka_version} has no ZooKeeper: coordination zookeeper goes with 3.9"
        )
    options = zookeeper_startup_cache(cache, spec).options
    return (
        *tool_command(cache, spec.kafka_version, MAIN_CLASS, [*ZOOKEEPER_JVM_OPTIONS, *options]),
        PROPERTIES_FILE,
    )


def tool_command(
    cache: Path, version: str, main_class: str, options: Sequence[str] = (), logs: str = ""
) -> tuple[str, ...]:
    """Return the command that runs a main class of Kafka's jars, ready for its arguments.

    Args:
        cache: the home's cache folder.
        version: Kafka's.
        main_class: with its package.
        options: of the JVM.
        logs: which configuration of Log4j: empty for a node, `-client` for a client.

    Raises:
        MachineError: the version is not known, its jars cannot be had, or the cache's path cannot stand in a class path.
    """
    jars = kafka_jars(cache, version)
    if any(":" in str(jar) for jar in jars):
        raise MachineError(
            f"the path {cache} has a colon, which parts a class path: set ACKBENCH_HOME to one without"
        )
    return (
        str(java_binary()),
        *options,
        _logging(version, logs),
        "-cp",
        ":".join(map(str, jars)),
        main_class,
    )


def _logging(version: str, logs: str) -> str:
    """Each Log4j has a property of its own for where its configuration lies."""
    if uses_log4j2(version):
        return f"-Dlog4j2.configurationFile={(_HERE / f'log4j2{logs}.properties').as_uri()}"
    return f"-Dlog4j.configuration={(_HERE / f'log4j{logs}.properties').as_uri()}"


# ---------- The commands that run Kafka's own command-line clients: with which JVM and flags.


ClientProgram = Literal["VerifiableProducer", "VerifiableConsumer"]

_TOOLS_PACKAGE: Final = "org.apache.kafka.tools"
_COMMAND_CONFIG_SINCE: Final = (4, 2, 0)
"""From here on all tools name their file of settings alike (KIP-1147)."""
_CLIENT_JVM_OPTIONS: Final = (
    "-Xms256m",
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",  # beside three nodes on two cores the second compiler costs more than it gives in a trial's few seconds
    "-XX:+DisplayVMOutputToStderr",  # the standard output is the program's own
    "-XX:+ExitOnOutOfMemoryError",
    "-Djava.awt.headless=true",
)


def client_command(cache: Path, version: str, program: ClientProgram) -> tuple[str, ...]:
    """Return the command that runs one of the programs, ready for its arguments.

    Raises:
        MachineError: the version is not known, or its jars cannot be had.
    """
    return tool_command(
        cache, version, f"{_TOOLS_PACKAGE}.{program}", _CLIENT_JVM_OPTIONS, logs="-client"
    )


def config_option(version: str, program: ClientProgram) -> str:
    """Return what the program calls the argument that names its file of settings."""
    if parse_version(version) >= _COMMAND_CONFIG_SINCE:
        return "--command-config"
    return "--producer.config" if program == "VerifiableProducer" else "--consumer.config"
