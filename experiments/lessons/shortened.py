"""The timeouts that an experiment sets below their defaults.

An outage of two seconds with a session of two seconds is one of nine with Kafka's default. Pages
and chapters therefore name every such setting next to the figures that it shapes.

Sources of the defaults: Kafka 4.3's documentation of broker, controller, consumer and producer
configurations; librdkafka's CONFIGURATION.md.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from experiments.messages.phrases import format_list
from experiments.sweep.plan import Plan, TrialSpec

BROKER_DEFAULTS_MS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "broker.session.timeout.ms": 9_000,
        "broker.heartbeat.interval.ms": 2_000,
        "controller.quorum.fetch.timeout.ms": 2_000,
        "controller.quorum.election.timeout.ms": 1_000,
        "controller.quorum.election.backoff.max.ms": 1_000,
        "zookeeper.session.timeout.ms": 18_000,
        "replica.lag.time.max.ms": 30_000,
        "replica.fetch.backoff.ms": 1_000,
        "group.initial.rebalance.delay.ms": 3_000,
        "group.consumer.session.timeout.ms": 45_000,
        "group.consumer.heartbeat.interval.ms": 5_000,
        "log.retention.check.interval.ms": 300_000,
    }
)
LIBRDKAFKA_DEFAULTS_MS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "socket.timeout.ms": 60_000,
        "delivery.timeout.ms": 300_000,
        "retry.backoff.max.ms": 1_000,
        "topic.metadata.refresh.interval.ms": 300_000,
    }
)
JAVA_DEFAULTS_MS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "request.timeout.ms": 30_000,
        "delivery.timeout.ms": 120_000,
        "retry.backoff.max.ms": 1_000,
        "metadata.max.age.ms": 300_000,
    }
)
MEMBER_DEFAULTS_MS: Final[Mapping[str, int]] = MappingProxyType(
    {"session.timeout.ms": 45_000, "heartbeat.interval.ms": 3_000, "max.poll.interval.ms": 300_000}
)
"""Of a consumer that is a member of a group, in both clients."""


def describe_shortened(plan: Plan) -> str | None:
    """Return the timeouts that a sweep sets below their defaults, as one sentence.

    Example: `broker.session.timeout.ms 2 s (default 9 s) and socket.timeout.ms 1 s (librdkafka's
    default 60 s).`

    Args:
        plan: the sweep; trials that are only controls do not count.

    Returns:
        None: every timeout has its default, or a higher value.
    """
    values: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
    for trial in plan.trials:
        if not trial.added:
            for name, default, value_ms in _shortened(trial):
                values[name, default].add(value_ms)
    texts = [
        f"{name} {' and '.join(map(_seconds, sorted(values_ms)))} ({default})"
        for (name, default), values_ms in values.items()
    ]
    return f"{format_list(texts)}." if texts else None


def _shortened(trial: TrialSpec) -> Iterator[tuple[str, str, int]]:
    """Yield name, default as text and value in milliseconds of each shortened timeout."""
    if trial.client == "java":
        producer = (JAVA_DEFAULTS_MS, "Java's default", trial.producer)
    else:
        producer = (LIBRDKAFKA_DEFAULTS_MS, "librdkafka's default", trial.producer)
    for defaults_ms, whose, settings in (
        (BROKER_DEFAULTS_MS, "default", trial.cluster.broker),
        producer,
        (MEMBER_DEFAULTS_MS, "default", trial.consumer if trial.workload.members else {}),
    ):
        for name, default_ms in defaults_ms.items():
            value = settings.get(name, "")
            if value.isdecimal() and int(value) < default_ms:
                yield name, f"{whose} {_seconds(default_ms)}", int(value)


def _seconds(duration_ms: int) -> str:
    return f"{duration_ms / 1000:g} s"
