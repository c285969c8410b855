"""Kafka's requests and responses as kio reads and writes them: every API and version, by name.

kio's classes are made from the schemas of Kafka. They cost some ten microseconds per message, so
only what a rule asks for is read with them (docs/decisions/0051-rules-read-messages-with-kio.md).
No I/O.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Any, Final, get_args, get_type_hints

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map
from kio.serial import entity_reader, entity_writer

from ackbench.infra.errors import HarnessError
from ackbench.infra.kafka.addresses import METADATA, RequestHead
from ackbench.infra.kafka.frames import SIZE_BYTES

API_KEYS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "".join(word.capitalize() for word in name.split("_")): key
        for key, name in sorted(api_key_map.items())
    }
)
"""The keys of all APIs by their names in Kafka's protocol: `Produce` is 0."""
ERRORS: Final[Mapping[str, int]] = MappingProxyType(
    {code.name.upper(): code.value for code in ErrorCode if code is not ErrorCode.none}
)
"""The codes of all errors by their names in Kafka's protocol: `NOT_LEADER_OR_FOLLOWER` is 6."""
PARTITION_FIELDS: Final = ("partition_index", "index", "partition")


def is_retriable(error: str) -> bool:
    """Return whether a client sends a request again that got this error, by Kafka's protocol."""
    return error in ERRORS and ErrorCode(ERRORS[error]).retriable


@dataclass(frozen=True)
class Selection:
    """The topic and the partition whose fields are meant."""

    topic: str = ""
    """Its name; empty: all topics."""
    topic_id: str | None = None
    """The id of that topic, for messages without names (KIP-516); `None`: none of these is."""
    partition: int | None = None
    """`None`: all partitions."""

    def has(self, entity: Any) -> bool:
        """Return whether an entity is not one of another topic or partition."""
        if not self.has_topic(entity):
            return False
        return self.partition is None or partition_of(entity) in {None, self.partition}

    def has_topic(self, entity: Any) -> bool:
        """Return whether an entity is not one of another topic."""
        names = [getattr(entity, name) for name in _topic_fields(kind_of(entity))]
        if not self.topic or not (names or hasattr(entity, "topic_id")):
            return True
        if any(name is not None for name in names):
            return self.topic in names
        topic_id = getattr(entity, "topic_id", None)
        return topic_id is not None and str(topic_id) == self.topic_id


ALL: Final = Selection()


def kind_of(entity: Any) -> Any:
    """Return the class of an entity, untyped: mypy takes `type[Any]` for not hashable."""
    return type(entity)


def partition_of(entity: Any) -> int | None:
    """Return the number of the partition that an entity is about; `None`: it is about none."""
    names = (name for name in PARTITION_FIELDS if isinstance(getattr(entity, name, None), int))
    return next((int(getattr(entity, name)) for name in names), None)


@cache
def _topic_fields(kind: Any) -> frozenset[str]:
    """Return the names of the fields that hold a topic's name, by the types of Kafka's schemas."""
    return frozenset(name for name, hint in field_types(kind).items() if "TopicName" in str(hint))


@cache
def contains_topics(kind: Any) -> bool:
    """Return whether an entity has an array of topics, or one of its entities has."""
    inner: list[Any] = [
        one for hint in field_types(kind).values() for one in get_args(hint) if is_dataclass(one)
    ]
    return any(
        _topic_fields(one) or "topic_id" in field_types(one) or contains_topics(one)
        for one in inner
    )


@cache
def field_types(kind: Any) -> dict[str, Any]:
    """Return the types of an entity's fields by their names in kio."""
    return get_type_hints(kind, vars(sys.modules[kind.__module__]))


@cache
def _reader(kind: Any) -> Any:
    return entity_reader(kind)


@cache
def _writer(kind: Any) -> Any:
    return entity_writer(kind)


