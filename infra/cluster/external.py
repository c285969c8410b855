"""A cluster that is somebody else's: looked at by Kafka's own protocol, through a client library that can prove who it is.

Nothing is done to its nodes, and what only their files or their controllers tell is not known: leader epochs, logs, the active controller.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from infra.cluster.interface import MetadataSnapshot
from infra.errors import HarnessError, InputError, SupervisorError
from infra.kafka.logs import BrokerLogEvent
from infra.kafka.spec import (
    ClusterSpec,
    ClusterState,
    ControllerView,
    LeaderEpoch,
    NodeStatus,
    PartitionState,
)
from infra.network.impairment import Impairment, ImpairmentCounts
from infra.process.waiting import wait_until

# ---------- Reaching a cluster that is somebody else's: a client library that can prove who it is, and what the cluster says of itself first.


if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

CONNECT_TIMEOUT_S: Final = 10.0
METADATA_TIMEOUT_S: Final = 0.5
_ALL_DOWN: Final = "_ALL_BROKERS_DOWN"
"""What librdkafka calls it when none of its addresses can be reached, after it has said why of each."""
_LOG: Final = logging.getLogger(__name__)
_LOG.addHandler(logging.NullHandler())


@dataclass(frozen=True)
class ExternalClusterInfo:
    """What a cluster says of itself when it is first reached."""

    cluster_id: str
    brokers: tuple[int, ...]
    settings: Mapping[str, str]
    """Of its first broker (DescribeConfigs, KIP-133); what it calls sensitive is left out."""


def probe_cluster(connection: Mapping[str, str]) -> ExternalClusterInfo:
    """Connect, and return what the cluster says of itself.

    Args:
        connection: librdkafka's properties: the addresses and who we are.

    Raises:
        InputError: it cannot be reached, or does not take us; with librdkafka's own reason.
    """
    client, reasons = admin_client(connection)
    metadata = _first_metadata(client, reasons)
    if metadata is None:
        reason = next((text for text in reasons if text != _ALL_DOWN), "no answer")
        raise InputError(
            f"bootstrap.servers {connection['bootstrap.servers']} cannot be reached: {reason}"
        )
    brokers = tuple(sorted(metadata.brokers))
    return ExternalClusterInfo(str(metadata.cluster_id), brokers, _settings(client, brokers[0]))


def _first_metadata(client: AdminClient, reasons: Sequence[str]) -> Any | None:
    """Ask until somebody answers, every address has failed, or the time is up."""
    until_s = time.monotonic() + CONNECT_TIMEOUT_S
    while time.monotonic() < until_s and _ALL_DOWN not in reasons:
        metadata = fetch_metadata(client, None, METADATA_TIMEOUT_S)
        client.poll(0)
        if metadata is not None:
            return metadata
    return None


def admin_client(connection: Mapping[str, str]) -> tuple[AdminClient, list[str]]:
    """Return a client, and the list to which it adds its reasons when it does not get through."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    reasons: list[str] = []
    try:
        settings: dict[str, Any] = {
            **connection,
            "error_cb": lambda error: reasons.append(
                _ALL_DOWN if error.name() == _ALL_DOWN else error.str()
            ),
        }
        return AdminClient(settings, logger=_LOG), reasons
    except KafkaException as error:
        raise InputError(
            f"no client can be made for {connection['bootstrap.servers']}: {error.args[0].str()}"
        ) from error


def fetch_metadata(client: AdminClient, topic: str | None, timeout_s: float) -> Any | None:
    """Return librdkafka's metadata of a topic, or of all; `None`: nobody answered in time."""
    from confluent_kafka import KafkaException

    try:
        return (
            client.list_topics(topic, timeout=timeout_s)
            if topic
            else client.list_topics(timeout=timeout_s)
        )
    except KafkaException:
        return None


