"""The settings of Kafka's own Java clients.

By default, every setting that affects correctness is passed explicitly and recorded. The values
are those of Kafka's own definitions (`experiments.planning.properties`) except where a comment
gives the reason. A trial can also keep Java's defaults; then only its overrides and the required
settings are passed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ackbench.experiments.trial.clients.settings import librdkafka
from ackbench.infra.errors import InputError

JAVA_NAMES: Final[dict[str, str]] = {
    # How long a request may go unanswered. librdkafka's own `request.timeout.ms` is a different
    # setting: how long the broker may take.
    "socket.timeout.ms": "request.timeout.ms",
    "message.max.bytes": "max.request.size",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    # How often a client asks who leads, without an error. librdkafka's own `metadata.max.age.ms`
    # is how long it trusts what it knows.
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
}
"""From librdkafka's name of a property to the Java clients' name for the same property.

An experiment can use either name; each client gets its own.
"""

BUILT_IN_PARTITIONERS: Final = frozenset({"murmur2_random", "murmur2"})
"""librdkafka's partitioners that map a key to the same partition as Java's built-in partitioner.

For these, the Java producer gets no partitioner setting. (Without keys, the Java producer writes
one batch to one partition at a time.)
"""

REQUEST_TIMEOUT: Final = "request.timeout.ms"
"""The property for how long the client waits for a broker's response, milliseconds."""
_MAX_IN_FLIGHT: Final = 5
"""Brokers track this many batches per idempotent producer (KIP-98)."""

_COMMON: Final[dict[str, str]] = {
    "client.id": "ackbench",
    "socket.connection.setup.timeout.ms": "10000",
    "socket.connection.setup.timeout.max.ms": "30000",
    "reconnect.backoff.ms": "50",
    "reconnect.backoff.max.ms": "1000",
    "retry.backoff.ms": "100",
    "retry.backoff.max.ms": "1000",
    "request.timeout.ms": "30000",
    "metadata.max.age.ms": "300000",
    # KIP-714 telemetry is traffic that no record needs.
    "enable.metrics.push": "false",
}

_PRODUCER: Final[dict[str, str]] = {
    "acks": "all",
    # As for librdkafka, so that cells of both clients differ only in the client (Java: true).
    "enable.idempotence": "false",
    "max.in.flight.requests.per.connection": "5",
    # VerifiableProducer itself sets 0.
    "retries": "2147483647",
    # A trial waits this long for its last records (Java: 120000).
    "delivery.timeout.ms": "30000",
    "linger.ms": "5",
    "batch.size": "16384",
    # The load does not wait for the cluster: an outage of seconds must not fill the buffer
    # (Java: 33554432).
    "buffer.memory": "67108864",
    "max.block.ms": "60000",
    "max.request.size": "1048576",
    "compression.type": "none",
}

_CONSUMER: Final[dict[str, str]] = {
    # `latest` would silently skip records (Java: latest); VerifiableConsumer itself sets earliest.
    "auto.offset.reset": "earliest",
    # Commits happen in the background. Otherwise VerifiableConsumer waits for a commit after each
    # poll, and reading would depend on the group coordinator.
    "enable.auto.commit": "true",
    "isolation.level": "read_committed",
    "check.crcs": "true",
    "fetch.min.bytes": "1",
    "fetch.max.wait.ms": "500",
    "fetch.max.bytes": "52428800",
    "max.partition.fetch.bytes": "1048576",
    "max.poll.records": "500",
    "max.poll.interval.ms": "300000",
    "session.timeout.ms": "45000",
    "heartbeat.interval.ms": "3000",
    "group.protocol": "classic",
}

_COMMON_DEFAULTS: Final[dict[str, str]] = {"client.id": "", "enable.metrics.push": "true"}
_PRODUCER_DEFAULTS: Final[dict[str, str]] = {
    **_COMMON_DEFAULTS,
    "enable.idempotence": "true",
    "delivery.timeout.ms": "120000",
    "buffer.memory": "33554432",
}
_CONSUMER_DEFAULTS: Final[dict[str, str]] = {
    **_COMMON_DEFAULTS,
    "isolation.level": "read_uncommitted",
}
"""Java's defaults where they differ from the values above; a test checks them against Kafka's
definitions."""

REQUIRED_PRODUCER_SETTINGS: Final[dict[str, str]] = {"retries": _PRODUCER["retries"]}
REQUIRED_CONSUMER_SETTINGS: Final[dict[str, str]] = {
    name: _CONSUMER[name] for name in ("auto.offset.reset", "session.timeout.ms")
}
"""Settings that are passed even to clients with default settings.

Kafka's verifiable programs would otherwise set other values, or the trial depends on them.
"""


