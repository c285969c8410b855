"""The settings of librdkafka clients.

By default, every setting that affects correctness is passed explicitly and recorded. The values
are librdkafka's own defaults (CONFIGURATION.md of 2.16) except where a comment gives the reason.
A trial can also keep librdkafka's defaults; then only its overrides and the required settings are
passed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ackbench.infra.errors import InputError

CANONICAL_NAMES: Final[dict[str, str]] = {
    "compression.codec": "compression.type",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "message.send.max.retries": "retries",
    "message.timeout.ms": "delivery.timeout.ms",
    "metadata.broker.list": "bootstrap.servers",
    "queue.buffering.max.ms": "linger.ms",
    "request.required.acks": "acks",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.oauthbearer.client.id": "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.secret": "sasl.oauthbearer.client.credentials.client.secret",
}
"""From librdkafka's alias of a property to the name that Kafka's Java clients use as well."""

IDEMPOTENT_IN_FLIGHT: Final = "5"
"""The most batches that a broker tracks per idempotent producer and partition (KIP-98).

librdkafka lowers `max.in.flight.requests.per.connection` to this value for such producers.
"""

TRANSACTION_TIMEOUT_MS: Final = "60000"
"""librdkafka's default. librdkafka refuses a value below `delivery.timeout.ms`."""

