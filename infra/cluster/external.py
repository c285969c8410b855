"""External clusters: clusters that ackbench did not provision and does not control.

They are observed with Kafka's own protocol, through librdkafka, which can authenticate. What only
the nodes' files or controllers hold is unknown here: leader epochs, node logs, the active
controller. Every action on a node or a disk is refused, and on the network unless relays of
ackbench's own stand between the cluster and the clients.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from ackbench.infra.cluster.broker_features import fetch_features
from ackbench.infra.cluster.interface import MetadataSnapshot
from ackbench.infra.errors import HarnessError, InputError, SupervisorError
from ackbench.infra.kafka.addresses import Address
from ackbench.infra.kafka.api_versions import BrokerFeatures
from ackbench.infra.kafka.logs import BrokerLogEvent
from ackbench.infra.kafka.secrets import is_secret, redact
from ackbench.infra.kafka.spec import (
    ClusterSpec,
    ClusterState,
    ControllerView,
    LeaderEpoch,
    NodeStatus,
    PartitionState,
)
from ackbench.infra.network.impairment import Impairment, ImpairmentCounts
from ackbench.infra.network.timed_connection import TimedConnection
from ackbench.infra.network.tls import certificate_problem
from ackbench.infra.process.exits import ProcessExit
from ackbench.infra.process.waiting import wait_until

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from ackbench.infra.cluster.disks import Disks
    from ackbench.infra.network.external_relays import ExternalRelays

CONNECT_TIMEOUT_S: Final = 10.0
METADATA_TIMEOUT_S: Final = 0.5
_REFUSAL_INTERVAL_S: Final = 1.0
"""How often the addresses of missing brokers are tried."""
_ADMIN_TIMEOUT_S: Final = 5.0
_FUTURE_MARGIN_S: Final = 2.0
"""librdkafka completes every future on its own, a little after the request's timeout."""
_NO_AUTO_CREATION: Final = {"allow.auto.create.topics": False}
"""librdkafka's default is true for producers, and an admin client is one to it.

It goes on to request the metadata of a topic that it was asked about once, also after the topic was
deleted, and a broker with `auto.create.topics.enable` would create the topic again.
"""
_ALL_BROKERS_DOWN: Final = "_ALL_BROKERS_DOWN"
"""librdkafka's error when no address can be reached; it follows the reason for each address."""
_UNVERIFIED: Final = "certificate verify failed"
_WITHOUT_TLS: Final = "wrong version number"
"""OpenSSL's reason when the first bytes of an answer are not of TLS."""
_LOG: Final = logging.getLogger(__name__)
_LOG.addHandler(logging.NullHandler())


def refuses_connections(address: Address) -> bool:
    """Return whether no process listens there; false: one does, or it is not known."""
    try:
        socket.create_connection(address, METADATA_TIMEOUT_S).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return False


@dataclass(frozen=True)
class ExternalClusterInfo:
    """What an external cluster reports when it is first contacted."""

    cluster_id: str
    brokers: tuple[int, ...]
    settings: Mapping[str, str] | None
    """Of its first broker (DescribeConfigs, KIP-133), without those that are marked sensitive.

    `None`: the cluster does not permit to read them.
    """
    features: BrokerFeatures | None = None
    """What its first broker reports; `None`: it does not tell."""
    addresses: Mapping[int, Address] = field(default_factory=dict)
    """What each broker advertises, by node id."""


def probe_cluster(connection: Mapping[str, Any]) -> ExternalClusterInfo:
    """Connect to an external cluster and return what it reports.

    Args:
        connection: librdkafka's properties and callbacks: addresses and authentication.

    Raises:
        InputError: it cannot be reached, or refuses the authentication; with librdkafka's reason.
    """
    from confluent_kafka.admin._resource import ResourceType

    client, errors = admin_client(connection)
    metadata = _first_metadata(client, errors)
    if metadata is None:
        raise InputError(
            f"cannot reach bootstrap.servers {connection['bootstrap.servers']}: "
            f"{_why_unreachable(connection, errors)}"
        )
    brokers = tuple(sorted(metadata.brokers))
    first = metadata.brokers[brokers[0]]
    return ExternalClusterInfo(
        str(metadata.cluster_id),
        brokers,
        _described(client, ResourceType.BROKER, str(first.id)),
        fetch_features(first.host, first.port, connection),
        {one.id: (one.host, one.port) for one in metadata.brokers.values()},
    )


