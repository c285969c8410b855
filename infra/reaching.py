"""Reaching a cluster that is somebody else's: a client library that can prove who it is, and what the cluster says of itself first."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from infra.errors import InputError

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

REACH_TIMEOUT_S: Final = 10.0
LOOK_TIMEOUT_S: Final = 0.5
_ALL_DOWN: Final = "_ALL_BROKERS_DOWN"
"""What librdkafka calls it when none of its addresses can be reached, after it has said why of each."""
_LOG: Final = logging.getLogger(__name__)
_LOG.addHandler(logging.NullHandler())


@dataclass(frozen=True)
class Found:
    """What a cluster says of itself when it is first reached."""

    cluster_id: str
    brokers: tuple[int, ...]
    settings: Mapping[str, str]
    """Of its first broker (DescribeConfigs, KIP-133); what it calls sensitive is left out."""


def reach(connection: Mapping[str, str]) -> Found:
    """Connect, and return what the cluster says of itself.

    Args:
        connection: librdkafka's properties: the addresses and who we are.

    Raises:
        InputError: it cannot be reached, or does not take us; with librdkafka's own reason.
    """
    client, reasons = client_of(connection)
    metadata = _first_metadata(client, reasons)
    if metadata is None:
        reason = next((text for text in reasons if text != _ALL_DOWN), "no answer")
        raise InputError(f"bootstrap.servers {connection['bootstrap.servers']} cannot be reached: {reason}")
    brokers = tuple(sorted(metadata.brokers))
    return Found(str(metadata.cluster_id), brokers, _settings(client, brokers[0]))


def _first_metadata(client: AdminClient, reasons: Sequence[str]) -> Any | None:
    """Ask until somebody answers, every address has failed, or the time is up."""
    until_s = time.monotonic() + REACH_TIMEOUT_S
    while time.monotonic() < until_s and _ALL_DOWN not in reasons:
        metadata = metadata_of(client, None, LOOK_TIMEOUT_S)
        client.poll(0)
        if metadata is not None:
            return metadata
    return None


def client_of(connection: Mapping[str, str]) -> tuple[AdminClient, list[str]]:
    """Return a client, and the list to which it adds its reasons when it does not get through."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    reasons: list[str] = []
    try:
        settings: dict[str, Any] = {**connection, "error_cb": lambda error: reasons.append(_ALL_DOWN if error.name() == _ALL_DOWN else error.str())}
        return AdminClient(settings, logger=_LOG), reasons
    except KafkaException as error:
        raise InputError(f"no client can be made for {connection['bootstrap.servers']}: {error.args[0].str()}") from error


def metadata_of(client: AdminClient, topic: str | None, timeout_s: float) -> Any | None:
    """Return librdkafka's metadata of a topic, or of all; `None`: nobody answered in time."""
    from confluent_kafka import KafkaException

    try:
        return client.list_topics(topic, timeout=timeout_s) if topic else client.list_topics(timeout=timeout_s)
    except KafkaException:
        return None


def _settings(client: AdminClient, broker: int) -> dict[str, str]:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin._config import ConfigResource
    from confluent_kafka.admin._resource import ResourceType

    (described,) = client.describe_configs([ConfigResource(ResourceType.BROKER, str(broker))], request_timeout=REACH_TIMEOUT_S).values()
    try:
        entries = described.result(REACH_TIMEOUT_S)
    except (KafkaException, TimeoutError) as error:
        raise InputError(f"the settings of broker {broker} cannot be read: {error}") from error
    return {name: str(entry.value) for name, entry in sorted(entries.items()) if entry.value is not None and not entry.is_sensitive}
