"""Retention of a trial's topic: Kafka's settings, resolved to one time and one size limit. Pure.

Two decisions depend on it and must agree: the final read stops retention before it reads a topic
whose records can expire (`experiments.trial`), and the contract guarantees no record of such a
topic (`experiments.verdicts`). So both ask this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ackbench.experiments.sweep.plan import TrialSpec

UNLIMITED: Final = -1
KEEP_ALL: Final[Mapping[str, str]] = {"retention.ms": "-1", "retention.bytes": "-1"}
"""Topic settings that stop retention: https://kafka.apache.org/documentation/#topicconfigs_retention.bytes."""

_HOUR_MS: Final = 3_600_000
_BROKER_UNITS_MS: Final = {
    "log.retention.ms": 1,
    "log.retention.minutes": 60_000,
    "log.retention.hours": _HOUR_MS,
}
"""In Kafka's order of precedence (`KafkaConfig.logRetentionTimeMillis`): the first one set wins."""
_DEFAULT_MS: Final = 168 * _HOUR_MS
"""Kafka's default of `log.retention.hours`."""


@dataclass(frozen=True)
class Retention:
    """The limits beyond which Kafka deletes a partition's oldest segments."""

    ms: float
    """Age of a segment's last record; -1: no limit."""
    bytes: float
    """Size of one partition; -1: no limit."""

    @property
    def can_expire(self) -> bool:
        """Whether records can expire during a trial, which takes less than an hour."""
        return 0 <= self.ms < _HOUR_MS or self.bytes >= 0


def retention_of(spec: TrialSpec) -> Retention:
    """Return the retention of a trial's topic."""
    return resolve_retention(spec.topic, spec.cluster.settings())


def resolve_retention(topic: Mapping[str, str], broker: Mapping[str, str]) -> Retention:
    """Return the retention that a topic's settings and its brokers' settings amount to.

    A topic's own setting wins over its brokers'
    (https://kafka.apache.org/documentation/#topicconfigs). A setting that a broker reports as
    `null` is not set.
    """
    return Retention(_time_limit_ms(topic, broker), _size_limit_bytes(topic, broker))


def _time_limit_ms(topic: Mapping[str, str], broker: Mapping[str, str]) -> int:
    own_ms = _limit(topic, "retention.ms")
    if own_ms is not None:
        return own_ms
    for name, unit_ms in _BROKER_UNITS_MS.items():
        limit = _limit(broker, name)
        if limit is not None:
            return UNLIMITED if limit < 0 else limit * unit_ms
    return _DEFAULT_MS


def _size_limit_bytes(topic: Mapping[str, str], broker: Mapping[str, str]) -> int:
    for settings, name in ((topic, "retention.bytes"), (broker, "log.retention.bytes")):
        limit = _limit(settings, name)
        if limit is not None:
            return limit
    return UNLIMITED


def _limit(settings: Mapping[str, str], name: str) -> int | None:
    value = settings.get(name)
    return None if value in {None, "", "null"} else int(str(value))