def _settings(client: AdminClient, broker: int) -> dict[str, str]:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin._config import ConfigResource
    from confluent_kafka.admin._resource import ResourceType

    (described,) = client.describe_configs(
        [ConfigResource(ResourceType.BROKER, str(broker))], request_timeout=CONNECT_TIMEOUT_S
    ).values()
    try:
        entries = described.result(CONNECT_TIMEOUT_S)
    except (KafkaException, TimeoutError) as error:
        raise InputError(f"the settings of broker {broker} cannot be read: {error}") from error
    return {
        name: str(entry.value)
        for name, entry in sorted(entries.items())
        if entry.value is not None and not entry.is_sensitive
    }


if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from infra.cluster.disks import Disks

_ASK_TIMEOUT_S: Final = 5.0
_OF_TRIALS: Final = ("trial-", "ackbench-")
"""How our own topics' names begin: others' need not be whole for a trial."""


class ExternalMetadataPoller:
    """Implements `infra.cluster.interface.TopicMetadataPoller`; for one thread."""

    def __init__(self, client: AdminClient, topic: str) -> None:
        """Look at a topic through a client."""
        self._client, self._topic = client, topic

    def partitions(self) -> MetadataSnapshot | None:
        """The topic's partitions as the broker knows them that answers; `None` when none does in time."""
        requested_s = time.monotonic()
        found = fetch_metadata(self._client, self._topic, METADATA_TIMEOUT_S)
        partitions = _partitions(found, self._topic) if found else ()
        return MetadataSnapshot(partitions, requested_s) if partitions else None

    def controller(self) -> ControllerView | None:
        """Not known: under KRaft a broker names any live one."""
        return None

    def close(self) -> None:
        """Nothing is kept open for it."""