def change_response(response: bytes, head: RequestHead, change: Callable[[Any], Any]) -> bytes:
    """Return a response that a function has changed, as the broker would send it.

    Args:
        response: its frame, with the size.
        head: of the request.
        change: returns the changed entity of kio.

    Raises:
        HarnessError: kio does not know the version, or cannot read or write the response; or an
            error of this kind of `change`.
    """
    try:
        kind = load_response_schema(head.api_key, head.version)
        begin = SIZE_BYTES + _header_bytes(response, kind)
        entity, _ = _reader(kind)(response, begin)
        return framed(response[SIZE_BYTES:begin], change(entity))
    except HarnessError:
        raise
    except Exception as error:  # of kio, which has no common class of errors
        raise HarnessError(f"a response that cannot be changed ({head}): {error!r}") from error


def framed(header: bytes, entity: Any) -> bytes:
    """Return the frame of a message: size, header and body."""
    body = written(entity)
    return (len(header) + len(body)).to_bytes(SIZE_BYTES) + header + body


def written(entity: Any) -> bytes:
    """Return the bytes of a header or a body."""
    buffer = io.BytesIO()
    _writer(kind_of(entity))(buffer, entity)
    return buffer.getvalue()


def read_request(request: bytes, head: RequestHead) -> Any:
    """Return the entity of a request.

    Raises:
        HarnessError: kio does not know the version, or cannot read the request.
    """
    try:
        kind: Any = load_request_schema(head.api_key, head.version)
        _, header_bytes = _reader(kind.__header_schema__)(request, SIZE_BYTES)
        entity, _ = _reader(kind)(request, SIZE_BYTES + header_bytes)
    except Exception as error:  # of kio, which has no common class of errors
        raise HarnessError(f"a request that cannot be read ({head}): {error!r}") from error
    return entity


class _NothingToChange(HarnessError):
    """A response has no error that was to be replaced."""


def with_error(
    response: bytes, head: RequestHead, code: int, selection: Selection = ALL
) -> bytes | None:
    """Return a response whose errors are replaced, as the broker would send it.

    Its innermost errors are: those of partitions where a response has some. Metadata without a
    partition gets the error of a topic, which then has no partitions.

    Args:
        response: its frame, with the size.
        head: of the request.
        code: the error.
        selection: only errors of this topic and partition.

    Returns:
        The frame; `None`: the response has no such error.

    Raises:
        HarnessError: kio does not know the version, or cannot read the response.
    """

    def change(entity: Any) -> Any:
        changed, has_errors = _changed(entity, ErrorCode(code), selection, head.api_key)
        if not has_errors:
            raise _NothingToChange
        return changed

    try:
        return change_response(response, head, change)
    except _NothingToChange:
        return None


def _header_bytes(response: bytes, kind: Any) -> int:
    _, size_bytes = _reader(kind.__header_schema__)(response, SIZE_BYTES)
    return int(size_bytes)


def _changed(entity: Any, code: ErrorCode, selection: Selection, api_key: int) -> tuple[Any, bool]:
    """Return an entity with another error, and whether it has one that was to be replaced."""
    if not selection.has(entity):
        return entity, False
    own = {
        field.name: code
        for field in fields(entity)
        if isinstance(getattr(entity, field.name), ErrorCode)
    }
    of_topic = selection.partition is None and hasattr(entity, "partitions")
    if own and api_key == METADATA and of_topic:
        return replace(entity, **own, partitions=()), True
    inner: dict[str, Any] = {}
    has_inner = False
    for field in fields(entity):
        value = getattr(entity, field.name)
        if isinstance(value, tuple) and value and is_dataclass(value[0]):
            made = [_changed(one, code, selection, api_key) for one in value]
            if any(has for _, has in made):
                inner[field.name] = tuple(one for one, _ in made)
                has_inner = True
    if has_inner:
        return replace(entity, **inner), True
    is_meant = selection.partition in {None, partition_of(entity)} and not (
        selection.topic and contains_topics(kind_of(entity))
    )
    return (replace(entity, **own), True) if own and is_meant else (entity, False)
