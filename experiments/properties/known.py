"""The names, types and allowed values of Kafka's topic and broker properties, as Kafka's own classes print them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict

FOLDER: Final = Path(__file__).parent

_WHOLE: Final = {"short": 16, "int": 32, "long": 64}
"""Kafka's integer types and their bits."""
_BETWEEN: Final = re.compile(r"^\[(-?\d+),\.\.\.(?:,(-?\d+))?\](?: or (-?\d+))?$")
_ONE_OF: Final = re.compile(r"^\[([A-Za-z][\w, ]*)\]$")


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
        upwards = f"from {low} to {high}" if high < self._most() else f"of at least {low}" if low > -self._most() - 1 else "of its size"
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


class KafkaProperties(BaseModel):
    """What one version of Kafka knows; `source` says how the file was made."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: str
    source: str
    topic: tuple[Property, ...]
    broker: tuple[Property, ...]

    def of_topic(self, name: str) -> Property | None:
        """The topic property of that name, if there is one."""
        return _named(self.topic, name)

    def of_broker(self, name: str) -> Property | None:
        """The broker property of that name, if there is one."""
        return _named(self.broker, name)


def versions() -> tuple[str, ...]:
    """Return the versions of Kafka whose properties are known."""
    return tuple(sorted(path.stem.removeprefix("kafka-") for path in FOLDER.glob("kafka-*.json")))


@cache
def kafka_properties(version: str) -> KafkaProperties:
    """Return what that version knows.

    Raises:
        FileNotFoundError: the version is none of `versions()`.
    """
    return KafkaProperties.model_validate_json((FOLDER / f"kafka-{version}.json").read_bytes())


def _named(properties: Iterable[Property], name: str) -> Property | None:
    return next((known for known in properties if known.name == name), None)


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?\d+(\.\d+)?([eE]-?\d+)?", text) is not None
