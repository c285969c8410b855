"""Messages of Kafka with random values, as kio's classes and as frames."""

from __future__ import annotations

import io
import struct
import uuid
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from importlib import import_module
from random import Random
from typing import Any, Final, get_args, get_type_hints

from kio.schema.errors import ErrorCode
from kio.serial import entity_writer

CORRELATION_ID: Final = 7


def framed(response: Any) -> bytes:
    """Return a response as it is on the wire: size, header and body."""
    header = struct.pack(">i", CORRELATION_ID)
    if len(fields(type(response).__header_schema__)) and type(response).__flexible__:
        header += b"\x00"  # no tagged fields
    body = io.BytesIO()
    entity_writer(type(response))(body, response)
    return struct.pack(">i", len(header) + body.tell()) + header + body.getvalue()


def random_message(kind: Any, random: Random) -> Any:
    """Return an entity with random values, some of them null or empty."""
    hints = get_type_hints(kind, vars(import_module(kind.__module__)))
    return kind(
        **{
            field.name: value_of(hints[field.name], field.metadata.get("kafka_type"), random)
            for field in fields(kind)
        }
    )


def value_of(hint: Any, kafka_type: str | None, random: Random) -> Any:
    """Return a value of a field."""
    arguments = get_args(hint)
    if type(None) in arguments:
        if random.random() < 1 / 4:
            return None
        hint = next(one for one in arguments if one is not type(None))
        arguments = get_args(hint)
    if Ellipsis in arguments:
        return tuple(value_of(arguments[0], kafka_type, random) for _ in range(random.randrange(3)))
    if is_dataclass(hint):
        return random_message(hint, random)
    values: dict[str, Callable[[], Any]] = {
        "bool": lambda: random.random() < 1 / 2,
        "datetime_i64": lambda: datetime.fromtimestamp(random.randrange(2**31), UTC),
        "error_code": lambda: random.choice(list(ErrorCode)),
        "int8": lambda: random.randrange(2**7),
        "int16": lambda: random.randrange(2**15),
        "int32": lambda: random.randrange(2**15),
        "int64": lambda: random.randrange(2**63),
        "records": lambda: random.randbytes(random.randrange(300)),
        "string": lambda: "é" * random.randrange(3) + "x" * random.randrange(200),
        "timedelta_i32": lambda: timedelta(milliseconds=random.randrange(2**31)),
        "timedelta_i64": lambda: timedelta(milliseconds=random.randrange(2**31)),
        "uuid": lambda: uuid.UUID(bytes=random.randbytes(16)),
    }
    return values[str(kafka_type)]()