def unavailable_parts(connection: Mapping[str, Any]) -> Iterator[str]:
    """Yield what of a cluster is down, as far as a client can know; each is a sentence.

    Metadata name only brokers that run. So one that is down shows as a replica of a topic that this
    user may describe, or as a bootstrap address that refuses connections.

    Args:
        connection: librdkafka's properties and callbacks: addresses and authentication.
    """
    client, _ = admin_client(connection)
    metadata = fetch_metadata(client, None, CONNECT_TIMEOUT_S)
    if metadata is not None:
        yield from _replicas_down(metadata)
    for address in str(connection["bootstrap.servers"]).split(","):
        host, _, port = address.strip().rpartition("://")[2].rpartition(":")
        try:
            with TimedConnection((host.strip("[]"), int(port)), CONNECT_TIMEOUT_S / 2):
                pass
        except OSError as error:
            yield f"{address.strip()} of bootstrap.servers is down: {error.strerror or error}"
        except ValueError:  # an address without a port, which librdkafka completes
            continue


def _replicas_down(metadata: Any) -> Iterator[str]:
    for topic in metadata.topics.values():
        for number, partition in topic.partitions.items():
            for replica in partition.replicas:
                if replica not in metadata.brokers:
                    yield f"broker {replica} is down, a replica of {topic.topic}-{number}"


@dataclass(frozen=True)
class TopicInfo:
    """What a cluster reports of a topic."""

    partitions: int
    replication_factor: int
    """Of the partition with the fewest replicas."""
    settings: Mapping[str, str]
    """Those in effect, wherever they are set: for the topic, for the brokers, or by default."""


def describe_topic(connection: Mapping[str, Any], topic: str) -> TopicInfo:
    """Return what a cluster reports of a topic.

    Args:
        connection: librdkafka's properties: addresses and authentication.
        topic: its name.

    Raises:
        InputError: the cluster cannot be reached, has no such topic, or does not permit to read it.
    """
    from confluent_kafka.admin._resource import ResourceType

    client, _ = admin_client(connection)
    metadata = fetch_metadata(client, topic, CONNECT_TIMEOUT_S)
    found = metadata.topics.get(topic) if metadata else None
    if found is None or not found.partitions:
        raise InputError(
            f"{connection['bootstrap.servers']} has no topic {topic} that this user may describe"
        )
    settings = _described(client, ResourceType.TOPIC, topic)
    if settings is None:
        raise InputError(f"the cluster does not permit to read the settings of the topic {topic}")
    fewest = min(len(partition.replicas) for partition in found.partitions.values())
    return TopicInfo(len(found.partitions), fewest, settings)


def _why_unreachable(connection: Mapping[str, Any], errors: Sequence[str]) -> str:
    """Return librdkafka's reason, with what to do where the reason does not say it."""
    protocol = str(connection.get("security.protocol", "plaintext")).lower()
    reason = next((text for text in errors if text != _ALL_BROKERS_DOWN), None)
    if reason is None:
        return (
            f"no answer to requests of Kafka's protocol over {protocol} within "
            f"{CONNECT_TIMEOUT_S:g} s; allowed: a broker's listener, with its security.protocol "
            "(plaintext, ssl, sasl_plaintext or sasl_ssl)"
        )
    if _UNVERIFIED in reason:
        return f"{reason}{_certificate_problem(connection)}"
    if _WITHOUT_TLS in reason:
        return (
            f"{reason}: what listens there answers without TLS; allowed: a listener with TLS, or "
            "security.protocol plaintext or sasl_plaintext"
        )
    return reason


def _certificate_problem(connection: Mapping[str, Any]) -> str:
    host, _, port = str(connection["bootstrap.servers"]).split(",")[0].strip().rpartition(":")
    problem = certificate_problem(host, int(port), connection) if port.isdecimal() else None
    return f": {problem}" if problem else ""


