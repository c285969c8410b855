"""The settings that make a librdkafka consumer a member of a consumer group.

The values are librdkafka's own defaults (CONFIGURATION.md of 2.16).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ackbench.experiments.sweep.workload import AutoOffsetReset, Commit

PROTOCOL: Final = "group.protocol"
CLASSIC: Final = "classic"
INSTANCE: Final = "group.instance.id"
MAX_POLL_RECORDS: Final = "max.poll.records"

_CLASSIC: Final[dict[str, str]] = {
    "session.timeout.ms": "45000",
    "heartbeat.interval.ms": "3000",
    "partition.assignment.strategy": "range,roundrobin",
}
CLASSIC_ONLY: Final = tuple(_CLASSIC)
"""Properties of the classic protocol only.

With KIP-848 the brokers decide, and librdkafka refuses these properties.
"""

_AUTO_OFFSET_RESET: Final[Mapping[AutoOffsetReset, str]] = {
    "earliest": "earliest",
    "latest": "latest",
    "none": "error",
}
"""From Kafka's value of auto.offset.reset to librdkafka's."""

AUTO_COMMIT: Final = "enable.auto.commit"
AUTO_COMMIT_INTERVAL: Final = "auto.commit.interval.ms"
AUTO_OFFSET_STORE: Final = "enable.auto.offset.store"
_EXPLICIT_COMMITS: Final[dict[str, str]] = {AUTO_COMMIT: "false", AUTO_OFFSET_STORE: "false"}
"""The workload defines when a member commits, also for clients with default settings."""
AUTO_COMMITS: Final[Mapping[str, str]] = MappingProxyType(
    {AUTO_COMMIT: "true", AUTO_OFFSET_STORE: "true", AUTO_COMMIT_INTERVAL: "5000"}
)
"""The settings of a client that commits by itself."""

_MEMBER: Final[dict[str, str]] = {"max.poll.interval.ms": "300000"}
"""`group.protocol` is not among them: releases before 2.4 do not have it, and with another default
than `classic` a client would refuse the settings of that protocol."""
_MEMBER_ONLY: Final = frozenset(
    {
        *_CLASSIC,
        *_MEMBER,
        PROTOCOL,
        AUTO_COMMIT_INTERVAL,
        "group.remote.assignor",
        "coordinator.query.interval.ms",
    }
)


def member_settings(
    consumer: Mapping[str, str],
    group: str,
    auto_offset_reset: AutoOffsetReset = "earliest",
    commit: Commit = "after",
    instance: str | None = None,
) -> dict[str, str]:
    """Return the settings of a group member, without its addresses.

    Args:
        consumer: from `librdkafka.consumer_settings`, including overrides of group properties.
        group: the `group.id`.
        auto_offset_reset: what the member does when its committed offset does not exist.
        commit: who commits, and when.
        instance: the `group.instance.id` of a static member (KIP-345); `None`: it is dynamic.
    """
    classic = _CLASSIC if consumer.get(PROTOCOL, CLASSIC) == CLASSIC else {}
    by_itself = {name: consumer.get(name, value) for name, value in AUTO_COMMITS.items()}
    return {
        **_MEMBER,
        **classic,
        **consumer,
        **(by_itself if commit == "auto" else _EXPLICIT_COMMITS),
        "auto.offset.reset": _AUTO_OFFSET_RESET[auto_offset_reset],
        "group.id": group,
        **({INSTANCE: instance} if instance else {}),
    }


def program_member_settings(
    consumer: Mapping[str, str],
    group: str,
    auto_offset_reset: AutoOffsetReset = "earliest",
    commit: Commit = "after",
    commit_every_records: int | None = 500,
    instance: str | None = None,
) -> dict[str, str]:
    """Return the settings of a member that is a program, without its addresses.

    Java's commits after each poll what it has reported, so that `max.poll.records` is the number of
    records between two commits.

    Args:
        consumer: as of `member_settings`, by Kafka's own names.
        group: the `group.id`.
        auto_offset_reset: what the member does when its committed offset does not exist.
        commit: `after` or `auto`.
        commit_every_records: of `after`; `None`: the client has no `max.poll.records`.
        instance: as of `member_settings`.
    """
    left_out = () if consumer.get(PROTOCOL, CLASSIC) == CLASSIC else CLASSIC_ONLY
    by_itself = commit == "auto"
    return {
        **({AUTO_COMMIT_INTERVAL: AUTO_COMMITS[AUTO_COMMIT_INTERVAL]} if by_itself else {}),
        **{name: value for name, value in consumer.items() if name not in left_out},
        AUTO_COMMIT: str(by_itself).lower(),
        "auto.offset.reset": auto_offset_reset,
        "group.id": group,
        **(
            {}
            if by_itself or commit_every_records is None
            else {MAX_POLL_RECORDS: str(commit_every_records)}
        ),
        **({INSTANCE: instance} if instance else {}),
    }


def without_group_settings(consumer: Mapping[str, str]) -> dict[str, str]:
    """Return the settings for a consumer with explicitly assigned partitions.

    It does not commit where the members do so by themselves (they have an interval).
    """
    changed = _EXPLICIT_COMMITS if AUTO_COMMIT_INTERVAL in consumer else {}
    return {
        name: changed.get(name, value)
        for name, value in consumer.items()
        if name not in _MEMBER_ONLY
    }


def member_expiry_ms(consumer: Mapping[str, str], broker: Mapping[str, str]) -> float:
    """Return how long a member must be paused to have left its group for certain.

    After this time its session has expired, and the member itself finds that it exceeded
    `max.poll.interval.ms`.

    Args:
        consumer: overrides of the consumer.
        broker: overrides of the brokers, which define the session timeout with KIP-848.
    """
    member = member_settings(consumer, "")
    session_ms = member.get("session.timeout.ms") or broker.get(
        "group.consumer.session.timeout.ms", "45000"
    )
    return max(float(session_ms), float(member["max.poll.interval.ms"]))
