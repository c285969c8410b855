"""What a consumer is given to be a member of a group, and what it is not given to read alone. Pure.

Values are librdkafka's own defaults (CONFIGURATION.md of 2.16).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from experiments.sweep.plan import AutoOffsetReset

PROTOCOL: Final = "group.protocol"
CLASSIC: Final = "classic"

_CLASSIC: Final[dict[str, str]] = {
    "session.timeout.ms": "45000",
    "heartbeat.interval.ms": "3000",
    "partition.assignment.strategy": "range,roundrobin",
}
"""Of the classic protocol alone: with KIP-848 the group's brokers decide, and librdkafka refuses them."""

_RESET: Final[Mapping[AutoOffsetReset, str]] = {
    "earliest": "earliest",
    "latest": "latest",
    "none": "error",
}
"""librdkafka's words for it."""
_OURS: Final[dict[str, str]] = {"enable.auto.commit": "false", "enable.auto.offset.store": "false"}
"""When a member commits is what is asked; also where the clients keep their own defaults."""

_MEMBER: Final[dict[str, str]] = {PROTOCOL: CLASSIC, "max.poll.interval.ms": "300000"}
CLASSIC_ONLY: Final = tuple(_CLASSIC)
_OF_MEMBERS: Final = frozenset(
    {*_CLASSIC, *_MEMBER, "group.remote.assignor", "coordinator.query.interval.ms"}
)


def member_settings(
    consumer: Mapping[str, str], group: str, out_of_range: AutoOffsetReset = "earliest"
) -> dict[str, str]:
    """Return all that a member is given, the addresses apart.

    Args:
        consumer: as `settings.consumer_settings` returns them, what was asked for of groups among them.
        group: its `group.id`.
        out_of_range: what it does where the offset is not there at which it is to read on.
    """
    classic = _CLASSIC if consumer.get(PROTOCOL, CLASSIC) == CLASSIC else {}
    return {
        **_MEMBER,
        **classic,
        **consumer,
        **_OURS,
        "auto.offset.reset": _RESET[out_of_range],
        "group.id": group,
    }


def alone(consumer: Mapping[str, str]) -> dict[str, str]:
    """Return what a consumer is given that reads alone, its partitions assigned by hand."""
    return {name: value for name, value in consumer.items() if name not in _OF_MEMBERS}


def patience_ms(consumer: Mapping[str, str], broker: Mapping[str, str]) -> float:
    """Return after how long of standing still a member has left its group: its session has ended, and it finds itself that it polled too late.

    Args:
        consumer: what was asked for of it.
        broker: what was asked for of the brokers; with KIP-848 their session counts.
    """
    member = member_settings(consumer, "")
    session_ms = member.get("session.timeout.ms") or broker.get(
        "group.consumer.session.timeout.ms", "45000"
    )
    return max(float(session_ms), float(member["max.poll.interval.ms"]))
