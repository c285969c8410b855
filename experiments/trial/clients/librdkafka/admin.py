"""Admin requests that change a running cluster: configs, leader elections, partition counts.

They are rare. confluent-kafka is imported only when one is made, so that a fault that can make one
costs nothing to load.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from ackbench.infra.errors import HarnessError

if TYPE_CHECKING:
    from confluent_kafka import KafkaException

TIMEOUT_S: Final = 30.0


class LeaderNotAvailable(HarnessError):
    """No replica can be elected now: out of sync, or its broker is fenced. It may be later."""


def alter_configs(
    bootstrap_servers: str,
    kind: str,
    name: str,
    settings: Mapping[str, str | None],
    *,
    timeout_s: float = TIMEOUT_S,
) -> None:
    """Set some configs and leave all others unchanged (KIP-339).

    Args:
        bootstrap_servers: the cluster's addresses.
        kind: `topic` or `broker`. A broker answers this request itself, so it must run.
        name: the topic's name, or the broker's node id.
        settings: the values by name; `None` deletes an override, so that the default applies.
        timeout_s: how long to wait for the answer.

    Raises:
        HarnessError: Kafka refused, with its text, or did not answer.
    """
    from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
    from confluent_kafka.admin._resource import ResourceType

    from ackbench.experiments.trial.clients.librdkafka.topics import admin_client, wait_for_result

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
    resource = ConfigResource(ResourceType[kind.upper()], name, incremental_configs=changes)
    client = admin_client(bootstrap_servers)
    (altered,) = client.incremental_alter_configs([resource], request_timeout=timeout_s).values()
    wait_for_result(f"alter configs of {kind} {name}", altered, timeout_s)


def group_coordinator(bootstrap_servers: str, group: str, *, timeout_s: float = TIMEOUT_S) -> int:
    """Return the node that the brokers name as the coordinator of a group (FindCoordinator).

    Raises:
        HarnessError: Kafka refused, with its text, or did not answer.
    """
    from ackbench.experiments.trial.clients.librdkafka.topics import admin_client, wait_for_result

    client = admin_client(bootstrap_servers)
    (described,) = client.describe_consumer_groups([group], request_timeout=timeout_s).values()
    description = wait_for_result(f"describe group {group}", described, timeout_s)
    return int(description.coordinator.id)


def topic_overrides(
    bootstrap_servers: str, topic: str, *, timeout_s: float = TIMEOUT_S
) -> dict[str, str]:
    """Return the configs that were set for the topic itself, by name.

    Raises:
        HarnessError: Kafka refused, with its text, or did not answer.
    """
    from confluent_kafka.admin._config import ConfigResource, ConfigSource
    from confluent_kafka.admin._resource import ResourceType

    from ackbench.experiments.trial.clients.librdkafka.topics import admin_client, wait_for_result

    client = admin_client(bootstrap_servers)
    (described,) = client.describe_configs(
        [ConfigResource(ResourceType.TOPIC, topic)], request_timeout=timeout_s
    ).values()
    entries = wait_for_result(f"describe configs of topic {topic}", described, timeout_s)
    return {
        name: str(entry.value)
        for name, entry in entries.items()
        if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    }


def elect_leader(
    bootstrap_servers: str,
    topic: str,
    partition: int,
    *,
    unclean: bool = False,
    timeout_s: float = TIMEOUT_S,
) -> str | None:
    """Have the controller elect a partition's leader (KIP-460).

    Args:
        bootstrap_servers: the cluster's addresses.
        topic: the topic.
        partition: the partition.
        unclean: if the partition has no leader, elect even a replica that is out of sync. Without
            it, the preferred leader is elected.
        timeout_s: how long to wait for the answer.

    Returns:
        `None` if a leader was elected; Kafka's text if no election was needed.

    Raises:
        LeaderNotAvailable: no replica that may lead can be elected now.
        HarnessError: Kafka refused, with its text, or did not answer.
    """
    from confluent_kafka import ElectionType, KafkaError, TopicPartition

    from ackbench.experiments.trial.clients.librdkafka.topics import admin_client, wait_for_result

    client, action = admin_client(bootstrap_servers), f"elect a leader of {topic}-{partition}"
    kind = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED
    elected: Mapping[TopicPartition, KafkaException | None] = wait_for_result(
        action, client.elect_leaders(kind, [TopicPartition(topic, partition)]), timeout_s
    )
    error = next(iter(elected.values()))
    if error is None:
        return None
    code: KafkaError = error if isinstance(error, KafkaError) else error.args[0]
    if code.code() == KafkaError.ELECTION_NOT_NEEDED:
        return str(code.str())
    unavailable = code.code() in (
        KafkaError.PREFERRED_LEADER_NOT_AVAILABLE,
        KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    )
    refused = LeaderNotAvailable if unavailable else HarnessError
    raise refused(f"cannot {action}: {code.name()} ({code.str()})")


def add_partitions(
    bootstrap_servers: str, topic: str, partitions: int, *, timeout_s: float = TIMEOUT_S
) -> None:
    """Increase a topic's number of partitions (KIP-195); succeed if it has that many or more.

    The client sends a request again if its answer is late, and the controller then refuses the
    second one, although the first has added the partitions. The caller checks how many there are.

    Args:
        bootstrap_servers: the cluster's addresses.
        topic: the topic.
        partitions: the new total.
        timeout_s: how long to wait for the answer.

    Raises:
        HarnessError: Kafka refused for another reason, with its text, or did not answer.
    """
    from confluent_kafka import KafkaError
    from confluent_kafka.cimpl import NewPartitions

    from ackbench.experiments.trial.clients.librdkafka.topics import (
        KafkaRequestFailed,
        admin_client,
        wait_for_result,
    )

    client = admin_client(bootstrap_servers)
    created = client.create_partitions(
        [NewPartitions(topic, partitions)], operation_timeout=timeout_s, request_timeout=timeout_s
    )
    try:
        action = f"increase topic {topic} to {partitions} partitions"
        wait_for_result(action, created[topic], timeout_s)
    except KafkaRequestFailed as error:
        if error.code != KafkaError.INVALID_PARTITIONS:
            raise
