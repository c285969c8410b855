"""The client settings that bear on correctness, all passed explicitly and recorded. Pure.

Values are librdkafka's own defaults (CONFIGURATION.md of 2.16), unless a reason stands beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from infra.errors import InputError

FIRST_NAME: Final[dict[str, str]] = {
    "compression.codec": "compression.type",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "message.send.max.retries": "retries",
    "message.timeout.ms": "delivery.timeout.ms",
    "metadata.broker.list": "bootstrap.servers",
    "queue.buffering.max.ms": "linger.ms",
    "request.required.acks": "acks",
}
"""librdkafka has two names for each of these; we use the one that Java's client has too."""

IDEMPOTENT_IN_FLIGHT: Final = "5"
"""The most that brokers keep track of for an idempotent producer (KIP-98), and what librdkafka then sets by itself."""

TRANSACTION_TIMEOUT_MS: Final = "60000"
"""librdkafka's own; it refuses one that is shorter than `delivery.timeout.ms`."""

_BOTH: Final[dict[str, str]] = {
    "client.id": "ackbench",
    "socket.timeout.ms": "60000",
    "socket.connection.setup.timeout.ms": "30000",
    "socket.keepalive.enable": "false",
    "socket.nagle.disable": "true",
    "socket.max.fails": "1",
    "reconnect.backoff.ms": "100",
    "reconnect.backoff.max.ms": "10000",
    "retry.backoff.ms": "100",
    "retry.backoff.max.ms": "1000",
    "topic.metadata.refresh.interval.ms": "300000",
    "topic.metadata.refresh.fast.interval.ms": "100",
    "topic.metadata.propagation.max.ms": "30000",
    "metadata.max.age.ms": "900000",
    "metadata.recovery.strategy": "rebootstrap",
    "allow.auto.create.topics": "false",
    "message.max.bytes": "1000000",
    "statistics.interval.ms": "0",
    # KIP-714 telemetry is traffic that no record needs.
    "enable.metrics.push": "false",
}

_TELLING: Final[dict[str, str]] = {
    # The client's log then tells when it was told of a leader: a few hundred lines a trial (`client_log`; librdkafka: none).
    "debug": "topic",
}

_PRODUCER: Final[dict[str, str]] = {
    "acks": "all",
    "enable.idempotence": "false",
    "max.in.flight.requests.per.connection": "1000000",
    "retries": "2147483647",
    # A trial waits this long for its last records (librdkafka: 300000).
    "delivery.timeout.ms": "30000",
    "request.timeout.ms": "30000",
    "linger.ms": "5",
    "batch.size": "1000000",
    "batch.num.messages": "10000",
    # The schedule does not wait for the cluster: an outage of seconds must not fill the queue (librdkafka: 100000).
    "queue.buffering.max.messages": "500000",
    "queue.buffering.max.kbytes": "1048576",
    "queue.buffering.backpressure.threshold": "1",
    "partitioner": "consistent_random",
    "sticky.partitioning.linger.ms": "10",
    "compression.type": "none",
}

_CONSUMER: Final[dict[str, str]] = {
    # Partitions are assigned by hand; librdkafka wants a group all the same.
    "group.id": "ackbench",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    # `largest` would jump over records in silence (librdkafka: largest).
    "auto.offset.reset": "earliest",
    "isolation.level": "read_committed",
    # Bytes that the broker damaged must be seen (librdkafka: false).
    "check.crcs": "true",
    # Tells that a partition is fetched at all, and that it was read to its end (librdkafka: false).
    "enable.partition.eof": "true",
    "fetch.min.bytes": "1",
    "fetch.wait.max.ms": "500",
    "fetch.max.bytes": "52428800",
    "max.partition.fetch.bytes": "1048576",
    "fetch.error.backoff.ms": "500",
    # With its queue full, librdkafka does not fetch for this long; a reader that keeps up would starve (librdkafka: 1000).
    "fetch.queue.backoff.ms": "5",
    "queued.min.messages": "100000",
    "queued.max.messages.kbytes": "65536",
}

_OWN_OF_BOTH: Final[dict[str, str]] = {"client.id": "rdkafka", "enable.metrics.push": "true"}
_OWN_OF_PRODUCER: Final[dict[str, str]] = {
    **_OWN_OF_BOTH,
    "delivery.timeout.ms": "300000",
    "queue.buffering.max.messages": "100000",
}
_OWN_OF_CONSUMER: Final[dict[str, str]] = {
    **_OWN_OF_BOTH,
    "enable.auto.commit": "true",
    "enable.auto.offset.store": "true",
    "auto.offset.reset": "largest",
    "check.crcs": "false",
    "enable.partition.eof": "false",
    "fetch.queue.backoff.ms": "1000",
}
"""Where librdkafka's own defaults are others than what we pass; a test asks the library."""

