"""The properties that the loaded librdkafka knows, from the library itself."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

from experiments.clients.librdkafka.library import library

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

    Raises:
        ClientLibraryError: librdkafka was not found, or its version is not verified.
    """
    known: dict[str, LibrdkafkaProperty] = {}
    for row in _parse_rows(_properties_table()):
        if row.name not in known or row.alias_of is None:
            known[row.name] = row
    return known


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
