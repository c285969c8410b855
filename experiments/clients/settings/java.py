"""The settings of Kafka's own Java clients that bear on correctness, all passed explicitly and recorded. Pure.

Values are those of Kafka's own definitions (`experiments.planning.properties`), unless a reason stands beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from experiments.clients.settings.librdkafka import resolved
from infra.errors import InputError

SAME_THING: Final[dict[str, str]] = {
    # How long a request may go unanswered. librdkafka's own `request.timeout.ms` is for the broker alone.
    "socket.timeout.ms": "request.timeout.ms",
    "message.max.bytes": "max.request.size",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
}
"""librdkafka's properties that Java's clients have under another name: an experiment names one, and each client gets its own."""

BUILT_IN: Final = frozenset({"murmur2_random", "murmur2"})
"""librdkafka's partitioners that put a key where Java's built-in one does: Java is given none. (Without a key, Java keeps to a partition a batch.)"""

_BOTH: Final[dict[str, str]] = {
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
    # As librdkafka's, so that cells of both clients differ in the client alone (Java: true).
    "enable.idempotence": "false",
    "max.in.flight.requests.per.connection": "5",
    # VerifiableProducer sets it to 0 by itself.
    "retries": "2147483647",
    # A trial waits this long for its last records (Java: 120000).
    "delivery.timeout.ms": "30000",
    "linger.ms": "5",
    "batch.size": "16384",
    # The schedule does not wait for the cluster: an outage of seconds must not fill the buffer (Java: 33554432).
    "buffer.memory": "67108864",
    "max.block.ms": "60000",
    "max.request.size": "1048576",
    "compression.type": "none",
}

_CONSUMER: Final[dict[str, str]] = {
    # `latest` would jump over records in silence (Java: latest); VerifiableConsumer says so by itself.
    "auto.offset.reset": "earliest",
    # In the background; else VerifiableConsumer waits for a commit after each poll, and a reader must not wait for its group's coordinator.
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

_OWN_OF_BOTH: Final[dict[str, str]] = {"client.id": "", "enable.metrics.push": "true"}
_OWN_OF_PRODUCER: Final[dict[str, str]] = {
    **_OWN_OF_BOTH,
    "enable.idempotence": "true",
    "delivery.timeout.ms": "120000",
    "buffer.memory": "33554432",
}
_OWN_OF_CONSUMER: Final[dict[str, str]] = {**_OWN_OF_BOTH, "isolation.level": "read_uncommitted"}
"""Where Java's own defaults are others than what we pass; a test holds them against Kafka's definitions."""

NEEDED_OF_PRODUCER: Final[dict[str, str]] = {"retries": _PRODUCER["retries"]}
NEEDED_OF_CONSUMER: Final[dict[str, str]] = {
    name: _CONSUMER[name] for name in ("auto.offset.reset", "session.timeout.ms")
}
"""What is passed also to clients that keep their own defaults: the programs would set other values by themselves, or the trial needs it."""


def translated(overrides: Mapping[str, str]) -> dict[str, str]:
    """Return properties by the names that Java's clients have for them.

    Raises:
        InputError: two names of one property say different things, or it is a partitioner that Java's clients lack.
    """
    found: dict[str, str] = {}
    for name, value in resolved(overrides).items():
        if name == "partitioner":
            _require_built_in(value)
            continue
        java = SAME_THING.get(name, name)
        if found.get(java, value) != value:
            raise InputError(
                f"{java} is given twice, as {found[java]} and, by librdkafka's name {name}, as {value}: give one"
            )
        found[java] = value
    return found


def producer_settings(overrides: Mapping[str, str]) -> dict[str, str]:
    """Return all that a producer is given, the addresses apart.

    Args:
        overrides: properties by Java's names, or by librdkafka's for the same thing; they win.

    Raises:
        InputError: as `translated`.
    """
    wanted = translated(overrides)
    return _within_delivery({**_BOTH, **_PRODUCER, **wanted}, wanted)


def consumer_settings(overrides: Mapping[str, str]) -> dict[str, str]:
    """Return all that a consumer is given, the addresses apart.

    Args:
        overrides: properties by Java's names, or by librdkafka's for the same thing; they win.

    Raises:
        InputError: as `translated`.
    """
    return {**_BOTH, **_CONSUMER, **translated(overrides)}


def own_producer_settings(overrides: Mapping[str, str]) -> dict[str, str]:
    """Return what holds of a producer that keeps Java's own defaults but for the overrides.

    Raises:
        InputError: as `translated`.
    """
    wanted = translated(overrides)
    idempotence = {"enable.idempotence": str(is_idempotent(wanted)).lower()}
    return {**_BOTH, **_PRODUCER, **_OWN_OF_PRODUCER, **wanted, **idempotence}


def own_consumer_settings(overrides: Mapping[str, str]) -> dict[str, str]:
    """Return what holds of a consumer that keeps Java's own defaults but for the overrides.

    Raises:
        InputError: as `translated`.
    """
    return {**_BOTH, **_CONSUMER, **_OWN_OF_CONSUMER, **translated(overrides)}


def refusal(settings: Mapping[str, str]) -> str | None:
    """Return why Java's producer would not be made with these settings, in its own words; `None` when it would.

    The rules are those of `ProducerConfig.postProcessAndValidateIdempotenceConfigs` and `KafkaProducer.configureDeliveryTimeout`.
    """
    if settings.get("enable.idempotence") == "true":
        if settings.get("acks", "all") not in {"all", "-1"}:
            return "Must set acks to all in order to use the idempotent producer. Otherwise we cannot guarantee idempotence."
        if settings.get("retries") == "0":
            return "Must set retries to non-zero when using the idempotent producer."
        if int(settings.get("max.in.flight.requests.per.connection", "5")) > 5:  # noqa: PLR2004 - KIP-98
            return "Must set max.in.flight.requests.per.connection to at most 5 when using the idempotent producer."
    least_ms = int(settings.get("linger.ms", "5")) + int(
        settings.get("request.timeout.ms", "30000")
    )
    if int(settings.get("delivery.timeout.ms", "120000")) < least_ms:
        return (
            "delivery.timeout.ms should be equal to or larger than linger.ms + request.timeout.ms"
        )
    return None


def is_idempotent(asked: Mapping[str, str]) -> bool:
    """Whether Java's producer is idempotent with these settings and its own defaults: unless one of them forbids it (KIP-679)."""
    if "enable.idempotence" in asked:
        return asked["enable.idempotence"] == "true"
    return (
        refusal(
            {"linger.ms": "0", "request.timeout.ms": "0", **asked, "enable.idempotence": "true"}
        )
        is None
    )


def _within_delivery(settings: dict[str, str], wanted: Mapping[str, str]) -> dict[str, str]:
    """Java refuses a delivery timeout that one request can outlast: where nobody said how long that may take, it gets what is left."""
    left_ms = int(settings["delivery.timeout.ms"]) - int(settings["linger.ms"])
    if "request.timeout.ms" in wanted or int(settings["request.timeout.ms"]) <= left_ms:
        return settings
    return {**settings, "request.timeout.ms": str(max(left_ms, 0))}


def _require_built_in(partitioner: str) -> None:
    if partitioner not in BUILT_IN:
        allowed = ", ".join(sorted(BUILT_IN))
        raise InputError(
            f"partitioner {partitioner} is librdkafka's alone; with client java: {allowed}, or Java's own partitioner.class"
        )
