"""What a broker has counted itself of a topic: its own metrics, read from its JVM's management beans with Kafka's own JmxTool.

The JVM opens its local management agent when `jcmd` asks it to, so a node needs no flag for it, and nobody but this machine's user can come in.
Names: https://kafka.apache.org/documentation/#monitoring, `kafka.server:type=BrokerTopicMetrics`.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from infra.errors import HarnessError
from infra.jvm.runtime import java_environment, java_home
from infra.kafka.commands import tool_command

METRICS: Final = ("BytesInPerSec", "BytesOutPerSec", "MessagesInPerSec")
"""From producers, to consumers (not to followers, which have counters of their own), and records from producers."""
TIMEOUT_S: Final = 60.0
NO_MATCH: Final = "No matched attributes"
"""What JmxTool says, and ends with 1, where a broker had nothing to count of the topic."""
_TOOL: Final = "org.apache.kafka.tools.JmxTool"
_OPTIONS: Final = ("-Xms32m", "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_URL: Final = re.compile(r"service:jmx:\S+")
_LINE: Final = re.compile(r"name=(?P<name>\w+).*:Count=(?P<count>\d+)")


def topic_metrics(cache: Path, version: str, pid: int, topic: str) -> Mapping[str, int]:
    """Return what a broker has counted of a topic since its process began, by `COUNTED`; what it never had to count is 0.

    Args:
        cache: the home's cache folder.
        version: Kafka's.
        pid: the broker's process.
        topic: its name.

    Raises:
        HarnessError: the JVM or the tool did not answer, with its last words.
        MachineError: the JVM in use has no `jcmd`, or the jars cannot be had.
    """
    beans = f"kafka.server:type=BrokerTopicMetrics,topic={topic},*"
    arguments = (
        "--jmx-url",
        _management_url(pid),
        "--one-time",
        "--report-format",
        "properties",
        "--attributes",
        "Count",
        "--object-name",
        beans,
    )
    return parse_counts(
        _answer((*tool_command(cache, version, _TOOL, _OPTIONS, logs="-client"), *arguments))
    )


def parse_counts(text: str) -> Mapping[str, int]:
    """Return the counts that JmxTool printed. Pure.

    Raises:
        HarnessError: it printed neither counts nor that there are none.
    """
    found = {line["name"]: int(line["count"]) for line in _LINE.finditer(text)}
    if not found and NO_MATCH not in text:
        raise HarnessError(f"JmxTool told no counts: {' '.join(text.split())[-300:]}")
    return {name: found.get(name, 0) for name in METRICS}


def _management_url(pid: int) -> str:
    """Have the JVM open its local management agent, where it has not; return where that is."""
    jcmd = str(java_home() / "bin" / "jcmd")
    _answer((jcmd, str(pid), "ManagementAgent.start_local"))
    told = _answer((jcmd, str(pid), "ManagementAgent.status"))
    found = _URL.search(told)
    if found is None:
        raise HarnessError(
            f"the JVM of process {pid} did not say where its management agent is: {' '.join(told.split())[-300:]}"
        )
    return found[0]


def _answer(command: tuple[str, ...]) -> str:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            env=java_environment(),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HarnessError(f"{Path(command[0]).name}: {error}") from error
    if done.returncode != 0 and NO_MATCH not in done.stdout + done.stderr:
        raise HarnessError(
            f"{Path(command[0]).name} ended with {done.returncode}: {' '.join((done.stderr or done.stdout).split())[-300:]}"
        )
    return done.stdout + done.stderr
