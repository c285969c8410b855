"""Is this a cron expression? Five fields as crontab(5) has them, or one of the nicknames that Airflow takes."""

from __future__ import annotations

import re
from typing import Final

NICKNAMES: Final = ("@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly")

_MONTHS: Final = "jan feb mar apr may jun jul aug sep oct nov dec".split()  # noqa: SIM905 - shorter to read
_DAYS: Final = "sun mon tue wed thu fri sat".split()  # noqa: SIM905 - shorter to read
_FIELDS: Final[tuple[tuple[str, int, int, dict[str, int]], ...]] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of the month", 1, 31, {}),
    ("month", 1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    ("day of the week", 0, 7, {name: number for number, name in enumerate(_DAYS)}),
)
_ITEM: Final = re.compile(r"(?:\*|(?P<low>\w+)(?:-(?P<high>\w+))?)(?:/(?P<step>\d+))?")


def cron(given: object) -> object:
    """Return the expression with single spaces; what is no text is left to the caller.

    Raises:
        ValueError: it is no cron expression; says what would be one.
    """
    if not isinstance(given, str):
        return given
    fields = given.split()
    if given in NICKNAMES:
        return given
    if len(fields) != len(_FIELDS):
        raise ValueError(f"five cron fields, like '0 3 * * *', or one of {', '.join(NICKNAMES)}")
    for text, (name, low, high, names) in zip(fields, _FIELDS, strict=True):
        if not all(_fits(item.lower(), low, high, names) for item in text.split(",")):
            raise ValueError(f"{low}-{high}, *, lists, ranges and steps as the {name}, which is {text!r}")
    return " ".join(fields)


def _fits(item: str, low: int, high: int, names: dict[str, int]) -> bool:
    found = _ITEM.fullmatch(item)
    if not found or found["step"] == "0":
        return False
    ends = [names.get(end, int(end) if end.isdecimal() else -1) for end in (found["low"], found["high"]) if end]
    return all(low <= end <= high for end in ends) and ends == sorted(ends)
