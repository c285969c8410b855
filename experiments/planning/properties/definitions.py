"""Kafka's properties by version: name, type, default and allowed values.

They cover topics, brokers and Kafka's own Java clients, and are the output of Kafka's own classes
(see `experiments.planning.properties.extraction`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict

from ackbench.infra.kafka.versions import parse_client_version, parse_version
from ackbench.infra.machine.home import Home

FOLDER: Final = Path(__file__).parent
FEATURES: Final = ("eligible.leader.replicas.version", "group.version", "transaction.version")
"""Features of a cluster that change what Kafka guarantees.

Their levels are chosen when the cluster is formatted (KIP-584, KIP-1022).
"""

_INTEGER_BITS: Final = {"short": 16, "int": 32, "long": 64}
"""Size of Kafka's integer types."""
_BETWEEN: Final = re.compile(r"^\[(-?\d+),\.\.\.(?:,(-?\d+))?\](?: or (-?\d+))?$")
_ONE_OF: Final = re.compile(r"^\[([A-Za-z][\w, ]*)\]$")


class Property(BaseModel):
    """One property as Kafka documents it."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    name: str
    type: str
    """`boolean`, `int`, `long`, `short`, `double`, `string`, `list`, `class` or `password`."""
    default: str
    valid: str
    """Allowed values in Kafka's notation: `[1,...]`, `[compact, delete]`; empty for all."""

    def allowed_instead_of(self, text: str) -> str | None:
        """Return a description of the allowed values if `text` is not allowed, else `None`."""
        if self.type in _INTEGER_BITS:
            return self._allowed_integer(text)
        if self.type == "double":
            return None if _is_number(text) else "a number"
        if self.type == "boolean":
            return None if text in {"true", "false"} else "true or false"
        return self._allowed_words(text)

    def _allowed_integer(self, text: str) -> str | None:
        low, high, special = self._bounds()
        if re.fullmatch(r"-?\d{1,19}", text) and (low <= int(text) <= high or int(text) == special):
            return None
        if high < self._type_max():
            bounds = f"from {low} to {high}"
        elif low > -self._type_max() - 1:
            bounds = f"of at least {low}"
        else:
            bounds = f"of {_INTEGER_BITS[self.type]} bits"
        return f"a whole number {bounds}" + ("" if special is None else f", or {special}")

    def _type_max(self) -> int:
        return int(2 ** (_INTEGER_BITS[self.type] - 1) - 1)

    def _bounds(self) -> tuple[int, int, int | None]:
        """Return the lowest and the highest value, and a special value outside of them."""
        type_max = self._type_max()
        match = _BETWEEN.match(self.valid)
        if not match:
            return -type_max - 1, type_max, None
        low, high, special = match.groups()
        return (
            int(low),
            type_max if high is None else int(high),
            None if special is None else int(special),
        )

    def _allowed_words(self, text: str) -> str | None:
        match = _ONE_OF.match(self.valid)
        allowed = [word.strip() for word in match[1].split(",")] if match else []
        words = [word.strip() for word in text.split(",")] if self.type == "list" else [text]
        if not allowed or all(word in allowed for word in words):
            return None
        return ("any of " if self.type == "list" else "one of ") + ", ".join(allowed)


class Feature(BaseModel):
    """A feature of a cluster and its levels, from 0 (off) on."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    name: str
    usual: int
    """Level in a new cluster unless another is requested."""
    highest: int

    def allowed_instead_of(self, text: str) -> str | None:
        """Return a description of the allowed levels if `text` is not one, else `None`."""
        levels = [str(level) for level in range(self.highest + 1)]
        return None if text in levels else f"one of {', '.join(levels)}"


class KafkaProperties(BaseModel):
    """The properties and features of one version of Kafka."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    version: str
    source: str
    """How the file was made."""
    topic: tuple[Property, ...]
    broker: tuple[Property, ...]
    features: tuple[Feature, ...] = ()
    """Those of `FEATURES` that the version has."""
    producer: tuple[Property, ...] = ()
    """Properties of Kafka's own Java producer."""
    consumer: tuple[Property, ...] = ()

    def topic_property(self, name: str) -> Property | None:
        """Return the topic property of that name, if there is one."""
        return _by_name(self.topic, name)

    def broker_property(self, name: str) -> Property | None:
        """Return the broker property of that name, if there is one."""
        return _by_name(self.broker, name)

    def feature(self, name: str) -> Feature | None:
        """Return the feature of that name, if there is one."""
        return _by_name(self.features, name)


