"""A broker's own metrics of a topic, read with Kafka's JmxTool.

`jcmd` starts the JVM's local management agent, so a node needs no JMX flag, and only the user of
the process can connect. Names: https://kafka.apache.org/documentation/#monitoring,
`kafka.server:type=BrokerTopicMetrics`.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ackbench.infra.errors import HarnessError
from ackbench.infra.jvm.runtime import java_environment, java_home
from ackbench.infra.kafka.commands import tool_command

METRICS: Final = ("BytesInPerSec", "BytesOutPerSec", "MessagesInPerSec")
"""Bytes from producers, bytes to consumers (followers have their own metric), and records from
producers."""
_TIMEOUT_S: Final = 60.0
_NO_MATCH: Final = "No matched attributes"
"""JmxTool prints this and exits with 1 where the broker has no metric of the topic."""
_TOOL: Final = "org.apache.kafka.tools.JmxTool"
_OPTIONS: Final = ("-Xms32m", "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_URL: Final = re.compile(r"service:jmx:\S+")
_LINE: Final = re.compile(r"name=(?P<name>\w+).*:Count=(?P<count>\d+)")


def topic_metrics(cache: Path, version: str, pid: int, topic: str) -> Mapping[str, int]:
    """Return a broker's counts for a topic since its process started, by `METRICS`.

    Args:
        cache: the home's cache folder.
        version: the Kafka version.
        pid: the broker's process.
        topic: the topic's name.

    Returns:
        One count per metric; 0 where the broker has not created the metric.

    Raises:
        HarnessError: `jcmd` or JmxTool failed.
        MachineError: the JVM in use has no `jcmd`, or the jars are not available.
    """
    beans = f"kafka.server:type=BrokerTopicMetrics,topic={topic},*"
    arguments = (
        *("--jmx-url", _management_url(pid), "--one-time", "--report-format", "properties"),
        *("--attributes", "Count", "--object-name", beans),
    )
    tool = tool_command(cache, version, _TOOL, _OPTIONS, logs="-client")
    return parse_counts(_run((*tool, *arguments)))


def parse_counts(text: str) -> Mapping[str, int]:
    """Return the counts in JmxTool's output.

    Raises:
        HarnessError: the output has no counts, and not because there is no such metric.
    """
    counts = {line["name"]: int(line["count"]) for line in _LINE.finditer(text)}
    if not counts and _NO_MATCH not in text:
        raise HarnessError(f"JmxTool printed no counts: {_end_of(text)}")
    return {name: counts.get(name, 0) for name in METRICS}


def _management_url(pid: int) -> str:
    """Start the JVM's local management agent unless it runs; return its URL."""
    jcmd = str(java_home() / "bin" / "jcmd")
    _run((jcmd, str(pid), "ManagementAgent.start_local"))
    status = _run((jcmd, str(pid), "ManagementAgent.status"))
    url = _URL.search(status)
    if url is None:
        raise HarnessError(
            f"jcmd reported no URL of the management agent of process {pid}: {_end_of(status)}"
        )
    return url[0]


def _run(command: tuple[str, ...]) -> str:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            env=java_environment(),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HarnessError(f"cannot run {Path(command[0]).name}: {error}") from error
    if done.returncode != 0 and _NO_MATCH not in done.stdout + done.stderr:
        raise HarnessError(
            f"{Path(command[0]).name} failed with exit code {done.returncode}: "
            f"{_end_of(done.stderr or done.stdout)}"
        )
    return done.stdout + done.stderr


def _end_of(text: str) -> str:
    return " ".join(text.split())[-300:]
