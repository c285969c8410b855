"""Kafka's requests and responses as kio reads and writes them: every API and version, by name.

kio's classes are made from the schemas of Kafka. They cost some ten microseconds per message, so
only what a rule asks for is read with them (docs/decisions/0051-rules-read-messages-with-kio.md).
No I/O.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from kio.index import load_response_schema
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
_PARTITION_FIELDS: Final = ("partition_index", "index", "partition")


@cache
def _reader(kind: Any) -> Any:
    return entity_reader(kind)


@cache
def _writer(kind: Any) -> Any:
    return entity_writer(kind)


def with_error(
    response: bytes, head: RequestHead, code: int, partition: int | None = None
) -> bytes | None:
    """Return a response whose errors are replaced, as the broker would send it.

    Its innermost errors are: those of partitions where a response has some. Metadata without a
    partition gets the error of a topic, which then has no partitions.

    Args:
        response: its frame, with the size.
        head: of the request.
        code: the error.
        partition: only those of this partition; `None`: of all.

    Returns:
        The frame; `None`: the response has no such error.

    Raises:
        HarnessError: kio does not know the version, or cannot read the response.
    """
    try:
        kind = load_response_schema(head.api_key, head.version)
        begin = SIZE_BYTES + _header_bytes(response, kind)
        entity, _ = _reader(kind)(response, begin)
        changed, has_errors = _changed(entity, ErrorCode(code), partition, head.api_key)
        if not has_errors:
            return None
        body = io.BytesIO()
        _writer(kind)(body, changed)
    except Exception as error:  # of kio, which has no common class of errors
        raise HarnessError(f"a response that cannot be changed ({head}): {error!r}") from error
    header = response[SIZE_BYTES:begin]
    return (len(header) + body.tell()).to_bytes(SIZE_BYTES) + header + body.getvalue()


def _header_bytes(response: bytes, kind: Any) -> int:
    _, size_bytes = _reader(kind.__header_schema__)(response, SIZE_BYTES)
    return int(size_bytes)


def _changed(entity: Any, code: ErrorCode, partition: int | None, api_key: int) -> tuple[Any, bool]:
    """Return an entity with another error, and whether it has one that was to be replaced."""
    numbers = (getattr(entity, name) for name in _PARTITION_FIELDS if hasattr(entity, name))
    number = next(numbers, -1)
    if partition is not None and number not in {-1, partition}:
        return entity, False
    own = {
        field.name: code
        for field in fields(entity)
        if isinstance(getattr(entity, field.name), ErrorCode)
    }
    if own and api_key == METADATA and partition is None and hasattr(entity, "partitions"):
        return replace(entity, **own, partitions=()), True
    inner: dict[str, Any] = {}
    has_inner = False
    for field in fields(entity):
        value = getattr(entity, field.name)
        if isinstance(value, tuple) and value and is_dataclass(value[0]):
            made = [_changed(one, code, partition, api_key) for one in value]
            if any(has for _, has in made):
                inner[field.name] = tuple(one for one, _ in made)
                has_inner = True
    if has_inner:
        return replace(entity, **inner), True
    is_meant = partition is None or number == partition
    return (replace(entity, **own), True) if own and is_meant else (entity, False)