_COMMON: Final[dict[str, str]] = {
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

_LOGGING: Final[dict[str, str]] = {
    # The client then logs when it learns of a new leader: a few hundred lines per trial
    # (librdkafka's default: no debug contexts).
    "debug": "topic"
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
    # The load does not wait for the cluster: an outage of seconds must not fill the queue
    # (librdkafka: 100000).
    "queue.buffering.max.messages": "500000",
    "queue.buffering.max.kbytes": "1048576",
    "queue.buffering.backpressure.threshold": "1",
    "partitioner": "consistent_random",
    "sticky.partitioning.linger.ms": "10",
    "compression.type": "none",
}

_CONSUMER: Final[dict[str, str]] = {
    # Partitions are assigned explicitly; librdkafka requires a group id nevertheless.
    "group.id": "ackbench",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    # `largest` would silently skip records (librdkafka: largest).
    "auto.offset.reset": "earliest",
    "isolation.level": "read_committed",
    # Data corrupted on the broker must be detected (librdkafka: false).
    "check.crcs": "true",
    # Reports that a partition is being fetched and when its end is reached (librdkafka: false).
    "enable.partition.eof": "true",
    "fetch.min.bytes": "1",
    "fetch.wait.max.ms": "500",
    "fetch.max.bytes": "52428800",
    "max.partition.fetch.bytes": "1048576",
    "fetch.error.backoff.ms": "500",
    # librdkafka pauses fetching for this long when its queue is full, which would starve a consumer
    # that keeps up with the load (librdkafka: 1000).
    "fetch.queue.backoff.ms": "5",
    "queued.min.messages": "100000",
    "queued.max.messages.kbytes": "65536",
}

_COMMON_DEFAULTS: Final[dict[str, str]] = {"client.id": "rdkafka", "enable.metrics.push": "true"}
_PRODUCER_DEFAULTS: Final[dict[str, str]] = {
    **_COMMON_DEFAULTS,
    "delivery.timeout.ms": "300000",
    "queue.buffering.max.messages": "100000",
}
_CONSUMER_DEFAULTS: Final[dict[str, str]] = {
    **_COMMON_DEFAULTS,
    "enable.auto.commit": "true",
    "enable.auto.offset.store": "true",
    "auto.offset.reset": "largest",
    "check.crcs": "false",
    "enable.partition.eof": "false",
    "fetch.queue.backoff.ms": "1000",
}
"""librdkafka's defaults where they differ from the values above; a test checks them against the
library."""

REQUIRED_PRODUCER_SETTINGS: Final[dict[str, str]] = _LOGGING
IDEMPOTENT_LOGGING: Final[dict[str, str]] = {"debug": "topic,eos"}
"""An idempotent producer also logs why it bumps its epoch. One with transactions does not: it would
log a dozen lines for each of them."""
REQUIRED_CONSUMER_SETTINGS: Final[dict[str, str]] = {
    **_LOGGING,
    **{name: _CONSUMER[name] for name in ("group.id", "auto.offset.reset", "enable.partition.eof")},
}
"""Settings that are passed even to clients with default settings, because the ledger needs them."""

REQUEST_TIMEOUT: Final = "socket.timeout.ms"
"""The property for how long the client waits for a broker's response, milliseconds."""

_TRUE: Final = frozenset({"true", "t", "1"})


def is_true(value: str) -> bool:
    """Return whether a boolean property has the value true.

    librdkafka accepts `true`, `t` and `1` in any case. Kafka itself accepts only `true`.
    """
    return value.lower() in _TRUE


def producer_settings(overrides: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a producer with explicit settings, without its addresses.

    Args:
        overrides: properties by any of their names; they take precedence.

    Raises:
        InputError: two names of one property have different values.
    """
    return _with_derived({**_COMMON, **_LOGGING, **_PRODUCER}, canonical_names(overrides))


def default_producer_settings(overrides: Mapping[str, str]) -> dict[str, str]:
    """Return the effective settings of a producer that keeps librdkafka's defaults.

    Raises:
        InputError: two names of one property have different values.
    """
    defaults = {**_COMMON, **_PRODUCER, **_PRODUCER_DEFAULTS, **REQUIRED_PRODUCER_SETTINGS}
    return _with_derived(defaults, canonical_names(overrides))


def _with_derived(settings: Mapping[str, str], overrides: Mapping[str, str]) -> dict[str, str]:
    """Apply the overrides, then the settings that librdkafka derives from others."""
    settings = {**settings, **overrides}
    if "max.in.flight.requests.per.connection" not in overrides and is_true(
        settings.get("enable.idempotence", "false")
    ):
        settings["max.in.flight.requests.per.connection"] = IDEMPOTENT_IN_FLIGHT
    if "transactional.id" in settings:
        settings.setdefault("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS)
    return settings


def copier_settings(producer: Mapping[str, str], transactional_id: str | None) -> dict[str, str]:
    """Return the settings of a copier's producer, without its addresses.

    Args:
        producer: settings of the producers under test, from `producer_settings`.
        transactional_id: the copier's own; `None`: the copier does not use transactions.
    """
    settings = {name: value for name, value in producer.items() if name != "transactional.id"}
    return _with_derived(
        settings, {} if transactional_id is None else {"transactional.id": transactional_id}
    )


def consumer_settings(overrides: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a consumer with explicit settings, without its addresses.

    Args:
        overrides: properties by any of their names; they take precedence.

    Raises:
        InputError: two names of one property have different values.
    """
    return {**_COMMON, **_LOGGING, **_CONSUMER, **canonical_names(overrides)}


def default_consumer_settings(overrides: Mapping[str, str]) -> dict[str, str]:
    """Return the effective settings of a consumer that keeps librdkafka's defaults.

    Raises:
        InputError: two names of one property have different values.
    """
    defaults = {**_COMMON, **_CONSUMER, **_CONSUMER_DEFAULTS, **REQUIRED_CONSUMER_SETTINGS}
    return {**defaults, **canonical_names(overrides)}


def admin_settings() -> dict[str, str]:
    """Return the settings of an admin client, without its addresses."""
    return dict(_COMMON)


def delivery_timeout_ms(settings: Mapping[str, str]) -> int:
    """Return the producer's delivery timeout in milliseconds; 0: records never time out.

    Raises:
        InputError: two names of the property have different values.
    """
    return int(
        canonical_names(settings).get("delivery.timeout.ms", _PRODUCER["delivery.timeout.ms"])
    )


def transaction_timeout_ms(settings: Mapping[str, str]) -> int:
    """Return after how many milliseconds the coordinator aborts an unfinished transaction."""
    return int(settings.get("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS))


def canonical_names(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings with aliases replaced by the properties' canonical names.

    Raises:
        InputError: two names of one property have different values.
    """
    renamed: dict[str, str] = {}
    for alias, value in settings.items():
        name = CANONICAL_NAMES.get(alias, alias)
        if renamed.get(name, value) != value:
            raise InputError(
                f"{name} is given twice, as {renamed[name]} and, under its alias, as {value}: "
                "give only one"
            )
        renamed[name] = value
    return renamed


def is_idempotent(overrides: Mapping[str, str]) -> bool:
    """Return whether a producer with default settings and these overrides is idempotent."""
    return is_true(overrides.get("enable.idempotence", "false"))
