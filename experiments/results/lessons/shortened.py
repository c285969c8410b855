"""The timeouts that an experiment sets below their defaults.

An outage of two seconds with a session of two seconds is one of nine with Kafka's default. Pages
and chapters therefore name every such setting next to the figures that it shapes.

The defaults are those of Kafka's own definitions and of librdkafka, as for every other setting that
is changed (`experiments.results.changed_settings`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from ackbench.experiments.messages.phrases import format_list
from ackbench.experiments.planning.properties import defaults_of, kafka_properties, known_versions
from ackbench.experiments.results.changed_settings import kafka_defaults, producer_defaults
from ackbench.experiments.sweep.client_kinds import ClientKind, traits_of
from ackbench.experiments.sweep.plan import Plan, TrialSpec

BROKER_TIMEOUTS: Final = (
    "broker.session.timeout.ms",
    "broker.heartbeat.interval.ms",
    "controller.quorum.fetch.timeout.ms",
    "controller.quorum.election.timeout.ms",
    "controller.quorum.election.backoff.max.ms",
    "zookeeper.session.timeout.ms",
    "replica.lag.time.max.ms",
    "replica.fetch.backoff.ms",
    "group.initial.rebalance.delay.ms",
    "group.consumer.session.timeout.ms",
    "group.consumer.heartbeat.interval.ms",
    "log.retention.check.interval.ms",
)
CLIENT_TIMEOUTS: Final[Mapping[ClientKind, Sequence[str]]] = MappingProxyType(
    {
        "librdkafka": (
            "socket.timeout.ms",
            "delivery.timeout.ms",
            "retry.backoff.max.ms",
            "topic.metadata.refresh.interval.ms",
        ),
        "java": (
            "request.timeout.ms",
            "delivery.timeout.ms",
            "retry.backoff.max.ms",
            "metadata.max.age.ms",
        ),
    }
)
MEMBER_TIMEOUTS: Final = ("session.timeout.ms", "heartbeat.interval.ms", "max.poll.interval.ms")
"""Of a consumer that is a member of a group; both clients have the same defaults."""


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
    kafka = kafka_defaults(trial) or kafka_properties(known_versions()[-1])
    for names, whose, settings, defaults in (
        (BROKER_TIMEOUTS, "default", trial.cluster.broker, defaults_of(kafka.broker)),
        (
            CLIENT_TIMEOUTS.get(trial.client, ()),
            f"{traits_of(trial.client).owner} default",
            trial.producer,
            producer_defaults(trial),
        ),
        (
            MEMBER_TIMEOUTS,
            "default",
            trial.consumer if trial.workload.members else {},
            defaults_of(kafka.consumer),
        ),
    ):
        for name in names:
            value, default = settings.get(name, ""), defaults.get(name, "")
            if value.isdecimal() and default.isdecimal() and int(value) < int(default):
                yield name, f"{whose} {_seconds(int(default))}", int(value)


def _seconds(duration_ms: int) -> str:
    return f"{duration_ms / 1000:g} s"
