"""Changes of named fields of a response, such as `topics.partitions.leader_epoch:by-1`. No I/O.

The names are those of Kafka's protocol (https://kafka.apache.org/protocol), from the outermost to
the field, joined by dots; a name of an array means each of its entries. After the colon is

- a value: an error's name, a number, `true` or `false`, a text;
- `by+2` or `by-1`: the number that the field has, and this much more or less;
- `removed`: an array has none of its entries any more.

Several changes are joined by `;`. Topic and partition are chosen by a `Selection`.
"""

from __future__ import annotations

import difflib
import re
import uuid
from collections.abc import Callable, Iterable
from dataclasses import Field, dataclass, fields, is_dataclass, replace
from datetime import timedelta
from functools import cache
from typing import Any, Final, Literal, get_args

from kio.index import load_response_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map

from ackbench.infra.errors import HarnessError
from ackbench.infra.kafka.addresses import RequestHead
from ackbench.infra.kafka.messages import API_KEYS, ERRORS, Selection, change_response, field_types

REMOVED: Final = "removed"
MOST_CHANGES: Final = 16
_BY: Final = re.compile(r"by([+-]\d{1,18})")
_BITS: Final = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "timedelta_i32": 32}
_MILLISECONDS: Final = ("timedelta_i32", "timedelta_i64", "datetime_i64")
"""Kafka's names of these fields end with `_ms`, and kio's do not."""


class FieldMissing(HarnessError):
    """A message has no field of this name, in this version."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        """Compose the message."""
        self.known = tuple(known)
        super().__init__(f"there is no field {name}")


@dataclass(frozen=True)
class FieldChange:
    """One change of a field."""

    path: tuple[str, ...]
    operation: Literal["set", "add", "remove"]
    value: str = ""

    def __str__(self) -> str:
        """Return its path: `topics.partitions.leader_epoch`."""
        return ".".join(self.path)


@cache
def parse_changes(text: str) -> tuple[FieldChange, ...]:
    """Return the changes that a text asks for, in this module's notation.

    Raises:
        HarnessError: it is not in this notation.
    """
    parts = text.split(";")
    if len(parts) > MOST_CHANGES:
        raise HarnessError(f"{len(parts)} changes; allowed: {MOST_CHANGES} at most")
    return tuple(map(_parse_change, parts))


def _parse_change(text: str) -> FieldChange:
    name, colon, value = text.strip().partition(":")
    if not (re.fullmatch(r"[a-z0-9_]+(\.[a-z0-9_]+)*", name) and colon and value):
        raise HarnessError(f"{text} is no change; allowed: field.field:value")
    path = tuple(name.split("."))
    if value == REMOVED:
        return FieldChange(path, "remove")
    if by := _BY.fullmatch(value):
        return FieldChange(path, "add", by[1])
    return FieldChange(path, "set", value)


def check_changes(api: str, text: str) -> None:
    """Check changes of the responses of an API against all versions of Kafka's schemas.

    Raises:
        HarnessError: one of them is possible in no version; in one line, with the nearest name.
    """
    for change in parse_changes(text):
        reasons = []
        for version in response_versions(api):
            try:
                _check(load_response_schema(API_KEYS[api], version), change, change.path)
            except HarnessError as error:
                reasons.append(error)
            else:
                break
        else:
            raise HarnessError(f"{change}: {_most_telling(api, reasons)}")


def _most_telling(api: str, reasons: list[HarnessError]) -> str:
    """Return the newest version's reason, unless a version that has the field has another one."""
    others = [reason for reason in reasons if not isinstance(reason, FieldMissing)]
    if others:
        return str(others[-1])
    missing = [reason for reason in reasons if isinstance(reason, FieldMissing)]
    known = sorted({name for reason in missing for name in reason.known})
    wanted = str(missing[-1]).rpartition(" ")[2]
    meant = _did_you_mean(wanted, known, cutoff=0.5) or f"; known: {', '.join(known)}"
    return f"no version of the {api} response has a field {wanted}{meant}"


def _did_you_mean(name: str, known: Iterable[str], cutoff: float) -> str:
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f"; did you mean {near[0]}?" if near else ""


def response_versions(api: str) -> list[int]:
    """Return all versions of an API, in order."""
    return sorted(schema_name_map[api_key_map[API_KEYS[api]]])


@cache
def _fields(kind: Any) -> dict[str, Field[Any]]:
    """Return an entity's fields by their names in Kafka's protocol."""
    return {
        one.name if one.metadata.get("kafka_type") not in _MILLISECONDS else f"{one.name}_ms": one
        for one in fields(kind)
    }