def canonical_names(overrides: Mapping[str, str]) -> dict[str, str]:
    """Return properties by the names that the Java clients have for them.

    Raises:
        InputError: two names of one property have different values, or the partitioner does not
            exist in the Java clients.
    """
    renamed: dict[str, str] = {}
    for name, value in librdkafka.canonical_names(overrides).items():
        if name == "partitioner":
            _require_built_in(value)
            continue
        java = JAVA_NAMES.get(name, name)
        if renamed.get(java, value) != value:
            raise InputError(
                f"{java} is given twice, as {renamed[java]} and, under librdkafka's name {name}, "
                f"as {value}: give only one"
            )
        renamed[java] = value
    return renamed


def producer_settings(overrides: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a producer with explicit settings, without its addresses.

    Args:
        overrides: properties by Java's or librdkafka's names; they take precedence.

    Raises:
        InputError: as `canonical_names`.
    """
    renamed = canonical_names(overrides)
    return _fit_request_timeout({**_COMMON, **_PRODUCER, **renamed}, renamed)


def consumer_settings(overrides: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a consumer with explicit settings, without its addresses.

    Args:
        overrides: properties by Java's or librdkafka's names; they take precedence.

    Raises:
        InputError: as `canonical_names`.
    """
    return {**_COMMON, **_CONSUMER, **canonical_names(overrides)}


def default_producer_settings(overrides: Mapping[str, str]) -> dict[str, str]:
    """Return the effective settings of a producer that keeps Java's defaults.

    Raises:
        InputError: as `canonical_names`.
    """
    renamed = canonical_names(overrides)
    idempotence = {"enable.idempotence": str(is_idempotent(renamed)).lower()}
    return {**_COMMON, **_PRODUCER, **_PRODUCER_DEFAULTS, **renamed, **idempotence}


def default_consumer_settings(overrides: Mapping[str, str]) -> dict[str, str]:
    """Return the effective settings of a consumer that keeps Java's defaults.

    Raises:
        InputError: as `canonical_names`.
    """
    return {**_COMMON, **_CONSUMER, **_CONSUMER_DEFAULTS, **canonical_names(overrides)}


def refusal(settings: Mapping[str, str]) -> str | None:
    """Return Kafka's own message if the Java producer refuses these settings, else `None`.

    The rules are those of `ProducerConfig.postProcessAndValidateIdempotenceConfigs` and
    `KafkaProducer.configureDeliveryTimeout`.
    """
    if "transactional.id" in settings and settings.get("enable.idempotence") == "false":
        return "Cannot set a transactional.id without also enabling idempotence."
    if settings.get("enable.idempotence") == "true":
        if settings.get("acks", "all") not in {"all", "-1"}:
            return (
                "Must set acks to all in order to use the idempotent producer. "
                "Otherwise we cannot guarantee idempotence."
            )
        if settings.get("retries") == "0":
            return "Must set retries to non-zero when using the idempotent producer."
        if int(settings.get("max.in.flight.requests.per.connection", "5")) > _MAX_IN_FLIGHT:
            return (
                "Must set max.in.flight.requests.per.connection to at most 5 "
                "when using the idempotent producer."
            )
    min_delivery_ms = int(settings.get("linger.ms", "5")) + int(
        settings.get("request.timeout.ms", "30000")
    )
    if int(settings.get("delivery.timeout.ms", "120000")) < min_delivery_ms:
        return (
            "delivery.timeout.ms should be equal to or larger than linger.ms + request.timeout.ms"
        )
    return None


def is_idempotent(overrides: Mapping[str, str]) -> bool:
    """Return whether a producer with default settings and these overrides is idempotent.

    The Java producer is idempotent by default unless an override conflicts with it (KIP-679).
    """
    if "enable.idempotence" in overrides:
        return overrides["enable.idempotence"] == "true"
    without_timeouts = {"linger.ms": "0", "request.timeout.ms": "0", **overrides}
    return refusal({**without_timeouts, "enable.idempotence": "true"}) is None


def _fit_request_timeout(settings: dict[str, str], overrides: Mapping[str, str]) -> dict[str, str]:
    """Shorten the request timeout, unless overridden, to fit into the delivery timeout.

    The Java producer refuses delivery.timeout.ms < linger.ms + request.timeout.ms.
    """
    left_ms = int(settings["delivery.timeout.ms"]) - int(settings["linger.ms"])
    if "request.timeout.ms" in overrides or int(settings["request.timeout.ms"]) <= left_ms:
        return settings
    return {**settings, "request.timeout.ms": str(max(left_ms, 0))}


def _require_built_in(partitioner: str) -> None:
    if partitioner not in BUILT_IN_PARTITIONERS:
        allowed = ", ".join(sorted(BUILT_IN_PARTITIONERS))
        raise InputError(
            f"partitioner {partitioner} exists in librdkafka only; allowed with client java: "
            f"{allowed}, or Java's own partitioner.class"
        )