def admin_client(connection: Mapping[str, Any]) -> tuple[AdminClient, list[str]]:
    """Return an admin client, and the list to which librdkafka's connection errors are added.

    Raises:
        InputError: librdkafka refuses a property.
    """
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    errors: list[str] = []

    def on_error(error: Any) -> None:
        is_summary = error.name() == _ALL_BROKERS_DOWN
        errors.append(_ALL_BROKERS_DOWN if is_summary else error.str())

    try:
        properties: dict[str, Any] = {**connection, "error_cb": on_error, **_NO_AUTO_CREATION}
        return AdminClient(properties, logger=_LOG), errors
    except KafkaException as error:
        raise InputError(
            f"cannot make a client for {connection['bootstrap.servers']}: "
            f"{redact(error.args[0].str(), connection)}"
        ) from error


def fetch_metadata(client: AdminClient, topic: str | None, timeout_s: float) -> Any | None:
    """Return librdkafka's metadata of a topic, or of all topics; `None`: no answer in time."""
    from confluent_kafka import KafkaException

    try:
        if topic:
            return client.list_topics(topic, timeout=timeout_s)
        return client.list_topics(timeout=timeout_s)
    except KafkaException:
        return None


def _first_metadata(client: AdminClient, errors: Sequence[str]) -> Any | None:
    """Return the first metadata; `None` once every address has failed or the time is up."""
    until_s = time.monotonic() + CONNECT_TIMEOUT_S
    while time.monotonic() < until_s and _ALL_BROKERS_DOWN not in errors:
        metadata = fetch_metadata(client, None, METADATA_TIMEOUT_S)
        client.poll(0)
        if metadata is not None:
            return metadata
    return None


def _described(client: AdminClient, kind: Any, name: str) -> dict[str, str] | None:
    """Return the settings of a broker or topic; `None`: it is not permitted to read them."""
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin._config import ConfigResource

    resource = ConfigResource(kind, name)
    (future,) = client.describe_configs([resource], request_timeout=CONNECT_TIMEOUT_S).values()
    try:
        entries = future.result(CONNECT_TIMEOUT_S + _FUTURE_MARGIN_S)
    except (KafkaException, TimeoutError) as error:
        refused = isinstance(error, KafkaException) and error.args[0].code() in {
            KafkaError.CLUSTER_AUTHORIZATION_FAILED,
            KafkaError.TOPIC_AUTHORIZATION_FAILED,
            KafkaError.SECURITY_DISABLED,
        }
        if refused:
            return None
        raise InputError(
            f"cannot read the settings of {kind.name.lower()} {name}: {error}"
        ) from error
    return {
        name: str(entry.value)
        for name, entry in sorted(entries.items())
        if entry.value is not None and not entry.is_sensitive and not is_secret(name)
    }


class GoneBrokers:
    """The brokers of a cluster that certainly do not run any more.

    One that is missing in the metadata may only be fenced, because it or the controller is slow. If
    its address refuses connections as well, no process listens there.
    """

    def __init__(
        self,
        addresses: Mapping[int, Address],
        refuses: Callable[[Address], bool] = refuses_connections,
    ) -> None:
        """Begin with brokers that all run.

        Args:
            addresses: of the brokers, by node id.
            refuses: returns whether an address refuses connections.
        """
        self._addresses, self._refuses = addresses, refuses
        self._gone: frozenset[int] = frozenset()
        self._check_s = 0.0

    def refresh(self, metadata: Any) -> frozenset[int]:
        """Return the brokers that are gone, as one broker's metadata and the addresses show.

        A broker that is not in its own metadata has just started, and knows less than the others.
        """
        if metadata.orig_broker_id not in metadata.brokers:
            return self._gone
        missing = self._addresses.keys() - metadata.brokers.keys()
        self._gone &= missing
        if missing - self._gone and time.monotonic() >= self._check_s:
            self._check_s = time.monotonic() + _REFUSAL_INTERVAL_S
            unsure = missing - self._gone
            self._gone |= {node for node in unsure if self._refuses(self._addresses[node])}
        return self._gone


