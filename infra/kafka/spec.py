"""What a cluster is, as data: what to provision, its members, and what it says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

DiskKind = Literal["folder", "image"]
NetworkKind = Literal["loopback", "relays", "namespaces"]
Coordination = Literal["kraft", "zookeeper"]


NodeState = Literal["running", "paused", "stopped"]
MemberRole = Literal["combined", "broker", "controller", "zookeeper"]
"""What a process of a cluster is; combined: broker and controller in one."""


@dataclass(frozen=True)
class ClusterSpec:
    """What to provision. Two equal specs may share a cluster; unequal ones may not."""

    nodes: int = 3
    """Its brokers; the members that are none come beside them."""
    kafka_version: str = "4.3.1"
    broker: Mapping[str, str] = field(default_factory=dict)
    """Broker properties on top of `infra.kafka.broker_settings`'s explicit ones."""
    network: NetworkKind = "loopback"
    """What the nodes reach each other through: faults of the network need one that can be cut."""
    disk: DiskKind = "folder"
    """What they keep their data on: losing power needs an image."""
    coordination: Coordination = "kraft"
    """What holds the metadata: controllers, or ZooKeeper with one broker as its controller."""
    controllers: int = 0
    """How many nodes are controllers and nothing else; 0: each broker is a controller too."""
    zookeepers: int = 0
    """How many ZooKeeper servers there are, where those hold the metadata."""
    features: Mapping[str, int] = field(default_factory=dict)
    """Levels of features (KIP-584), set when the cluster is formatted; one that is not named has Kafka's own for that version."""

    @property
    def roles(self) -> tuple[MemberRole, ...]:
        """Each member's role; the brokers first, which are numbered from 1."""
        beside: MemberRole = "zookeeper" if self.coordination == "zookeeper" else "controller"
        others = (beside,) * (self.zookeepers if beside == "zookeeper" else self.controllers)
        brokers: MemberRole = "broker" if others else "combined"
        return (brokers,) * self.nodes + others


@dataclass(frozen=True)
class PartitionState:
    """One partition as a broker's metadata tells it."""

    topic: str
    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader_epoch: int | None = None
    """How often the partition had got a leader, or lost it, before; `None`: the broker did not tell."""
    topic_id: str | None = None
    """Which of the topics that had this name, one after the other (KIP-516); `None`: the broker did not tell."""


@dataclass(frozen=True)
class ClusterState:
    """What the cluster says of itself at one moment."""

    brokers: tuple[int, ...]
    controller: int | None
    controller_epoch: int | None
    partitions: tuple[PartitionState, ...]

    def of(self, topic: str) -> tuple[PartitionState, ...]:
        """The topic's partitions, by number."""
        return tuple(
            sorted((p for p in self.partitions if p.topic == topic), key=lambda p: p.partition)
        )


@dataclass(frozen=True)
class ControllerView:
    """What a controller says that takes itself for the active one."""

    leader: int
    epoch: int | None
    """`None`: brokers under ZooKeeper do not tell."""


@dataclass(frozen=True)
class LeaderEpoch:
    """A line of a replica's `leader-epoch-checkpoint`: from which offset on its log is of that leader's epoch."""

    node_id: int
    partition: int
    leader_epoch: int
    start_offset: int


@dataclass(frozen=True)
class NodeStatus:
    """One node as its supervisor knows it. A pid means something only together with its start time."""

    node_id: int
    state: NodeState
    pid: int | None
    start_ticks: int | None
    """Field 22 of /proc/<pid>/stat."""
    client_port: int
    """Where clients are told to come: a relay's, where there is one. Nobody listens there of a member that is no broker."""
    replication_port: int
    """Where brokers come; of a ZooKeeper server, where the others of its ensemble do."""
    controller_port: int
    """Where those come that ask the metadata's keeper; of a broker that keeps none, nobody listens there."""
    host: str = "127.0.0.1"
    """Where it listens."""
    role: MemberRole = "combined"

    @property
    def is_broker(self) -> bool:
        """Whether it has records."""
        return self.role in {"combined", "broker"}

    @property
    def is_controller(self) -> bool:
        """Whether it is one of a KRaft quorum."""
        return self.role in {"combined", "controller"}


@dataclass(frozen=True)
class LaunchSpec:
    """How a node of this cluster is started."""

    command: tuple[str, ...]
    """Program and arguments; runs in the node's folder, where `server.properties` and `data` lie."""
    formatted: str
    """The folder that `infra.kafka.storage` made; each node gets a copy of its own. Empty: nodes of this cluster format themselves."""
    zookeeper: tuple[str, ...] = ()
    """How a ZooKeeper server is started, where there is one."""