def defaults_of(properties: Iterable[Property]) -> dict[str, str]:
    """Return the default of each property, by name."""
    return {one.name: one.default for one in properties}


def known_versions(home: Home | None = None) -> tuple[str, ...]:
    """Return the Kafka versions whose properties are known, the oldest first.

    The files of some versions are part of ackbench; others are in a home's cache.
    """
    cached = _versions_in(cached_file(home or Home.from_environment(), "").parent)
    return tuple(sorted(_own_versions() | cached, key=parse_version))


def _versions_in(folder: Path) -> frozenset[str]:
    return frozenset(path.stem.removeprefix("kafka-") for path in folder.glob("kafka-*.json"))


@cache
def _own_versions() -> frozenset[str]:
    return _versions_in(FOLDER)


def resolve_version(text: str, home: Home | None = None) -> str:
    """Return the release that a text names; `3.9` is the newest known patch of 3.9.

    Raises:
        InputError: it is neither a release from 3.9.0 on nor the beginning of a known one.
    """
    version = newest_patch(text, home)
    parse_version(version)
    return version


def newest_patch(text: str, home: Home | None = None) -> str:
    """Return the newest known patch of a line such as `3.9`; any other text as it is."""
    patches = [one for one in known_versions(home) if one.rpartition(".")[0] == text]
    return patches[-1] if patches else text


def nearest_version(version: str) -> str:
    """Return the known version whose properties are nearest to those of a release.

    The version itself, the newest one of its line, or the newest one before it; of Java's clients
    that are older than all of these, the oldest.

    Raises:
        InputError: the text is not a release from 2.8.0 on.
    """
    if version in _own_versions() or version in (known := known_versions()):
        return version
    numbers = parse_client_version(version)
    line = [one for one in known if parse_version(one)[:2] == numbers[:2]]
    before = [one for one in known if parse_version(one) < numbers]
    return (line or before or known[:1])[-1]


def nearest_properties(version: str) -> KafkaProperties:
    """Return the properties of a release, or those of the nearest known one.

    Raises:
        InputError: the text is not a release from 2.8.0 on.
    """
    return kafka_properties(nearest_version(version))


@cache
def kafka_properties(version: str) -> KafkaProperties:
    """Return the properties of one version.

    Raises:
        FileNotFoundError: the version is not one of `known_versions()`.
    """
    path = FOLDER / f"kafka-{version}.json"
    if not path.is_file():
        path = cached_file(Home.from_environment(), version)
    return KafkaProperties.model_validate_json(path.read_bytes())


def merge_versions(versions: Iterable[str]) -> KafkaProperties:
    """Return the topic and broker properties of all these versions, or of the nearest known ones.

    The definition of the newest version counts. Everything else is the newest version's.

    Raises:
        InputError: one of them is not a release from 3.9.0 on.
    """
    oldest_first = [
        nearest_properties(version) for version in sorted(set(versions), key=parse_version)
    ]
    topic, broker = (
        {known.name: known for kafka in oldest_first for known in getattr(kafka, scope)}
        for scope in ("topic", "broker")
    )
    return oldest_first[-1].model_copy(
        update={"topic": tuple(topic.values()), "broker": tuple(broker.values())}
    )


def cached_file(home: Home, version: str) -> Path:
    """Return the path of the properties of a version that is not part of ackbench."""
    return home.cache / "properties" / f"kafka-{version}.json"


class _HasName(Protocol):
    @property
    def name(self) -> str: ...


_Named = TypeVar("_Named", bound=_HasName)


def _by_name(known: Iterable[_Named], name: str) -> _Named | None:
    return next((one for one in known if one.name == name), None)


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?\d+(\.\d+)?([eE]-?\d+)?", text) is not None
