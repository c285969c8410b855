"""What librdkafka itself says of settings: whether it refuses them, and which properties there are. Touches no network."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

from experiments.clients.librdkafka.client import Client, ConfigRejected
from experiments.clients.librdkafka.library import PRODUCER, library

_ADDRESSES: Final = frozenset({"bootstrap.servers", "metadata.broker.list"})
_ROW: Final = re.compile(
    r"^(?P<name>[a-z0-9._]+) +\| +(?P<scope>[CP*]) +\| (?P<allowed>.*?) *\| *(?P<default>.*?) \| (?:low|medium|high) +\| (?P<text>.*)$"
)
_ALIAS: Final = re.compile(r"Alias for `([^`]+)`")


@dataclass(frozen=True)
class LibrdkafkaProperty:
    """One of librdkafka's properties, in its own words."""

    name: str
    scope: Literal["C", "P", "*"]
    """Consumer, producer or both."""
    allowed: str
    """`0 .. 900000` or `none, gzip, ...`; empty: anything."""
    default: str
    alias_of: str | None
    """The property of which this is a second name."""


def refusal(settings: Mapping[str, str]) -> str | None:
    """Return the client's own reason for refusing to be a producer with these settings, or `None` when it takes them.

    Raises:
        ClientLibraryError: librdkafka was not found, or is of a version not verified.
    """
    try:
        with Client(
            PRODUCER, {name: value for name, value in settings.items() if name not in _ADDRESSES}
        ):
            return None
    except ConfigRejected as refused:
        return str(refused)


@cache
def known_properties() -> Mapping[str, LibrdkafkaProperty]:
    """Return all of librdkafka's properties by name, those of topics and the second names included.

    They are read from `rd_kafka_conf_properties_show`, which prints the CONFIGURATION.md of the very library that is loaded
    (`rd_kafka_conf_dump` leaves out what has no default: `transactional.id`, `group.id`).

    Raises:
        ClientLibraryError: librdkafka was not found, or is of a version not verified.
    """
    found: dict[str, LibrdkafkaProperty] = {}
    for row in _rows(_shown()):
        if row.name not in found or row.alias_of is None:
            found[row.name] = row
    return found


def _rows(table: str) -> Iterator[LibrdkafkaProperty]:
    for row in filter(None, map(_ROW.match, table.splitlines())):
        alias, scope = _ALIAS.search(row["text"]), row["scope"]
        yield LibrdkafkaProperty(
            row["name"],
            "C" if scope == "C" else "P" if scope == "P" else "*",
            row["allowed"].strip(),
            row["default"].strip(),
            alias and alias[1],
        )


def _shown() -> str:
    """Librdkafka prints to a FILE*: this one is memory (open_memstream(3))."""
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
