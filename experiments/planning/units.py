"""Values with a unit, as people write them: `5s`, `10MB`, `50k/s`, where a name's end has a unit.

A name says what its number is in: `duration_s`, `linger.ms`, `record_size_bytes`. A value with a
unit becomes that number; any other text stays as it is, and whoever reads it says what is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

_TIMES_MS: Final = {
    "ms": 1.0,
    "s": 1e3,
    "sec": 1e3,
    "m": 60e3,
    "min": 60e3,
    "h": 3600e3,
    "d": 86400e3,
}
_SIZES_BYTES: Final = {
    "b": 1,
    "kb": 1000,
    "mb": 1000**2,
    "gb": 1000**3,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
}
_COUNTS: Final = {"": 1, "k": 1000, "m": 1000**2}
_IN_BYTES: Final = ("batch.size", "buffer.memory", "max.request.size", "send.buffer.bytes")
"""Properties in bytes whose name does not end with it."""
_NUMBER_AND_UNIT: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)(/s)?")


def number_of(name: str, value: Any) -> Any:
    """Return a value with a unit as a number in the unit of its name, any other as it is.

    Args:
        name: of an axis, a property or a key: `workload.duration_s`, `linger.ms`.
        value: `5s`, `10MB`, `50k/s`, or anything else.
    """
    found = _NUMBER_AND_UNIT.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        return value
    number, unit, per_second = float(found[1]), found[2].lower(), bool(found[3])
    end = re.split(r"[._]", name)[-1]
    scale: float | None = None
    if name.endswith(("_per_s", "_records")):
        scale = _COUNTS.get(unit) if per_second <= name.endswith("_per_s") else None
    elif per_second:
        return value
    elif end == "ms":
        scale = _TIMES_MS.get(unit)
    elif end == "s":
        scale = _TIMES_MS[unit] / 1000 if unit in _TIMES_MS else None
    elif end == "bytes" or name in _IN_BYTES or name.partition(".")[2] in _IN_BYTES:
        scale = _SIZES_BYTES.get(unit)
    if scale is None:
        return value
    result = number * scale
    return int(result) if result.is_integer() else result


def without_units(value: Any, name: str = "") -> Any:
    """Return a document of YAML with numbers where its values have units.

    Args:
        value: a mapping, a list, or one value.
        name: the key that it stands below.
    """
    if isinstance(value, Mapping):
        return {key: without_units(one, str(key)) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_units(one, name) for one in value]
    return number_of(name, value)