class ExternalMetadataPoller:
    """Implements `infra.cluster.interface.TopicMetadataPoller`; not thread-safe."""

    def __init__(
        self, client: AdminClient, topic: str, addresses: Mapping[int, Address] | None = None
    ) -> None:
        """Poll a topic through a client.

        Args:
            client: of the cluster.
            topic: its name.
            addresses: of the brokers that the cluster has, by node id.
        """
        self._client, self._topic = client, topic
        self._gone = GoneBrokers(addresses or {})

    def partitions(self) -> MetadataSnapshot | None:
        """Return the topic's partitions as one broker reports them; `None`: no answer in time."""
        requested_s = time.monotonic()
        metadata = fetch_metadata(self._client, self._topic, METADATA_TIMEOUT_S)
        partitions = _partitions(metadata, self._topic) if metadata else ()
        if not partitions:
            return None
        gone = self._gone.refresh(metadata) if metadata else frozenset()
        return MetadataSnapshot(partitions, requested_s, gone)

    def controller(self) -> ControllerView | None:
        """Return `None`: under KRaft a broker names any live broker as the controller."""
        return None

    def close(self) -> None:
        """Do nothing: the client belongs to the cluster."""


class ExternalCluster:
    """An external cluster as a client sees it; refuses every action on nodes, network and disks.

    Implements `infra.cluster.interface.Cluster`.
    """

    def __init__(
        self,
        folder: Path,
        spec: ClusterSpec,
        connection: Mapping[str, Any],
        info: ExternalClusterInfo,
        own_prefix: str,
        relays: ExternalRelays | None = None,
    ) -> None:
        """Make a client for the cluster.

        Args:
            folder: a folder of ackbench for this cluster, for its name.
            spec: what is known of the cluster.
            connection: librdkafka's properties and callbacks: addresses and authentication.
            info: what the cluster reported when it was first contacted.
            own_prefix: how the topics of the sweep begin; others need not be healthy for a trial.
            relays: between the clients and the brokers; `destroy` ends them. `None`: there are
                none.
        """
        self._own_prefix, self._relays = own_prefix, relays
        self._folder, self._spec, self._info = folder, spec, info
        self._servers = str(connection["bootstrap.servers"])
        self._client, _ = admin_client(connection)

    @property
    def folder(self) -> Path:
        """A folder of ackbench; no file of the cluster is in it."""
        return self._folder

    @property
    def spec(self) -> ClusterSpec:
        """What is known of the cluster."""
        return self._spec

    @property
    def broker_settings(self) -> dict[str, str]:
        """The settings that its first broker reported; empty if they cannot be read."""
        return dict(self._info.settings or {})

    @property
    def relay_pid(self) -> int | None:
        """This process, if there are relays: they run on a thread of it."""
        return os.getpid() if self._relays else None

    @property
    def bootstrap_servers(self) -> str:
        """The addresses that the experiment names, or those of the relays."""
        return self._relays.bootstrap_servers if self._relays else self._servers

    @property
    def admin_servers(self) -> str:
        """The addresses that the experiment names: no relay impairs them."""
        return self._servers

    @property
    def disks(self) -> Disks:
        """Refused: the disks are out of reach.

        Raises:
            SupervisorError: always.
        """
        _refuse("disks")

    def node_ids(self) -> tuple[int, ...]:
        """Return the brokers that the cluster had when it was first contacted."""
        return self._info.brokers

    def status(self) -> tuple[NodeStatus, ...]:
        """Return each broker that the metadata name now, as running; the rest is unknown."""
        metadata = fetch_metadata(self._client, None, _ADMIN_TIMEOUT_S)
        brokers = metadata.brokers.values() if metadata else ()
        return tuple(
            NodeStatus(
                node_id=broker.id,
                state="running",
                pid=None,
                start_ticks=None,
                client_port=broker.port,
                replication_port=broker.port,
                controller_port=0,
                host=broker.host,
                role="broker",
            )
            for broker in brokers
        )

    def unexpected_exits(self) -> tuple[ProcessExit, ...]:
        """Return the failures of the relays; the exits of brokers are not known."""
        return self._relays.failures() if self._relays else ()

    def describe(self, topics: Sequence[str] | None = None, timeout_s: float = 5.0) -> ClusterState:
        """Return leaders, ISR and live brokers as one broker reports them.

        Raises:
            WaitTimeout: no broker answered.
        """
        metadata = wait_until(
            lambda: fetch_metadata(self._client, None, timeout_s),
            awaiting=f"a broker of {self._servers} to answer",
            timeout_s=timeout_s,
        )
        names = [name for name in metadata.topics if topics is None or name in topics]
        return ClusterState(
            brokers=tuple(sorted(metadata.brokers)),
            controller=None,
            controller_epoch=None,
            partitions=tuple(one for name in names for one in _partitions(metadata, name)),
        )

    def metadata_poller(self, topic: str) -> ExternalMetadataPoller:
        """Return a poller of the topic's metadata."""
        return ExternalMetadataPoller(self._client, topic, self._info.addresses)

    @property
    def log_ends_are_known(self) -> bool:
        """`False`: brokers return log end offsets to followers only."""
        return False

    def log_end_offsets(self, topic: str) -> dict[int, int]:
        """Return the high watermark of each partition: only its nodes know the log end offset.

        Raises:
            HarnessError: a leader did not answer.
        """
        from confluent_kafka import KafkaException, TopicPartition
        from confluent_kafka.admin._listoffsets import OffsetSpec

        numbers = [one.partition for one in self.describe([topic]).of(topic)]
        end = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        futures = self._client.list_offsets(
            {TopicPartition(topic, number): end for number in numbers},
            request_timeout=_ADMIN_TIMEOUT_S,
        )
        try:
            return {
                partition.partition: future.result(_ADMIN_TIMEOUT_S + _FUTURE_MARGIN_S).offset
                for partition, future in futures.items()
            }
        except (KafkaException, TimeoutError) as error:
            raise HarnessError(f"cannot read the end offsets of {topic}: {error}") from error

    def leader_epochs(self, topic: str) -> tuple[LeaderEpoch, ...]:
        """Return nothing: leader epochs are in the nodes' files."""
        del topic
        return ()

    def node_log_sizes(self) -> dict[int, int]:
        """Return nothing: the nodes' logs are out of reach."""
        return {}

    def node_log_events_since(
        self, node_log_sizes: Mapping[int, int], topic: str
    ) -> tuple[BrokerLogEvent, ...]:
        """Return nothing: the nodes' logs are out of reach."""
        del node_log_sizes, topic
        return ()

    def wait_until_healthy(self, timeout_s: float = 60.0) -> ClusterState:
        """Return the state once all initial brokers and the sweep's own topics are healthy.

        Raises:
            WaitTimeout: the cluster did not become healthy in time.
        """
        return wait_until(
            self._healthy_state,
            awaiting=f"external cluster {self._servers} to become healthy",
            timeout_s=timeout_s,
            seen=self.describe,
        )

    def _healthy_state(self) -> ClusterState | None:
        state = self.describe()
        return state if is_healthy(state, self.node_ids(), self._own_prefix) else None

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
        """Impair the clients' connections; without relays refuse, as `kill`."""
        if self._relays is None:
            _refuse(f"the network ({name})")
        self._relays.impair(name, impairments)

    def impairment_counts(self, name: str) -> tuple[ImpairmentCounts, ...]:
        """Return what the relays counted; without relays refuse, as `kill`."""
        if self._relays is None:
            _refuse(f"the network ({name})")
        return self._relays.impairment_counts(name)

    def heal(self, name: str) -> tuple[ImpairmentCounts, ...]:
        """Let the relays forward again; without relays there can be no impairment."""
        return self._relays.heal(name) if self._relays else ()

    def destroy(self) -> None:
        """End the relays; the cluster stays as it is."""
        if self._relays:
            self._relays.close()


def is_healthy(state: ClusterState, brokers: Sequence[int], own_prefix: str) -> bool:
    """Return whether all brokers are there and a sweep's own topics have leaders and full ISRs.

    Args:
        state: what the cluster reports.
        brokers: those that it must have.
        own_prefix: how the names of the sweep's topics begin; others may be in any state.
    """
    own = [one for one in state.partitions if one.topic.startswith(own_prefix)]
    return state.brokers == tuple(brokers) and all(
        one.leader is not None and set(one.isr) == set(one.replicas) for one in own
    )


def _refuse(target: str) -> NoReturn:
    raise SupervisorError(f"external cluster: ackbench does not control {target}")


def _partitions(metadata: Any, topic: str) -> tuple[PartitionState, ...]:
    partitions = metadata.topics[topic].partitions.values() if topic in metadata.topics else ()
    return tuple(
        PartitionState(
            topic=topic,
            partition=one.id,
            leader=None if one.leader < 0 else one.leader,
            replicas=tuple(one.replicas),
            isr=tuple(one.isrs),
        )
        for one in partitions
    )
