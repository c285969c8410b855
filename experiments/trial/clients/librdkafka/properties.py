"""The properties that librdkafka knows: from the loaded library, or from a copy of its table.

`properties.json` is that table of the version that the lock file installs, for installations
without librdkafka (`ackbench check` in the light one). Running this module writes it, and a test
compares it with the library.
"""

from __future__ import annotations

import ctypes
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal

from ackbench.experiments.trial.clients.librdkafka.library_file import is_installed

COPY: Final = Path(__file__).with_name("properties.json")
_ROW: Final = re.compile(
    r"^(?P<name>[a-z0-9._]+) +\| +(?P<scope>[CP*]) +\| (?P<allowed>.*?) *\| *(?P<default>.*?) \| "
    r"(?:low|medium|high) +\| (?P<text>.*)$"
)
_ALIAS: Final = re.compile(r"Alias for `([^`]+)`")

Scope = Literal["C", "P", "*"]
_SCOPES: Final[Mapping[str, Scope]] = {"C": "C", "P": "P", "*": "*"}


@dataclass(frozen=True)
class LibrdkafkaProperty:
    """One row of librdkafka's CONFIGURATION.md."""

    name: str
    scope: Scope
    """Consumer, producer or both."""
    allowed: str
    """`0 .. 900000` or `none, gzip, ...`; empty: anything."""
    default: str
    alias_of: str | None
    """The property that this name is an alias of."""


@cache
def known_properties() -> Mapping[str, LibrdkafkaProperty]:
    """Return all of librdkafka's properties by name, topic properties and aliases included.

    The source is `rd_kafka_conf_properties_show`, which prints the CONFIGURATION.md of the loaded
    library. (`rd_kafka_conf_dump` omits properties without a default: `transactional.id`,
    `group.id`.)

    Without librdkafka, they are those of the copy.

    Raises:
        ClientLibraryError: confluent-kafka has no librdkafka, or one that is not verified.
    """
    return by_name(_parse_rows(_properties_table()) if is_installed() else copied_rows())


def by_name(rows: Iterable[LibrdkafkaProperty]) -> Mapping[str, LibrdkafkaProperty]:
    """Return the rows by name; of two with one name, the one that is no alias."""
    known: dict[str, LibrdkafkaProperty] = {}
    for row in rows:
        if row.name not in known or row.alias_of is None:
            known[row.name] = row
    return known


def copied_rows() -> Iterator[LibrdkafkaProperty]:
    """Yield the rows of the copy of librdkafka's table."""
    for row in json.loads(COPY.read_text()):
        yield LibrdkafkaProperty(*row)


def table_rows() -> list[list[str | None]]:
    """Return the rows of the loaded library, as the copy has them."""
    return [
        [row.name, row.scope, row.allowed, row.default, row.alias_of]
        for row in _parse_rows(_properties_table())
    ]


def _parse_rows(table: str) -> Iterator[LibrdkafkaProperty]:
    for row in filter(None, map(_ROW.match, table.splitlines())):
        alias = _ALIAS.search(row["text"])
        yield LibrdkafkaProperty(
            row["name"],
            _SCOPES[row["scope"]],
            row["allowed"].strip(),
            row["default"].strip(),
            alias and alias[1],
        )


def _properties_table() -> str:
    """Return what librdkafka prints to a FILE*, here one in memory (open_memstream(3))."""
    from ackbench.experiments.trial.clients.librdkafka.library import library

    libc = ctypes.CDLL(None)
    libc.open_memstream.restype = ctypes.c_void_p
    text, size = ctypes.c_void_p(), ctypes.c_size_t()
    stream = ctypes.c_void_p(libc.open_memstream(ctypes.byref(text), ctypes.byref(size)))
    library().rd_kafka_conf_properties_show(stream)
    libc.fclose(stream)
    try:
        return ctypes.string_at(text, size.value).decode()
    finally:
        libc.free(text)


if __name__ == "__main__":
    rows = ",\n".join(json.dumps(row) for row in table_rows())
    COPY.write_text(f"[\n{rows}\n]\n")