class ExternalCluster:
    """Implements `infra.cluster.interface.Cluster`, as far as that can be done from outside; whatever needs the nodes is refused."""

    def __init__(
        self,
        folder: Path,
        spec: ClusterSpec,
        connection: Mapping[str, str],
        found: ExternalClusterInfo,
    ) -> None:
        """Know how to ask it.

        Args:
            folder: one of ours, for its name.
            spec: what is known of it.
            connection: librdkafka's properties: the addresses and who we are.
            found: what it said when it was reached.
        """
        self._folder, self._spec, self._servers, self._found = (
            folder,
            spec,
            connection["bootstrap.servers"],
            found,
        )
        self._client, _ = admin_client(connection)

    @property
    def folder(self) -> Path:
        """A folder of ours; nothing of the cluster's lies there."""
        return self._folder

    @property
    def spec(self) -> ClusterSpec:
        """What is known of it."""
        return self._spec

    @property
    def broker_settings(self) -> dict[str, str]:
        """As it told them."""
        return dict(self._found.settings)

    @property
    def bootstrap_servers(self) -> str:
        """As they were given."""
        return self._servers

    @property
    def admin_servers(self) -> str:
        """The same: there is no other way in."""
        return self._servers

    @property
    def disks(self) -> Disks:
        """Nobody reaches them from outside.

        Raises:
            SupervisorError: always.
        """
        _refuse("disks")

    def node_ids(self) -> tuple[int, ...]:
        """The brokers that there were when it was first reached."""
        return self._found.brokers

    def status(self) -> tuple[NodeStatus, ...]:
        """Each broker that answers for the cluster now, as running: more is not known of it."""
        metadata = fetch_metadata(self._client, None, _ASK_TIMEOUT_S)
        brokers = metadata.brokers.values() if metadata else ()
        return tuple(
            NodeStatus(one.id, "running", None, None, one.port, one.port, 0, one.host, "broker")
            for one in brokers
        )

    def describe(self, topics: Sequence[str] | None = None, timeout_s: float = 5.0) -> ClusterState:
        """Leaders, ISR and live brokers, of the broker that answers.

        Raises:
            WaitTimeout: none does.
        """
        metadata = wait_until(
            lambda: fetch_metadata(self._client, None, timeout_s),
            awaiting=f"an answer of any broker of {self._servers}",
            timeout_s=timeout_s,
        )
        wanted = [name for name in metadata.topics if topics is None or name in topics]
        return ClusterState(
            tuple(sorted(metadata.brokers)),
            None,
            None,
            tuple(one for name in wanted for one in _partitions(metadata, name)),
        )

    def metadata_poller(self, topic: str) -> ExternalMetadataPoller:
        """A place from which to look at the topic often."""
        return ExternalMetadataPoller(self._client, topic)

    def log_end_offsets(self, topic: str) -> dict[int, int]:
        """The end of what may be read of each partition: what lies beyond only its nodes could tell.

        Raises:
            HarnessError: a leader did not answer.
        """
        from confluent_kafka import KafkaException, TopicPartition
        from confluent_kafka.admin._listoffsets import OffsetSpec

        numbers = [one.partition for one in self.describe([topic]).of(topic)]
        end = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        asked = self._client.list_offsets(
            {TopicPartition(topic, number): end for number in numbers},
            request_timeout=_ASK_TIMEOUT_S,
        )
        try:
            return {
                place.partition: future.result(_ASK_TIMEOUT_S).offset
                for place, future in asked.items()
            }
        except (KafkaException, TimeoutError) as error:
            raise HarnessError(f"the ends of {topic} could not be asked for: {error}") from error

    def leader_epochs(self, topic: str) -> tuple[LeaderEpoch, ...]:
        """Not known: they lie in the nodes' files."""
        del topic
        return ()

    def node_log_sizes(self) -> dict[int, int]:
        """Not known: nobody shows us its nodes' logs."""
        return {}

    def node_log_events_since(
        self, log_sizes: Mapping[int, int], topic: str
    ) -> tuple[BrokerLogEvent, ...]:
        """Not known."""
        del log_sizes, topic
        return ()

    def wait_until_healthy(self, timeout_s: float = 60.0) -> ClusterState:
        """Return once every broker is there that was at first, and every partition of our own topics has its full ISR.

        Raises:
            WaitTimeout: that does not come to be.
        """
        return wait_until(
            self._whole,
            awaiting=f"{self._servers} to be whole",
            timeout_s=timeout_s,
            seen=self.describe,
        )

    def _whole(self) -> ClusterState | None:
        state = self.describe()
        ours = [one for one in state.partitions if one.topic.startswith(_OF_TRIALS)]
        return (
            state
            if state.brokers == self.node_ids()
            and all(one.leader is not None and set(one.isr) == set(one.replicas) for one in ours)
            else None
        )

    def kill(self, node_id: int) -> NodeStatus:
        """Refuse.

        Raises:
            SupervisorError: always.
        """
        _refuse(f"node {node_id}")

    def pause(self, node_id: int) -> None:
        """Refuse, as `kill`."""
        _refuse(f"node {node_id}")

    def resume(self, node_id: int) -> None:
        """Refuse, as `kill`."""
        _refuse(f"node {node_id}")

    def stop(self, node_id: int, timeout_s: float = 30.0) -> None:
        """Refuse, as `kill`."""
        del timeout_s
        _refuse(f"node {node_id}")

    def start(self, node_id: int) -> NodeStatus:
        """Refuse, as `kill`."""
        _refuse(f"node {node_id}")

    def restart(self, node_id: int) -> NodeStatus:
        """Refuse, as `kill`."""
        _refuse(f"node {node_id}")

    def impair(self, name: str, impairments: Sequence[Impairment]) -> None:
        """Refuse, as `kill`."""
        del impairments
        _refuse(f"the network ({name})")

    def impairment_counts(self, name: str) -> tuple[ImpairmentCounts, ...]:
        """Refuse, as `kill`."""
        _refuse(f"the network ({name})")

    def heal(self, name: str) -> tuple[ImpairmentCounts, ...]:
        """Find nothing to do."""
        del name
        return ()

    def destroy(self) -> None:
        """Leave it as it is."""


def _refuse(what: str) -> NoReturn:
    raise SupervisorError(f"the cluster is somebody else's: {what} cannot be touched")


def _partitions(metadata: Any, topic: str) -> tuple[PartitionState, ...]:
    told = metadata.topics[topic].partitions.values() if topic in metadata.topics else ()
    return tuple(
        PartitionState(
            topic,
            one.id,
            None if one.leader < 0 else one.leader,
            tuple(one.replicas),
            tuple(one.isrs),
        )
        for one in told
    )
