"""Versions of Kafka, as far as what we do hangs on them. Pure."""

from __future__ import annotations

import re
from typing import Final

from infra.errors import InputError

OLDEST_SUPPORTED: Final = (3, 9, 0)
"""Brokers before it are another matter: other jars, other log lines, no KRaft that is done."""
_FORM: Final = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})")


def parse_version(version: str) -> tuple[int, int, int]:
    """Return `(4, 3, 1)` of `4.3.1`, to be compared.

    Raises:
        InputError: it is of another form, or before 3.9.0.
    """
    found = _FORM.fullmatch(version)
    numbers = (int(found[1]), int(found[2]), int(found[3])) if found else (0, 0, 0)
    if numbers < OLDEST_SUPPORTED:
        raise InputError(
            f"kafka.version is {version!r}; allowed: a released version from {'.'.join(map(str, OLDEST_SUPPORTED))} on, such as 4.3.1"
        )
    return numbers


def supports_zookeeper(version: str) -> bool:
    """Whether its brokers can do without KRaft: 4.0 removed that (KIP-833)."""
    return parse_version(version) < (4, 0, 0)


def uses_log4j2(version: str) -> bool:
    """Whether it is configured as Log4j 2 is (KIP-653, from 4.0 on), and not as Log4j 1 was."""
    return parse_version(version) >= (4, 0, 0)
