"""What is changed of topics and brokers while they run: settings, leaders, the number of partitions. All of it is rare."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from infra.errors import HarnessError

if TYPE_CHECKING:
    from confluent_kafka import KafkaException

TIMEOUT_S: Final = 30.0


def change_settings(
    bootstrap_servers: str,
    kind: str,
    name: str,
    settings: Mapping[str, str | None],
    *,
    timeout_s: float = TIMEOUT_S,
) -> None:
    """Set some settings and leave the others as they are (KIP-339).

    Args:
        bootstrap_servers: the addresses.
        kind: `topic` or `broker`; a broker is told itself, and must run.
        name: the topic's, or the node's number.
        settings: `None` takes away what was set, so that the default counts again.
        timeout_s: until it is answered.

    Raises:
        HarnessError: Kafka refused, with its text, or did not answer.
    """
    from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
    from confluent_kafka.admin._resource import ResourceType

    from experiments.clients.librdkafka.topics import client_of, result_of

    changes = [
        ConfigEntry(
            key,
            value,
            incremental_operation=AlterConfigOpType.DELETE
            if value is None
            else AlterConfigOpType.SET,
        )
        for key, value in settings.items()
    ]
    resource, client = (
        ConfigResource(ResourceType[kind.upper()], name, incremental_configs=changes),
        client_of(bootstrap_servers),
    )
    (changed,) = client.incremental_alter_configs([resource], request_timeout=timeout_s).values()
    result_of(f"changing {kind} {name}", changed, timeout_s)


def topic_settings(
    bootstrap_servers: str, topic: str, *, timeout_s: float = TIMEOUT_S
) -> dict[str, str]:
    """Return what was set for the topic itself.

    Raises:
        HarnessError: Kafka refused, with its text, or did not answer.
    """
    from confluent_kafka.admin._config import ConfigResource, ConfigSource
    from confluent_kafka.admin._resource import ResourceType

    from experiments.clients.librdkafka.topics import client_of, result_of

    client = client_of(bootstrap_servers)
    (described,) = client.describe_configs(
        [ConfigResource(ResourceType.TOPIC, topic)], request_timeout=timeout_s
    ).values()
    entries = result_of(f"asking for the settings of topic {topic}", described, timeout_s)
    return {
        name: str(entry.value)
        for name, entry in entries.items()
        if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    }


def elect(
    bootstrap_servers: str,
    topic: str,
    partition: int,
    *,
    unclean: bool = False,
    timeout_s: float = TIMEOUT_S,
) -> str | None:
    """Have a partition's leader elected (KIP-460); return why that was not needed, or `None` when one was elected.

    Args:
        bootstrap_servers: the addresses.
        topic: its name.
        partition: which.
        unclean: where it has no leader, also a replica that is out of sync; else the preferred one.
        timeout_s: until it is answered.

    Raises:
        HarnessError: Kafka refused, with its text, or did not answer.
    """
    from confluent_kafka import ElectionType, KafkaError, TopicPartition

    from experiments.clients.librdkafka.topics import client_of, result_of

    client, doing = client_of(bootstrap_servers), f"electing a leader of {topic}-{partition}"
    kind = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED
    elected: Mapping[TopicPartition, KafkaException | None] = result_of(
        doing, client.elect_leaders(kind, [TopicPartition(topic, partition)]), timeout_s
    )
    error = next(iter(elected.values()))
    if error is None:
        return None
    code: KafkaError = error if isinstance(error, KafkaError) else error.args[0]
    if code.code() == KafkaError.ELECTION_NOT_NEEDED:
        return str(code.str())
    raise HarnessError(f"{doing}: {code.name()} ({code.str()})")


def raise_partitions(
    bootstrap_servers: str, topic: str, partitions: int, *, timeout_s: float = TIMEOUT_S
) -> None:
    """Give a topic more partitions (KIP-195); return once the controller has made them, or says that the topic has them, or more.

    A request whose answer is late is sent again by the client, and refused then: what was asked for is done all the same. How many there are the caller sees.

    Raises:
        HarnessError: Kafka refused for another reason, with its text, or did not answer.
    """
    from confluent_kafka import KafkaError
    from confluent_kafka.cimpl import NewPartitions

    from experiments.clients.librdkafka.topics import KafkaRequestFailed, client_of, result_of

    client = client_of(bootstrap_servers)
    raised = client.create_partitions(
        [NewPartitions(topic, partitions)], operation_timeout=timeout_s, request_timeout=timeout_s
    )[topic]
    try:
        result_of(f"giving topic {topic} {partitions} partitions", raised, timeout_s)
    except KafkaRequestFailed as refused:
        if refused.code != KafkaError.INVALID_PARTITIONS:
            raise