def _field(kind: Any, name: str) -> Field[Any]:
    known = _fields(kind)
    if name not in known:
        raise FieldMissing(name, known)
    return known[name]


def _check(kind: Any, change: FieldChange, path: tuple[str, ...]) -> None:
    field = _field(kind, path[0])
    hint = field_types(kind)[field.name]
    entities = [one for one in (hint, *get_args(hint)) if is_dataclass(one)]
    is_array = Ellipsis in get_args(hint)
    if len(path) > 1:
        if not entities:
            raise FieldMissing(path[1], ())
        _check(entities[0], change, path[1:])
    elif change.operation == "remove":
        if not is_array:
            raise HarnessError(f"it is no array; allowed: a value, not {REMOVED}")
    elif entities or is_array:
        raise HarnessError(f"it has fields or entries; allowed: {REMOVED}, or its fields")
    elif change.operation == "add":
        if str(field.metadata.get("kafka_type")) not in _BITS:
            raise HarnessError(f"it is no number; allowed: a value, not by{change.value}")
        _number(change.value, field)
    else:
        _value(change.value, field)


def _number(text: str, field: Field[Any]) -> int:
    try:
        number = int(text)
    except ValueError as error:
        raise HarnessError(f"{text} is no number") from error
    limit = 1 << (_BITS[str(field.metadata["kafka_type"])] - 1)
    if not -limit <= number < limit:
        raise HarnessError(f"{text} is beyond the field's limits ({-limit} to {limit - 1})")
    return number


def _value(text: str, field: Field[Any]) -> Any:
    """Return a field's value as kio has it."""
    kafka_type = str(field.metadata.get("kafka_type"))
    if kafka_type not in _READERS:
        raise HarnessError(f"fields of the type {kafka_type} cannot be set")
    return _READERS[kafka_type](text, field)


def _error(text: str, _field: Field[Any]) -> ErrorCode:
    if text not in ERRORS and text != "NONE":
        raise HarnessError(f"{text} is no error of Kafka{_did_you_mean(text, ERRORS, cutoff=0.6)}")
    return ErrorCode(ERRORS.get(text, 0))


def _boolean(text: str, _field: Field[Any]) -> bool:
    if text not in {"true", "false"}:
        raise HarnessError(f"{text} is neither true nor false")
    return text == "true"


def _uuid(text: str, _field: Field[Any]) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except ValueError as error:
        raise HarnessError(f"{text} is no UUID") from error


_READERS: Final[dict[str, Callable[[str, Field[Any]], Any]]] = {
    **dict.fromkeys(("int8", "int16", "int32", "int64"), _number),
    "bool": _boolean,
    "error_code": _error,
    "string": lambda text, _field: text,
    "timedelta_i32": lambda text, field: timedelta(milliseconds=_number(text, field)),
    "uuid": _uuid,
}
"""The values of fields by their types in Kafka's schemas."""


def with_changes(response: bytes, head: RequestHead, text: str, selection: Selection) -> bytes:
    """Return a response whose named fields are changed, as the broker would send it.

    Args:
        response: its frame, with the size.
        head: of the request.
        text: the changes.
        selection: the topic and partition whose fields are changed; a field that belongs to none
            is changed in any case.

    Returns:
        The frame; the same one if it has all these values already, or no such topic or partition.

    Raises:
        FieldMissing: the response's version has no such field.
        HarnessError: kio does not know the version, or cannot read the response; or a number is
            beyond the field's limits.
    """

    def change(entity: Any) -> Any:
        for one in parse_changes(text):
            _check(type(entity), one, one.path)
            entity = _changed(entity, one, one.path, selection)
        return entity

    return change_response(response, head, change)


def _changed(entity: Any, change: FieldChange, path: tuple[str, ...], selection: Selection) -> Any:
    if not selection.has(entity):
        return entity
    field = _field(type(entity), path[0])
    value = getattr(entity, field.name)
    if len(path) == 1:
        return replace(entity, **{field.name: _new_value(value, change, field, selection)})
    if isinstance(value, tuple):
        made: Any = tuple(_changed(one, change, path[1:], selection) for one in value)
    else:
        made = None if value is None else _changed(value, change, path[1:], selection)
    return replace(entity, **{field.name: made})


def _new_value(value: Any, change: FieldChange, field: Field[Any], selection: Selection) -> Any:
    match change.operation:
        case "set":
            return _value(change.value, field)
        case "remove":
            return tuple(one for one in value or () if is_dataclass(one) and not selection.has(one))
        case "add" if isinstance(value, timedelta):
            before = round(value / timedelta(milliseconds=1))
            return timedelta(milliseconds=_number(str(before + int(change.value)), field))
        case "add":
            return _number(str(value + int(change.value)), field)
