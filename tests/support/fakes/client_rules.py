"""Fake client rules for tests of planning; no client library is loaded."""

from collections.abc import Mapping

from ackbench.experiments.planning.clients.rules import ClientRules

BOTH = {
    "socket.timeout.ms": "10 .. 300000",
    "client.id": "",
    "compression.type": "none, lz4, zstd",
    "debug": "broker, msg, all",
    "client.rack": "",
}
PRODUCER = {
    **BOTH,
    "acks": "-1 .. 1000",
    "enable.idempotence": "true, false",
    "linger.ms": "0 .. 900000",
    "retries": "0 .. 2147483647",
    "partitioner": "",
    "topic.metadata.refresh.interval.ms": "-1 .. 3600000",
}
CONSUMER = {
    **BOTH,
    "fetch.min.bytes": "1 .. 100000000",
    "isolation.level": "read_uncommitted, read_committed",
}


def refuse(settings: Mapping[str, str]) -> str | None:
    """Refuse as librdkafka does: idempotence requires acks=all."""
    if settings.get("enable.idempotence") == "true" and settings.get("acks", "all") != "all":
        return "`acks` must be set to `all`"
    return "Invalid value" if settings.get("partitioner") == "nonsense" else None


RULES = ClientRules(
    PRODUCER,
    CONSUMER,
    refuse,
    lambda given: {"acks": "all", "socket.timeout.ms": "60000", **given},
    dict,
)