NEEDED_OF_PRODUCER: Final[dict[str, str]] = _TELLING
NEEDED_OF_CONSUMER: Final[dict[str, str]] = {
    **_TELLING,
    **{name: _CONSUMER[name] for name in ("group.id", "auto.offset.reset", "enable.partition.eof")},
}
"""What is passed also to clients that keep their own defaults: what the ledger tells of them needs it."""

_TRUE: Final = frozenset({"true", "t", "1"})


def producer_settings(overrides: Mapping[str, str]) -> dict[str, str]:
    """Return all that a producer is given, the addresses apart.

    Args:
        overrides: librdkafka's properties by any of their names; they win.

    Raises:
        InputError: two names of one property say different things.
    """
    return _adjusted({**_BOTH, **_TELLING, **_PRODUCER}, resolved(overrides))


def own_producer_settings(overrides: Mapping[str, str]) -> dict[str, str]:
    """Return what holds of a producer that keeps librdkafka's own defaults but for the overrides.

    Raises:
        InputError: two names of one property say different things.
    """
    return _adjusted(
        {**_BOTH, **_PRODUCER, **_OWN_OF_PRODUCER, **NEEDED_OF_PRODUCER}, resolved(overrides)
    )


def _adjusted(settings: dict[str, str], wanted: Mapping[str, str]) -> dict[str, str]:
    """Lay what is wanted over settings, and do to them what librdkafka does by itself."""
    settings = {**settings, **wanted}
    if (
        "max.in.flight.requests.per.connection" not in wanted
        and settings["enable.idempotence"].lower() in _TRUE
    ):
        settings["max.in.flight.requests.per.connection"] = IDEMPOTENT_IN_FLIGHT
    if "transactional.id" in settings:
        settings.setdefault("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS)
    return settings


def copier_settings(producer: Mapping[str, str], transactional_id: str | None) -> dict[str, str]:
    """Return what a copier's producer is given, the addresses apart: what the producers under test are, in transactions of its own or in none.

    Args:
        producer: of `producer_settings`.
        transactional_id: of its transactions; `None`: it has none.
    """
    settings = {name: value for name, value in producer.items() if name != "transactional.id"}
    return _adjusted(
        settings, {} if transactional_id is None else {"transactional.id": transactional_id}
    )


def consumer_settings(overrides: Mapping[str, str]) -> dict[str, str]:
    """Return all that a consumer is given, the addresses apart.

    Args:
        overrides: librdkafka's properties by any of their names; they win.

    Raises:
        InputError: two names of one property say different things.
    """
    return {**_BOTH, **_TELLING, **_CONSUMER, **resolved(overrides)}


def own_consumer_settings(overrides: Mapping[str, str]) -> dict[str, str]:
    """Return what holds of a consumer that keeps librdkafka's own defaults but for the overrides.

    Raises:
        InputError: two names of one property say different things.
    """
    return {**_BOTH, **_CONSUMER, **_OWN_OF_CONSUMER, **NEEDED_OF_CONSUMER, **resolved(overrides)}


def admin_settings() -> dict[str, str]:
    """Return what clients are given that ask and change, and neither produce nor consume."""
    return dict(_BOTH)


def delivery_timeout_ms(settings: Mapping[str, str]) -> int:
    """Return after how long a record settles at the latest; 0: never.

    Raises:
        InputError: two names of it say different things.
    """
    return int(resolved(settings).get("delivery.timeout.ms", _PRODUCER["delivery.timeout.ms"]))


def transaction_timeout_ms(settings: Mapping[str, str]) -> int:
    """Return after how long the coordinator aborts a transaction that its producer does not end."""
    return int(settings.get("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS))


def resolved(settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings by their first names.

    Raises:
        InputError: two names of one property say different things.
    """
    found: dict[str, str] = {}
    for name, value in settings.items():
        first = FIRST_NAME.get(name, name)
        if found.get(first, value) != value:
            raise InputError(
                f"{first} is given twice, as {found[first]} and, by its other name, as {value}: give one"
            )
        found[first] = value
    return found
