"""Which Kafka versions are supported, and what depends on the version."""

from __future__ import annotations

import re
from typing import Final

from ackbench.infra.errors import InputError

OLDEST_SUPPORTED: Final = (3, 9, 0)
"""Earlier brokers have other jars, other log lines and an incomplete KRaft."""
OLDEST_CLIENT: Final = (2, 8, 0)
"""Earlier releases have their command-line clients' options under other names."""
_RELEASE: Final = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})", re.ASCII)


def parse_version(version: str) -> tuple[int, int, int]:
    """Return the numbers of a release of brokers, such as `(4, 3, 1)` of `4.3.1`.

    Raises:
        InputError: it is not a release, or before 3.9.0.
    """
    return _parse("kafka.version", version, OLDEST_SUPPORTED)


def parse_client_version(version: str) -> tuple[int, int, int]:
    """Return the numbers of a release of Java's clients; the brokers may have another one.

    Raises:
        InputError: it is not a release, or before 2.8.0.
    """
    return _parse("client.version", version, OLDEST_CLIENT)


def _parse(name: str, version: str, oldest: tuple[int, int, int]) -> tuple[int, int, int]:
    match = _RELEASE.fullmatch(version)
    numbers = (int(match[1]), int(match[2]), int(match[3])) if match else (0, 0, 0)
    if numbers < oldest:
        raise InputError(
            f"invalid {name}: {version!r} (allowed: a released version from "
            f"{'.'.join(map(str, oldest))} on, such as 4.3.1)"
        )
    return numbers


def supports_zookeeper(version: str) -> bool:
    """Return whether its brokers support ZooKeeper, which 4.0 removed (KIP-833)."""
    return parse_version(version) < (4, 0, 0)


def uses_log4j2(version: str) -> bool:
    """Return whether it uses Log4j 2 (from 4.0 on, KIP-653) and not Log4j 1."""
    return parse_client_version(version) >= (4, 0, 0)
