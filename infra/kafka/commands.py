"""The commands that run Kafka's programs from its jars: JVM, flags and start-up caches."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from ackbench.infra.errors import HarnessError, InputError, MachineError
from ackbench.infra.jvm.runtime import java_binary
from ackbench.infra.jvm.startup_cache import StartupCache, startup_cache
from ackbench.infra.kafka.jars import kafka_jars
from ackbench.infra.kafka.spec import ClusterSpec, LaunchSpec
from ackbench.infra.kafka.storage import formatted_folder
from ackbench.infra.kafka.versions import parse_client_version, supports_zookeeper, uses_log4j2
from ackbench.infra.kafka.zookeeper import MAIN_CLASS, PROPERTIES_FILE
from ackbench.infra.machine.home import INSTALL

_HERE: Final = Path(__file__).parent

NODE_JVM_OPTIONS: Final = (
    "-Xms256m",
    "-Xmx256m",
    "-XX:+UseSerialGC",
    # Without the second compiler, three nodes on two cores start in half the time.
    "-XX:TieredStopAtLevel=1",
    "-XX:+ExitOnOutOfMemoryError",
    "-Djava.awt.headless=true",
)
ZOOKEEPER_JVM_OPTIONS: Final = ("-Xms64m", "-Xmx64m", *NODE_JVM_OPTIONS[2:])
_CLIENT_JVM_OPTIONS: Final = (
    *NODE_JVM_OPTIONS,
    "-XX:+DisplayVMOutputToStderr",  # stdout belongs to the program
)

ClientProgram = Literal["VerifiableProducer", "VerifiableConsumer"]
_JANINO: Final = "org.codehaus.janino.JavaSourceClassLoader"
_TOOLS_PACKAGE: Final = "org.apache.kafka.tools"
_COMMAND_CONFIG_SINCE: Final = (4, 2, 0)
"""From this version on, all tools have the option `--command-config` (KIP-1147)."""
_LOGS_TIMEOUTS_SINCE: Final = (3, 0, 0)
"""From this version on, clients log at INFO that a request timed out. Tried: 2.8.1 does not."""


def broker_startup_cache(cache: Path, spec: ClusterSpec) -> StartupCache:
    """Return the start-up cache of a cluster's nodes, whether it exists or not.

    Brokers under KRaft and under ZooKeeper load different classes, so each has its own cache.
    """
    name = "kafka" if spec.coordination == "kraft" else "kafka-zk"
    return startup_cache(
        cache,
        f"{name}-{spec.kafka_version}",
        kafka_jars(cache, spec.kafka_version),
        NODE_JVM_OPTIONS,
    )


def zookeeper_startup_cache(cache: Path, spec: ClusterSpec) -> StartupCache:
    """Return the start-up cache of a version's ZooKeeper servers, whether it exists or not."""
    return startup_cache(
        cache,
        f"zookeeper-of-{spec.kafka_version}",
        kafka_jars(cache, spec.kafka_version),
        ZOOKEEPER_JVM_OPTIONS,
    )


def launch_spec(cache: Path, spec: ClusterSpec) -> LaunchSpec:
    """Return how the nodes of a cluster are started, with their start-up caches if they exist.

    Raises:
        InputError: the Kafka version is invalid, or does not support ZooKeeper.
        MachineError: the jars are not available.
        HarnessError: Kafka's storage tool failed.
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
            f"Kafka {spec.kafka_version} does not support ZooKeeper: use Kafka 3.9 or KRaft"
        )
    options = zookeeper_startup_cache(cache, spec).options
    return (
        *tool_command(cache, spec.kafka_version, MAIN_CLASS, [*ZOOKEEPER_JVM_OPTIONS, *options]),
        PROPERTIES_FILE,
    )


def tool_command(
    cache: Path,
    version: str,
    main_class: str,
    options: Sequence[str] = (),
    logs: str = "",
    more_jars: Sequence[Path] = (),
) -> tuple[str, ...]:
    """Return the command that runs a main class of Kafka's jars, ready for its arguments.

    Args:
        cache: the home's cache folder.
        version: the Kafka version.
        main_class: the fully qualified class name.
        options: JVM options.
        logs: the suffix of the Log4j configuration: empty for a node, `-client` for a client.
        more_jars: for the class path, after Kafka's own.

    Raises:
        InputError: the Kafka version is invalid.
        MachineError: the jars are not available, or the cache's path has a colon.
    """
    jars = (*kafka_jars(cache, version), *more_jars)
    if any(":" in str(jar) for jar in jars):
        raise MachineError(
            f"the path {cache} has a colon, which separates the entries of a class path; "
            "set ACKBENCH_HOME to a path without a colon"
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
    """Return the JVM option that selects the Log4j configuration."""
    if uses_log4j2(version):
        return f"-Dlog4j2.configurationFile={(_HERE / f'log4j2{logs}.properties').as_uri()}"
    if logs and parse_client_version(version) < _LOGS_TIMEOUTS_SINCE:
        logs = f"{logs}-2"
    return f"-Dlog4j.configuration={(_HERE / f'log4j{logs}.properties').as_uri()}"


def client_command(cache: Path, version: str, program: ClientProgram) -> tuple[str, ...]:
    """Return the command that runs one of Kafka's command-line clients, ready for its arguments.

    Raises:
        InputError: the Kafka version is invalid.
        MachineError: the jars are not available.
    """
    return tool_command(
        cache, version, f"{_TOOLS_PACKAGE}.{program}", _CLIENT_JVM_OPTIONS, logs="-client"
    )


def source_command(cache: Path, version: str, source: Path) -> tuple[str, ...]:
    """Return the command that compiles and runs a Java source with Kafka's jars as a client.

    The JVM has no compiler. Janino, which PySpark brings for generated code, is one in two jars; it
    knows no lambda expressions.

    Args:
        cache: the home's cache folder.
        version: the Kafka version.
        source: a file with one public class of the same name, in no package.

    Raises:
        InputError: the Kafka version is invalid.
        MachineError: the jars are not available.
        HarnessError: PySpark lacks Janino.
    """
    command = tool_command(
        cache,
        version,
        _JANINO,
        _CLIENT_JVM_OPTIONS,
        logs="-client",
        more_jars=[_pyspark_jar("janino"), _pyspark_jar("commons-compiler")],
    )
    return (*command, "-sourcepath", str(source.parent), source.stem)


def _pyspark_jar(name: str) -> Path:
    """Return a jar that PySpark brings, such as `janino`.

    Raises:
        HarnessError: PySpark has no such jar.
    """
    import pyspark

    jars = sorted(Path(pyspark.__file__).parent.glob(f"jars/{name}-[0-9]*.jar"))
    if not jars:
        raise HarnessError(f"PySpark has no jars/{name}-*.jar: {INSTALL} installs it")
    return jars[-1]


def config_option(version: str, program: ClientProgram) -> str:
    """Return the program's option for its properties file."""
    if parse_client_version(version) >= _COMMAND_CONFIG_SINCE:
        return "--command-config"
    return "--producer.config" if program == "VerifiableProducer" else "--consumer.config"
