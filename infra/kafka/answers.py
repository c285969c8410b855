"""Responses with an error that are made from their request alone, as a broker would write them.

A broker that refuses a request answers each partition, topic or coordinator that the request names
(https://kafka.apache.org/protocol). What it does not know is what Kafka's schemas have as default:
no offset, no producer id, no coordinator. No I/O.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final, get_args

from kio.index import load_response_schema
from kio.schema.errors import ErrorCode

from ackbench.infra.errors import HarnessError
from ackbench.infra.kafka.addresses import METADATA, RequestHead
from ackbench.infra.kafka.messages import (
    ALL,
    PARTITION_FIELDS,
    Selection,
    contains_topics,
    field_types,
    framed,
    kind_of,
    partition_of,
    read_request,
    written,
)

ANSWERED: Final = frozenset(
    {
        *("Produce", "Fetch", "ListOffsets", "Metadata", "FindCoordinator"),
        *("OffsetCommit", "Heartbeat"),
        *("InitProducerId", "AddPartitionsToTxn", "EndTxn"),
    }
)
"""The APIs whose responses can be made."""
_ARRAYS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "responses": ("topic_data", "topics"),
        "partition_responses": ("partition_data",),
        "topics": ("topics",),
        "partitions": ("partitions",),
        "coordinators": ("coordinator_keys",),
        "results_by_topic_v3_and_below": ("v3_and_below_topics",),
        "results_by_transaction": ("transactions",),
        "topic_results": ("topics",),
        "results_by_partition": ("partitions",),
    }
)
"""The arrays of responses, and those of requests whose entries they answer one by one."""
_COPIED: Final = frozenset({"name", "topic", "topic_id", "transactional_id"})
_UNKNOWN: Final[Mapping[str, Any]] = MappingProxyType(
    {
        **dict.fromkeys(("int16", "int32", "int64"), -1),
        "int8": 0,
        "bool": False,
        "string": "",
        "records": b"",
        "timedelta_i32": timedelta(0),
    }
)
"""The values of fields without a default, by their types in Kafka's schemas."""


class Unanswerable(HarnessError):
    """No response can be made for a request; the text is the reason."""


def answer_with_error(
    request: bytes,
    head: RequestHead,
    code: int,
    brokers: Sequence[tuple[int, str, int]] = (),
    selection: Selection = ALL,
) -> bytes:
    """Return the response of a broker that refuses a request.

    Args:
        request: its frame, with the size.
        head: its header.
        code: the error of all that the request names. A Fetch that names no partition, within a
            fetch session, has it as the error of the session.
        brokers: node id, host and port of each, for a response to Metadata.
        selection: the request must name this topic and partition, if its kind names some.

    Raises:
        Unanswerable: there is no such response.
        HarnessError: kio does not know the version, or cannot read the request.
    """
    asked = read_request(request, head)
    if getattr(asked, "acks", None) == 0:
        raise Unanswerable("a request with acks=0 has no response")
    if contains_topics(kind_of(asked)) and not _names(asked, selection):
        raise Unanswerable("it does not name this topic and partition")
    if head.api_key == METADATA and not asked.topics:
        raise Unanswerable("it names no topic")
    kind: Any = load_response_schema(head.api_key, head.version)
    made, error = _made(kind, asked, ErrorCode(code)), ErrorCode(code)
    if not _has(made, error):
        raise Unanswerable("it names nothing that could have an error")
    if head.api_key == METADATA:
        made = _with_brokers(made, brokers)
    try:
        header = written(kind.__header_schema__(correlation_id=head.correlation_id))
        return framed(header, made)
    except Exception as failure:  # of kio, which has no common class of errors
        raise HarnessError(f"a response that cannot be made ({head}): {failure!r}") from failure


def _names(asked: Any, selection: Selection) -> bool:
    """Return whether a request names the selected topic and partition."""
    if selection == ALL:
        return True
    entities = [
        one
        for field in fields(asked)
        if isinstance(value := getattr(asked, field.name), tuple)
        for one in value
        if is_dataclass(one)
    ]
    for one in entities:
        if contains_topics(kind_of(one)):
            if _names(one, selection):
                return True
        elif selection.has_topic(one) and selection.partition in {None, *_partitions(one)}:
            return True
    return False


def _partitions(topic: Any) -> set[int | None]:
    """Return the numbers of the partitions of a request's topic."""
    return {
        one if isinstance(one, int) else partition_of(one)
        for field in fields(topic)
        if isinstance(value := getattr(topic, field.name), tuple)
        for one in value
    }


def _made(kind: Any, asked: Any, error: ErrorCode) -> Any:
    """Return the entity of a response that answers an entity of a request, or one of its entries.

    Its own error is the one only if none of its entries has it.
    """
    values: dict[str, Any] = {}
    hints = field_types(kind)
    for field in fields(kind):
        entity = next((one for one in get_args(hints[field.name]) if is_dataclass(one)), None)
        if entity is not None and field.name in _ARRAYS:
            values[field.name] = tuple(
                _made(entity, one, error) for one in _entries(asked, _ARRAYS[field.name])
            )
    own = ErrorCode.none if any(values.values()) else error
    for field in fields(kind):
        if field.name not in values:
            values[field.name] = _value(field, hints[field.name], asked, own)
    return kind(**values)


def _entries(asked: Any, names: Sequence[str]) -> Sequence[Any]:
    return next((getattr(asked, name) or () for name in names if hasattr(asked, name)), ())


def _value(field: Field[Any], hint: Any, asked: Any, error: ErrorCode) -> Any:
    """Return the value of a field that is no array of entries."""
    kafka_type = str(field.metadata.get("kafka_type"))
    if kafka_type == "error_code":
        return error
    if field.name in PARTITION_FIELDS:
        return partition_of(asked) if is_dataclass(asked) else asked
    if field.name == "key" and isinstance(asked, str):
        return asked
    copied = getattr(asked, field.name, None) if field.name in _COPIED else None
    if copied is not None or (field.name in _COPIED and type(None) in get_args(hint)):
        return copied
    return field.default if field.default is not MISSING else _unknown(kafka_type, hint)


def _unknown(kafka_type: str, hint: Any) -> Any:
    """Return the value of a field without a default that a refused request says nothing of."""
    if Ellipsis in get_args(hint):
        return ()
    if type(None) in get_args(hint) and kafka_type != "records":
        return None
    return _UNKNOWN[kafka_type]


def _has(entity: Any, error: ErrorCode) -> bool:
    """Return whether an entity or one of its entries has an error."""
    for field in fields(entity):
        value = getattr(entity, field.name)
        if value is error:
            return True
        if isinstance(value, tuple) and any(
            is_dataclass(one) and _has(one, error) for one in value
        ):
            return True
    return False


def _with_brokers(metadata: Any, brokers: Sequence[tuple[int, str, int]]) -> Any:
    """Return a response to Metadata with brokers, so that a client does not take it for empty."""
    hint = field_types(kind_of(metadata))["brokers"]
    kind = next(one for one in get_args(hint) if is_dataclass(one))
    made = tuple(_broker(kind, *broker) for broker in brokers)
    return replace(metadata, brokers=made)


def _broker(kind: Any, node_id: int, host: str, port: int) -> Any:
    rack = {"rack": None} if "rack" in {field.name for field in fields(kind)} else {}
    return kind(node_id=node_id, host=host, port=port, **rack)
