"""Makes what we know of a version of Kafka's from its own jars: the classes that hold the settings print their documentation.

Run as: python -m experiments.planning.properties.extraction <version> > experiments/properties/kafka-<version>.json
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

from experiments.planning.properties.definitions import (
    FEATURES,
    Feature,
    KafkaProperties,
    Property,
    kept_file,
    versions,
)
from infra.errors import HarnessError
from infra.kafka.commands import tool_command
from infra.kafka.jars import has_cached_jars, kafka_jars, unverified_checksums
from infra.kafka.versions import parse_version
from infra.machine.files import replace_file
from infra.machine.home import Home

CLASSES: Final = {
    "topic": "org.apache.kafka.storage.internals.log.LogConfig",
    "broker": "kafka.server.KafkaConfig",
    "producer": "org.apache.kafka.clients.producer.ProducerConfig",
    "consumer": "org.apache.kafka.clients.consumer.ConsumerConfig",
}
"""Their `main` prints the tables that are published as "Topic Configs", "Broker Configs", "Producer Configs" and "Consumer Configs"."""
STORAGE_TOOL: Final = "kafka.tools.StorageTool"
"""Tells features and their levels, from 4.0 on (KIP-1022)."""
_OFTEN: Final = 100
"""No feature has so many levels."""

_ENTRY: Final = re.compile(
    r'<h4><a id="(?P<name>[^"]+)">.*?<table>(?P<table>.*?)</table>', re.DOTALL
)
_ROW: Final = re.compile(r"<tr><th>(?P<head>[^<]+):</th><td>(?P<text>.*?)</td></tr>", re.DOTALL)


def extracted(cache: Path, version: str) -> KafkaProperties:
    """Return what a version's jars say of it.

    Args:
        cache: the home's cache folder, which has the jars.
        version: Kafka's.

    Raises:
        MachineError: the jars cannot be had.
        HarnessError: one of its classes could not be run.
    """
    pages = {
        scope: properties_of(_told(cache, version, main_class))
        for scope, main_class in CLASSES.items()
    }
    source = f"printed by {', '.join(CLASSES.values())} of Apache Kafka {version}"
    return KafkaProperties(
        version=version, source=source, features=tuple(_features(cache, version)), **pages
    )


def properties_of(printed: str) -> tuple[Property, ...]:
    """Return the properties that a page printed by one of the classes documents, by name."""
    entries = (
        (match["name"], dict(_ROW.findall(match["table"]))) for match in _ENTRY.finditer(printed)
    )
    return tuple(
        sorted((_property(name, rows) for name, rows in entries), key=lambda known: known.name)
    )


def levels_of(printed: str) -> dict[str, int]:
    """Return the level of each feature in a new cluster, as `version-mapping` prints them."""
    return {
        name: int(level) for name, level in re.findall(r"(?m)^([a-z.]+\.version)=(\d+)", printed)
    }


def _features(cache: Path, version: str) -> Iterator[Feature]:
    """Give the features of `FEATURES` that the version has; one that cannot tell has none that can be chosen."""
    printed = _ran(cache, version, STORAGE_TOOL, "version-mapping")
    usual = levels_of(printed.stdout) if printed.returncode == 0 else {}
    for name in (name for name in FEATURES if name in usual):
        yield Feature(name=name, usual=usual[name], highest=_highest(cache, version, name))


def _highest(cache: Path, version: str, feature: str) -> int:
    levels = itertools.takewhile(
        lambda level: _is_level(cache, version, feature, level), range(1, _OFTEN)
    )
    return max(levels, default=0)


def _is_level(cache: Path, version: str, feature: str, level: int) -> bool:
    return (
        _ran(
            cache, version, STORAGE_TOOL, "feature-dependencies", "--feature", f"{feature}={level}"
        ).returncode
        == 0
    )


def _property(name: str, rows: dict[str, str]) -> Property:
    return Property(
        name=name,
        type=rows["Type"],
        default=_text(rows["Default"]),
        valid=_text(rows["Valid Values"]),
    )


def _text(cell: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>|\s+\(.*?\)$", "", cell)).strip()


def _told(cache: Path, version: str, main_class: str) -> str:
    ran = _ran(cache, version, main_class)
    if ran.returncode:
        raise HarnessError(
            f"{main_class} of Kafka {version} could not be asked: {ran.stderr.strip()[-500:]}"
        )
    return ran.stdout


def _ran(
    cache: Path, version: str, main_class: str, *arguments: str
) -> subprocess.CompletedProcess[str]:
    command = [
        *tool_command(cache, version, main_class, ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]),
        *arguments,
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def main() -> None:
    """Print the data file of the version that the command line names."""
    sys.stdout.write(
        extracted(Home.from_environment().cache, sys.argv[1]).model_dump_json(indent=1) + "\n"
    )


if __name__ == "__main__":
    main()


# ---------- What is known of a version that we ship no file for: asked from its own jars once, and kept in the cache.


def ensure_version_known(home: Home, version: str, say: Callable[[str], None]) -> None:
    """Make the version one of `versions()`; costs nothing where it is.

    Args:
        home: in whose cache its jars and what they say are kept.
        version: Kafka's.
        say: tells a person what takes long, and that nobody verified the jars.

    Raises:
        InputError: that is no version, or one before 3.9.
        MachineError: its jars cannot be had from here.
    """
    if version in versions(home):
        return
    parse_version(version)
    if not has_cached_jars(home.cache, version):
        say(f"fetching the jars of Kafka {version} (once; about a minute)")
    kafka_jars(home.cache, version)
    say(
        f"Kafka {version} is none of the versions that we verified: its jars' digests were written to {unverified_checksums(home.cache, version)}"
    )
    _keep(home, version)


def _keep(home: Home, version: str) -> None:

    path = kept_file(home, version)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, extracted(home.cache, version).model_dump_json(indent=1))
