"""The settings of a KRaft node, every one explicit that bears on failover. Pure.

Names and meanings: https://kafka.apache.org/documentation/#brokerconfigs. Where no reason is given the value is Kafka's own
default, written down so that it is recorded with the trial and does not change with the next version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from infra.errors import InputError

LOOPBACK: Final = "127.0.0.1"
DATA: Final = "data"
"""The log folder, relative to the node's own."""

_FAILOVER: Final = {
    "broker.heartbeat.interval.ms": "500",  # a quarter of the default, to be noticed sooner
    "broker.session.timeout.ms": "4000",  # less than half the default; still longer than a pause that a client is to notice
    "initial.broker.registration.timeout.ms": "60000",
    "controller.quorum.election.timeout.ms": "500",  # half the default: the first election waits for it as well
    "controller.quorum.election.backoff.max.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",  # half the default
    "controller.quorum.request.timeout.ms": "2000",
    "controller.quorum.retry.backoff.ms": "20",
    "controller.quorum.append.linger.ms": "25",
    "controlled.shutdown.enable": "true",
    "auto.leader.rebalance.enable": "false",  # would move leaders in the middle of a trial
    "unclean.leader.election.enable": "false",
    "replica.lag.time.max.ms": "30000",
    "replica.fetch.wait.max.ms": "500",
    "replica.fetch.min.bytes": "1",
    "replica.fetch.backoff.ms": "1000",
    "replica.socket.timeout.ms": "30000",
    "replica.high.watermark.checkpoint.interval.ms": "5000",
    "num.replica.fetchers": "1",
}

_DURABILITY: Final = {
    "min.insync.replicas": "1",  # with KIP-966 the topic's own value counts, and topics set it
    "log.flush.interval.messages": "9223372036854775807",
    "log.flush.scheduler.interval.ms": "9223372036854775807",
    "log.flush.offset.checkpoint.interval.ms": "60000",
    "log.flush.start.offset.checkpoint.interval.ms": "60000",
    "num.recovery.threads.per.data.dir": "2",
    "log.segment.delete.delay.ms": "1000",  # the default of a minute keeps each trial's topic on disk into the next ones
}

_CONDUCT: Final = {
    "auto.create.topics.enable": "false",  # a mistyped name must be an error
    "group.initial.rebalance.delay.ms": "0",  # 3 s by default, for members that join in bursts
    "log.cleaner.dedupe.buffer.size": "4194304",  # 128 MiB by default, of a heap of 256
    "offsets.topic.num.partitions": "3",  # 50 by default: each costs files and an election
    "transaction.state.log.num.partitions": "3",
    "share.coordinator.state.topic.num.partitions": "3",
}


@dataclass(frozen=True)
class Place:
    """Where a node listens."""

    host: str
    ports: tuple[int, ...]
    """Of its listeners: client, replication, controller."""
    advertised_port: int | None = None
    """Where clients are told to come; `None`: to the client listener itself."""


@dataclass(frozen=True)
class NodeAddress:
    """A node and its three listeners, apart so that each can be cut off alone."""

    node_id: int
    client_port: int
    replication_port: int
    controller_port: int
    host: str = LOOPBACK
    advertised_port: int | None = None
    """Where clients are told to come; `None`: to the client listener itself."""

    @property
    def clients_port(self) -> int:
        """Where clients come."""
        return self.client_port if self.advertised_port is None else self.advertised_port

    @classmethod
    def of(cls, node_id: int, place: Place) -> NodeAddress:
        """Return the address of a node at a place."""
        client, replication, controller = place.ports
        return cls(node_id, client, replication, controller, place.host, place.advertised_port)


def own_properties(node: NodeAddress, nodes: Sequence[NodeAddress]) -> dict[str, str]:
    """Return the settings that follow from who the node is; nobody may override them.

    The log folder is relative to the node's own folder, in which it runs: `log.dirs` is a list, and a comma in a path would part it.
    The quorum is static (`controller.quorum.voters`): the formatted folder then holds no address and can be kept, see `infra.formatted`.
    """
    listeners = {"CLIENT": node.client_port, "REPLICATION": node.replication_port, "CONTROLLER": node.controller_port}
    advertised = {"CLIENT": node.clients_port, "REPLICATION": node.replication_port}
    return {
        "process.roles": "broker,controller",
        "node.id": str(node.node_id),
        "controller.quorum.voters": ",".join(f"{n.node_id}@{n.host}:{n.controller_port}" for n in nodes),
        "listeners": ",".join(f"{name}://{node.host}:{port}" for name, port in listeners.items()),
        "advertised.listeners": ",".join(f"{name}://{node.host}:{port}" for name, port in advertised.items()),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in listeners),
        "inter.broker.listener.name": "REPLICATION",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": DATA,
    }


def shared_properties(nodes: int, overrides: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that all nodes share: ours, and over them those that were asked for.

    Args:
        nodes: how many the cluster has; internal topics have at most three replicas.
        overrides: Kafka's own property names and values.

    Raises:
        InputError: an override names a setting that follows from who the node is.
    """
    taken = sorted(own_properties(NodeAddress(0, 0, 0, 0), ()).keys() & overrides.keys())
    if taken:
        raise InputError(f"broker settings {', '.join(taken)} follow from the cluster itself and cannot be set")
    replicas = str(min(3, nodes))
    majority = str(min(3, nodes) // 2 + 1)
    internal = {
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": majority,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": majority,
    }
    return {**_FAILOVER, **_DURABILITY, **_CONDUCT, **internal, **overrides}


def server_properties(node: NodeAddress, nodes: Sequence[NodeAddress], overrides: Mapping[str, str]) -> dict[str, str]:
    """Return everything that stands in the node's `server.properties`.

    Raises:
        InputError: an override names a setting that follows from who the node is.
    """
    return {**own_properties(node, nodes), **shared_properties(len(nodes), overrides)}


def properties_text(properties: Mapping[str, str]) -> str:
    """Return properties as `java.util.Properties.load` reads them back, whatever characters they hold."""
    return "".join(f"{_escaped(key, ' :=#!')}={_escaped(value, '')}\n" for key, value in properties.items())


def _escaped(text: str, also: str) -> str:
    """Backslashes and line ends anywhere, a leading space, what would end a key, and as UTF-16 units all that is not ASCII."""
    named = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"} | {character: "\\" + character for character in also}
    escaped = "".join(named.get(character, character) if character.isascii() else _utf16(character) for character in text)
    return "\\" + escaped if escaped.startswith(" ") else escaped


def _utf16(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
