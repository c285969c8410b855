"""The names, types and allowed values of Kafka's properties (topics, brokers, its own Java clients), as Kafka's own classes print them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict

from infra.kafka.versions import parse_version
from infra.machine.home import Home

FOLDER: Final = Path(__file__).parent
FEATURES: Final = ("eligible.leader.replicas.version", "group.version", "transaction.version")
"""The features of a cluster that change what it promises, each with levels that are chosen when it is formatted (KIP-584, KIP-1022)."""

_WHOLE: Final = {"short": 16, "int": 32, "long": 64}
"""Kafka's integer types and their bits."""
_BETWEEN: Final = re.compile(r"^\[(-?\d+),\.\.\.(?:,(-?\d+))?\](?: or (-?\d+))?$")
_ONE_OF: Final = re.compile(r"^\[([A-Za-z][\w, ]*)\]$")


class _HasName(Protocol):
    @property
    def name(self) -> str: ...


Named = TypeVar("Named", bound=_HasName)


class Property(BaseModel):
    """One property as Kafka documents it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    type: str
    """`boolean`, `int`, `long`, `short`, `double`, `string`, `list`, `class` or `password`."""
    default: str
    valid: str
    """Kafka's own notation, empty where anything of the type goes: `[1,...]`, `[compact, delete]`, ..."""

    def refusal(self, text: str) -> str | None:
        """Return what is allowed when `text` is not; `None` when it is."""
        if self.type in _WHOLE:
            return self._refusal_of_whole(text)
        if self.type == "double":
            return None if _is_number(text) else "a number"
        if self.type == "boolean":
            return None if text in {"true", "false"} else "true or false"
        return self._refusal_of_words(text)

    def _refusal_of_whole(self, text: str) -> str | None:
        low, high, also = self._bounds()
        if re.fullmatch(r"-?\d{1,19}", text) and (low <= int(text) <= high or int(text) == also):
            return None
        upwards = (
            f"from {low} to {high}"
            if high < self._most()
            else f"of at least {low}"
            if low > -self._most() - 1
            else "of its size"
        )
        return f"a whole number {upwards}" + ("" if also is None else f", or {also}")

    def _most(self) -> int:
        return int(2 ** (_WHOLE[self.type] - 1) - 1)

    def _bounds(self) -> tuple[int, int, int | None]:
        most = self._most()
        found = _BETWEEN.match(self.valid)
        if not found:
            return -most - 1, most, None
        low, high, also = found.groups()
        return int(low), most if high is None else int(high), None if also is None else int(also)

    def _refusal_of_words(self, text: str) -> str | None:
        found = _ONE_OF.match(self.valid)
        allowed = [word.strip() for word in found[1].split(",")] if found else []
        given = [word.strip() for word in text.split(",")] if self.type == "list" else [text]
        if not allowed or all(word in allowed for word in given):
            return None
        return ("any of " if self.type == "list" else "one of ") + ", ".join(allowed)


class Feature(BaseModel):
    """One feature of a cluster, and its levels, which begin with 0: off."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    usual: int
    """Of a new cluster, where nobody asks for another."""
    highest: int

    def refusal(self, text: str) -> str | None:
        """Return what is allowed when `text` is not; `None` when it is."""
        levels = [str(level) for level in range(self.highest + 1)]
        return None if text in levels else f"one of {', '.join(levels)}"


class KafkaProperties(BaseModel):
    """What one version of Kafka knows; `source` says how the file was made."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: str
    source: str
    topic: tuple[Property, ...]
    broker: tuple[Property, ...]
    features: tuple[Feature, ...] = ()
    """Those of `FEATURES` that it has."""
    producer: tuple[Property, ...] = ()
    """Those of Kafka's own Java producer."""
    consumer: tuple[Property, ...] = ()

    def of_topic(self, name: str) -> Property | None:
        """The topic property of that name, if there is one."""
        return _named(self.topic, name)

    def of_broker(self, name: str) -> Property | None:
        """The broker property of that name, if there is one."""
        return _named(self.broker, name)

    def of_feature(self, name: str) -> Feature | None:
        """The feature of that name, if there is one."""
        return _named(self.features, name)


def versions(home: Home | None = None) -> tuple[str, ...]:
    """Return the versions of Kafka whose properties are known: those that we ship a file of, and those that a home's cache holds."""
    folders = (FOLDER, kept_file(home or Home.from_environment(), "").parent)
    known = {
        path.stem.removeprefix("kafka-")
        for folder in folders
        for path in folder.glob("kafka-*.json")
    }
    return tuple(sorted(known, key=parse_version))


def merged(names: Iterable[str]) -> KafkaProperties:
    """Return what any of these versions knows; of a name that several know, what the newest says.

    Raises:
        FileNotFoundError: one of them is none of `versions()`.
    """
    newest_first = [
        kafka_properties(version) for version in sorted(set(names), key=parse_version, reverse=True)
    ]
    first = newest_first[0]
    topic, broker = (
        {known.name: known for one in reversed(newest_first) for known in getattr(one, scope)}
        for scope in ("topic", "broker")
    )
    return first.model_copy(
        update={"topic": tuple(topic.values()), "broker": tuple(broker.values())}
    )


def kept_file(home: Home, version: str) -> Path:
    """Where a home keeps what is known of a version that we ship no file of."""
    return home.cache / "properties" / f"kafka-{version}.json"


@cache
def kafka_properties(version: str) -> KafkaProperties:
    """Return what that version knows.

    Raises:
        FileNotFoundError: the version is none of `versions()`.
    """
    shipped = FOLDER / f"kafka-{version}.json"
    return KafkaProperties.model_validate_json(
        (shipped if shipped.is_file() else kept_file(Home.from_environment(), version)).read_bytes()
    )


def _named(known: Iterable[Named], name: str) -> Named | None:
    return next((one for one in known if one.name == name), None)


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?\d+(\.\d+)?([eE]-?\d+)?", text) is not None
