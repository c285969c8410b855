"""A cluster as data: what to provision, its nodes, and the state that it reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal, get_args

DiskKind = Literal["folder", "image"]
NetworkKind = Literal["loopback", "relays", "node-relays", "namespaces"]
"""What connects nodes and clients: relays are in front of the listener for clients, node relays in
front of those for brokers and controllers too."""
Listener = Literal["client", "replication", "controller"]
"""Of a node: for clients, for other brokers, and for the brokers and controllers of a quorum."""
RELAYED: Final[Mapping[NetworkKind, tuple[Listener, ...]]] = MappingProxyType(
    {"relays": ("client",), "node-relays": get_args(Listener)}
)
"""The listeners that have relays in front of them, by kind of network."""
Coordination = Literal["kraft", "zookeeper"]


NodeState = Literal["running", "paused", "stopped"]
MemberRole = Literal["combined", "broker", "controller", "zookeeper"]
"""The role of a process of a cluster; `combined` is a broker and a controller in one."""


@dataclass(frozen=True)
class ClusterSpec:
    """What to provision. Trials with equal specs may share a cluster."""

    nodes: int = 3
    """How many brokers; dedicated controllers and ZooKeeper servers are counted separately."""
    kafka_version: str = "4.3.1"
    broker: Mapping[str, str] = field(default_factory=dict)
    """Broker properties that override those of `infra.kafka.broker_settings`."""
    network: NetworkKind = "loopback"
    """What connects the nodes: network faults need one that can be impaired."""
    disk: DiskKind = "folder"
    """Where nodes store their data: a power cut needs an image."""
    coordination: Coordination = "kraft"
    """What stores the metadata: KRaft controllers, or ZooKeeper with one broker as controller."""
    controllers: int = 0
    """How many dedicated controllers; 0: each broker is a controller too."""
    zookeepers: int = 0
    """How many ZooKeeper servers, with coordination `zookeeper`."""
    features: Mapping[str, int] = field(default_factory=dict)
    """Feature levels (KIP-584), set when the storage is formatted. Other features have the default
    level of the Kafka version."""

    @property
    def has_relays(self) -> bool:
        """Whether clients connect to the brokers through relays."""
        return self.network in RELAYED

    @property
    def roles(self) -> tuple[MemberRole, ...]:
        """The role of each member by node id, from 1 on; the brokers come first."""
        others: list[MemberRole] = ["controller"] * self.controllers
        if self.coordination == "zookeeper":
            others = ["zookeeper"] * self.zookeepers
        broker: MemberRole = "broker" if others else "combined"
        return (*[broker] * self.nodes, *others)


@dataclass(frozen=True)
class PartitionState:
    """One partition in the metadata of a broker."""

    topic: str
    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader_epoch: int | None = None
    """Increases with each leader change; `None`: the broker does not report it."""
    topic_id: str | None = None
    """Distinguishes topics that had the same name one after the other (KIP-516); `None`: the broker
    does not report it."""


@dataclass(frozen=True)
class ClusterState:
    """The state that a cluster reports at one moment."""

    brokers: tuple[int, ...]
    controller: int | None
    controller_epoch: int | None
    partitions: tuple[PartitionState, ...]

    def of(self, topic: str) -> tuple[PartitionState, ...]:
        """Return the topic's partitions by number."""
        return tuple(
            sorted((p for p in self.partitions if p.topic == topic), key=lambda p: p.partition)
        )


@dataclass(frozen=True)
class ControllerView:
    """The metadata quorum as the active controller reports it."""

    leader: int
    epoch: int | None
    """`None`: brokers under ZooKeeper do not report it."""


@dataclass(frozen=True)
class LeaderEpoch:
    """An entry of a replica's `leader-epoch-checkpoint`: the first offset of a leader epoch."""

    node_id: int
    partition: int
    leader_epoch: int
    start_offset: int


def node_name(node_id: int, role: MemberRole) -> str:
    """Return the name of a node in messages: `node 3`, `controller 4`, `ZooKeeper server 4`."""
    kinds = {"controller": "controller", "zookeeper": "ZooKeeper server"}
    return f"{kinds.get(role, 'node')} {node_id}"


@dataclass(frozen=True)
class NodeStatus:
    """One node as its supervisor reports it. A process is identified by pid and start time."""

    node_id: int
    state: NodeState
    pid: int | None
    start_ticks: int | None
    """Field 22 of /proc/<pid>/stat."""
    client_port: int
    """The advertised port, of a relay where there is one. Only brokers listen on it."""
    replication_port: int
    """For other brokers; of a ZooKeeper server, for the other servers of its ensemble."""
    controller_port: int
    """Of the controller or ZooKeeper server; a dedicated broker does not listen on it."""
    host: str = "127.0.0.1"
    """The address that it listens on."""
    role: MemberRole = "combined"

    @property
    def is_broker(self) -> bool:
        """Whether it stores records."""
        return self.role in {"combined", "broker"}

    @property
    def is_controller(self) -> bool:
        """Whether it is a member of a KRaft quorum."""
        return self.role in {"combined", "controller"}


@dataclass(frozen=True)
class LaunchSpec:
    """How a node of this cluster is started."""

    command: tuple[str, ...]
    """Program and arguments; runs in the node's folder, with `server.properties` and `data`."""
    formatted: str
    """The formatted folder of `infra.kafka.storage`, which is copied for each node. Empty: nodes
    format their storage when they start, as brokers under ZooKeeper do."""
    zookeeper: tuple[str, ...] = ()
    """Program and arguments of a ZooKeeper server; empty under KRaft."""
