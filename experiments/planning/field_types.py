"""Types of the values in an experiment file, each with a message that lists what is allowed.

The validators raise `ValueError` with the allowed values as text. Pydantic adds the key and the
value, and `experiments.messages.validation` makes one line of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import BeforeValidator, Field, PlainValidator, Strict

from ackbench.experiments.planning.properties import newest_patch


def _check_scalar(value: object) -> str | int | float | bool:
    if isinstance(value, (str, int, float)):
        return value
    raise ValueError("one value: text, a number, true or false")


def _check_axis_values(value: object) -> tuple[object, ...]:
    """Return the values of an axis; a single value is an axis with one value."""
    values = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    if not values:
        raise ValueError("at least one value")
    return values


def _check_one_line(value: object) -> object:
    if not isinstance(value, str):
        return value
    if "\n" in value.strip():
        raise ValueError("one line")
    return value.strip()


def _newest_patch(value: object) -> object:
    if isinstance(value, float):
        value = str(value)
    return newest_patch(value) if isinstance(value, str) else value


def _as_union(value: object) -> object:
    """Return the cross products of a union; a single mapping is a union of one."""
    return (value,) if isinstance(value, Mapping) else value


CRON_NICKNAMES: Final = ("@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly")
"""The nicknames that Airflow accepts as a schedule."""

_MONTHS: Final = "jan feb mar apr may jun jul aug sep oct nov dec".split()  # noqa: SIM905 - shorter to read
_DAYS: Final = "sun mon tue wed thu fri sat".split()  # noqa: SIM905 - shorter to read
_CRON_FIELDS: Final[tuple[tuple[str, int, int, dict[str, int]], ...]] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of the month", 1, 31, {}),
    ("month", 1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    ("day of the week", 0, 7, {name: number for number, name in enumerate(_DAYS)}),
)
"""The five fields of crontab(5): name, lowest and highest value, and names of values."""
_CRON_ITEM: Final = re.compile(r"(?:\*|(?P<low>\w+)(?:-(?P<high>\w+))?)(?:/(?P<step>\d+))?")


def check_cron(value: object) -> object:
    """Return a cron expression with single spaces; a value that is not text is returned unchanged.

    Raises:
        ValueError: the text is neither five cron fields as in crontab(5) nor a nickname.
    """
    if not isinstance(value, str):
        return value
    fields = value.split()
    if value in CRON_NICKNAMES:
        return value
    if len(fields) != len(_CRON_FIELDS):
        raise ValueError(
            f"five cron fields, such as '0 3 * * *', or one of {', '.join(CRON_NICKNAMES)}"
        )
    for text, (name, low, high, names) in zip(fields, _CRON_FIELDS, strict=True):
        if not all(_is_cron_item(item.lower(), low, high, names) for item in text.split(",")):
            raise ValueError(
                f"{low}-{high}, *, lists, ranges and steps as the {name}, which is {text!r}"
            )
    return " ".join(fields)


def _is_cron_item(item: str, low: int, high: int, names: dict[str, int]) -> bool:
    match = _CRON_ITEM.fullmatch(item)
    if not match or match["step"] == "0":
        return False
    ends = [
        names.get(end, int(end) if end.isdecimal() else -1)
        for end in (match["low"], match["high"])
        if end
    ]
    return all(low <= end <= high for end in ends) and ends == sorted(ends)


ALERTS: Final = ("violated", "not-expected", "failed", "worse-than-trend")
"""What a sweep can be reported for, beside its share of void trials."""
_VOID_SHARE: Final = re.compile(r"void>(?P<percent>\d{1,2}(?:\.\d+)?)%")


def check_alert(value: object) -> object:
    """Return a condition of `alert_on`; a value that is not text is returned unchanged.

    Raises:
        ValueError: there is no such condition.
    """
    if isinstance(value, str) and value not in ALERTS and not _VOID_SHARE.fullmatch(value):
        raise ValueError(f"{', '.join(ALERTS)}, or a share of void trials such as void>20%")
    return value


def void_limit(condition: str) -> float | None:
    """Return the share of void trials above which `void>N%` holds; `None`: another condition."""
    match = _VOID_SHARE.fullmatch(condition)
    return float(match["percent"]) / 100 if match else None


_ScalarInput = str | int | float | bool
ScalarValue = Annotated[
    _ScalarInput, PlainValidator(_check_scalar, json_schema_input_type=_ScalarInput)
]
Properties = dict[str, ScalarValue]
FaultSection = dict[str, ScalarValue | tuple[Annotated[str, Strict()], ...]]
"""Parameters of a fault; the commands of a fault are lists of their words."""
WHERE: Final = "where"
"""The key of `expect` with the cells that it is about."""
_AxisValues = Annotated[
    tuple[ScalarValue, ...],
    BeforeValidator(
        _check_axis_values, json_schema_input_type=ScalarValue | tuple[ScalarValue, ...]
    ),
]
ExpectSection = dict[str, ScalarValue | dict[str, _AxisValues]]
"""Bounds by measure, and `where`: values by axis."""
ExpectUnion = Annotated[
    tuple[ExpectSection, ...],
    BeforeValidator(_as_union, json_schema_input_type=ExpectSection | tuple[ExpectSection, ...]),
]
CrossProduct = dict[str, _AxisValues]
"""The values of each axis, by the name of the axis."""
AxesUnion = Annotated[
    tuple[CrossProduct, ...],
    BeforeValidator(_as_union, json_schema_input_type=CrossProduct | tuple[CrossProduct, ...]),
]
"""Cross products whose cells are run together."""
Text = Annotated[str, Strict(), Field(min_length=1)]
KafkaVersion = Annotated[Text, BeforeValidator(_newest_patch, json_schema_input_type=str | float)]
"""A release; a line such as 3.9, also as a number, is its newest known patch."""
Line = Annotated[Text, BeforeValidator(_check_one_line)]
Cron = Annotated[Text, BeforeValidator(check_cron)]
AlertCondition = Annotated[Text, BeforeValidator(check_alert)]
