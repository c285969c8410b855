r"""Extract a Kafka version's properties from its jars.

The classes that hold Kafka's settings print their documentation; this module parses it. The files
that are part of ackbench are made with

    python -m ackbench.experiments.planning.properties.extraction <version> \
        > experiments/planning/properties/kafka-<version>.json

Other versions are extracted once, when a sweep requests them, and kept in the home's cache.
"""

from __future__ import annotations

import html
import itertools
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from ackbench.experiments.planning.properties.definitions import (
    FEATURES,
    Feature,
    KafkaProperties,
    Property,
    cached_file,
    known_versions,
)
from ackbench.infra.errors import HarnessError
from ackbench.infra.kafka.commands import tool_command
from ackbench.infra.kafka.jars import has_cached_jars, kafka_jars, unverified_checksums
from ackbench.infra.kafka.versions import parse_version
from ackbench.infra.machine.files import replace_file
from ackbench.infra.machine.home import Home

CLASSES: Final = {
    "topic": "org.apache.kafka.storage.internals.log.LogConfig",
    "broker": "kafka.server.KafkaConfig",
    "producer": "org.apache.kafka.clients.producer.ProducerConfig",
    "consumer": "org.apache.kafka.clients.consumer.ConsumerConfig",
}
"""Classes whose `main` prints the tables of Kafka's documentation.

These are "Topic Configs", "Broker Configs", "Producer Configs" and "Consumer Configs".
"""
STORAGE_TOOL: Final = "kafka.tools.StorageTool"
"""Prints the features and their levels, from Kafka 4.0 on (KIP-1022)."""
_LEVEL_LIMIT: Final = 100
"""No feature has this many levels."""


def ensure_version_known(home: Home, version: str, notify: Callable[[str], None]) -> None:
    """Make the version one of `known_versions()`, which may download its jars.

    Args:
        home: its cache keeps the jars and the properties.
        version: a version of Kafka.
        notify: shows the user what takes long, and that the jars are not verified.

    Raises:
        InputError: the text is not a version, or one before 3.9.
        MachineError: the jars cannot be downloaded from here.
    """
    if version in known_versions(home):
        return
    parse_version(version)
    if not has_cached_jars(home.cache, version):
        notify(f"fetching the jars of Kafka {version} (once; about a minute)")
    kafka_jars(home.cache, version)
    notify(
        f"Kafka {version} is not one of the versions verified with ackbench: "
        f"its jars' digests were written to {unverified_checksums(home.cache, version)}"
    )
    path = cached_file(home, version)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, extract_properties(home.cache, version).model_dump_json(indent=1))


def extract_properties(cache: Path, version: str) -> KafkaProperties:
    """Return the properties and features that a version's classes print.

    Args:
        cache: the home's cache folder, which holds the jars.
        version: a version of Kafka.

    Raises:
        MachineError: the jars are missing and cannot be downloaded.
        HarnessError: one of the classes failed.
    """
    tables = {
        scope: parse_properties(_printed_by(cache, version, main_class))
        for scope, main_class in CLASSES.items()
    }
    source = f"printed by {', '.join(CLASSES.values())} of Apache Kafka {version}"
    return KafkaProperties(
        version=version, source=source, features=tuple(_features(cache, version)), **tables
    )


_ENTRY: Final = re.compile(
    r'<h4><a id="(?P<name>[^"]+)">.*?<table>(?P<table>.*?)</table>', re.DOTALL
)
_ROW: Final = re.compile(r"<tr><th>(?P<head>[^<]+):</th><td>(?P<text>.*?)</td></tr>", re.DOTALL)


def parse_properties(page: str) -> tuple[Property, ...]:
    """Return the properties that an HTML page printed by one of the classes documents, by name."""
    entries = (
        (match["name"], dict(_ROW.findall(match["table"]))) for match in _ENTRY.finditer(page)
    )
    properties = (
        Property(
            name=name,
            type=rows["Type"],
            default=_cell_text(rows["Default"]),
            valid=_cell_text(rows["Valid Values"]),
        )
        for name, rows in entries
    )
    return tuple(sorted(properties, key=lambda known: known.name))


def _cell_text(cell: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>|\s+\(.*?\)$", "", cell)).strip()


def parse_feature_levels(printed: str) -> dict[str, int]:
    """Return the level of each feature in a new cluster, as `version-mapping` prints them."""
    return {
        name: int(level) for name, level in re.findall(r"(?m)^([a-z.]+\.version)=(\d+)", printed)
    }


def _features(cache: Path, version: str) -> Iterator[Feature]:
    """Yield those of `FEATURES` that the version has; a version without the command has none."""
    result = _run_class(cache, version, STORAGE_TOOL, "version-mapping")
    levels = parse_feature_levels(result.stdout) if result.returncode == 0 else {}
    for name in (name for name in FEATURES if name in levels):
        yield Feature(name=name, usual=levels[name], highest=_highest(cache, version, name))


def _highest(cache: Path, version: str, feature: str) -> int:
    levels = itertools.takewhile(
        lambda level: _is_level(cache, version, feature, level), range(1, _LEVEL_LIMIT)
    )
    return max(levels, default=0)


def _is_level(cache: Path, version: str, feature: str, level: int) -> bool:
    arguments = ("feature-dependencies", "--feature", f"{feature}={level}")
    return _run_class(cache, version, STORAGE_TOOL, *arguments).returncode == 0


def _printed_by(cache: Path, version: str, main_class: str) -> str:
    result = _run_class(cache, version, main_class)
    if result.returncode:
        raise HarnessError(
            f"{main_class} of Kafka {version} failed with exit code {result.returncode}: "
            f"{result.stderr.strip()[-500:]}"
        )
    return result.stdout


def _run_class(
    cache: Path, version: str, main_class: str, *arguments: str
) -> subprocess.CompletedProcess[str]:
    command = [
        *tool_command(cache, version, main_class, ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]),
        *arguments,
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def main() -> None:
    """Print the data file of the version that the command line names."""
    cache = Home.from_environment().cache
    sys.stdout.write(extract_properties(cache, sys.argv[1]).model_dump_json(indent=1) + "\n")


if __name__ == "__main__":
    main()
