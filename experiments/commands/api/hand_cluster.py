"""A real cluster to break by hand, from a test or a terminal: `ackbench.testing.start_cluster`."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ackbench.experiments.messages.phrases import format_count
from ackbench.experiments.planning.properties import nearest_properties, resolve_version
from ackbench.infra.cluster.capabilities import Capability, missing_capability
from ackbench.infra.cluster.cleaning import require_own_machine
from ackbench.infra.cluster.local import LocalCluster, provision
from ackbench.infra.cluster.setup import ensure_kafka_ready
from ackbench.infra.errors import HarnessError, InputError, MachineError
from ackbench.infra.kafka.spec import ClusterSpec, NodeStatus, PartitionState
from ackbench.infra.machine.home import Home
from ackbench.infra.network.impairment import PacketDrop

PREFIX: Final = "by-hand"
"""How the name of a cluster by hand begins."""
HEALTHY_S: Final = 120.0
_LOG: Final = logging.getLogger(__name__)


class HandCluster:
    """Brokers of this machine that a test, or a person, breaks and heals.

    Nodes are numbered from 1; each is a broker and a controller. What is done to them is done by
    the cluster's supervisor: SIGKILL, SIGSTOP, a clean shutdown, packets that are dropped.

    Args:
        cluster: the processes.
    """

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster

    def again(self) -> HandCluster:
        """Return the same cluster for another thread, with connections of its own."""
        return _cluster_in(self._cluster.folder)

    @property
    def bootstrap_servers(self) -> str:
        """Where clients connect, as Kafka's `bootstrap.servers`."""
        return self._cluster.bootstrap_servers

    @property
    def name(self) -> str:
        """Of the cluster, and of its folder in the home."""
        return self._cluster.folder.name

    @property
    def nodes(self) -> tuple[int, ...]:
        """The ids of all brokers, running or not."""
        return self._cluster.node_ids()

    def status(self) -> tuple[NodeStatus, ...]:
        """Return the state of each node: running, paused or stopped."""
        return self._cluster.status()

    def partitions(self) -> tuple[PartitionState, ...]:
        """Return leader, replicas and ISR of each partition of users' topics.

        Raises:
            WaitTimeout: no broker answers.
        """
        state = self._cluster.describe()
        return tuple(one for one in state.partitions if not one.topic.startswith("__"))

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic, and return once each partition has a leader and a full ISR.

        Args:
            name: of the topic.
            partitions: how many.
            replication_factor: replicas of each; `None`: one on each broker, three at most.
            config: properties of the topic, such as `min.insync.replicas`.

        Raises:
            HarnessError: Kafka refused; with its text.
        """
        from ackbench.experiments.trial.clients.librdkafka.topics import create_topic

        create_topic(
            self.bootstrap_servers,
            name,
            partitions=partitions,
            replication_factor=replication_factor or min(3, len(self.nodes)),
            config=config,
        )

    def leader(self, topic: str, partition: int = 0) -> int:
        """Return the node that leads a partition.

        Raises:
            InputError: there is no such topic or partition, or it has no leader.
        """
        partitions = self._cluster.describe().of(topic)
        found = next((one for one in partitions if one.partition == partition), None)
        if found is None:
            raise InputError(f"there is no partition {partition} of a topic {topic}")
        if found.leader is None:
            raise InputError(f"partition {partition} of {topic} has no leader")
        return found.leader

    def kill(self, node: int) -> int:
        """Crash a node (SIGKILL); return its id."""
        self._cluster.kill(self._known(node))
        return node

    def pause(self, node: int) -> int:
        """Pause a node (SIGSTOP): it answers nothing, and does not know it; return its id."""
        self._cluster.pause(self._known(node))
        return node

    def resume(self, node: int) -> int:
        """Resume a paused node; return its id."""
        self._cluster.resume(self._known(node))
        return node

    def stop(self, node: int) -> int:
        """Shut a node down cleanly (controlled shutdown); return its id."""
        self._cluster.stop(self._known(node))
        return node

    def start(self, node: int) -> int:
        """Start a node that was killed or stopped; return its id. It may not be healthy yet."""
        self._cluster.start(self._known(node))
        return node

    def kill_leader(self, topic: str, partition: int = 0) -> int:
        """Crash the leader of a partition; return its id."""
        return self.kill(self.leader(topic, partition))

    def pause_leader(self, topic: str, partition: int = 0) -> int:
        """Pause the leader of a partition; return its id."""
        return self.pause(self.leader(topic, partition))

    def stop_leader(self, topic: str, partition: int = 0) -> int:
        """Shut the leader of a partition down cleanly; return its id."""
        return self.stop(self.leader(topic, partition))

    def isolate(self, node: int) -> int:
        """Drop all packets between a node and the other nodes; clients reach it. Return its id.

        Raises:
            MachineError: the cluster was started without network namespaces, which need root.
        """
        peers = tuple(one for one in self.nodes if one != self._known(node))
        if self._cluster.spec.network != "namespaces":
            missing = missing_capability(Capability.NAMESPACES)
            reason = f" ({missing.reason})" if missing else ""
            raise MachineError(
                "a node is isolated by network namespaces, which need root: start the cluster with "
                f"--isolation, in a test with isolation=True{reason}"
            )
        self._cluster.impair(f"isolated-{node}", [PacketDrop(node, peers)])
        return node

    def heal(self) -> None:
        """End all that was done: packets pass, nodes resume and start; wait until it is healthy.

        Raises:
            WaitTimeout: it did not become healthy in time; with what is missing.
        """
        for name in self._cluster.active_impairments():
            self._cluster.heal(name)
        for node in self.status():
            if node.state == "paused":
                self._cluster.resume(node.node_id)
            elif node.state == "stopped":
                self._cluster.start(node.node_id)
        self._cluster.wait_until_healthy(HEALTHY_S)

    @contextmanager
    def killed(self, node: int) -> Iterator[int]:
        """Crash a node while the context lasts; it is healthy again afterwards."""
        with self._healed_after():
            yield self.kill(node)

    @contextmanager
    def paused(self, node: int) -> Iterator[int]:
        """Pause a node while the context lasts; it is healthy again afterwards."""
        with self._healed_after():
            yield self.pause(node)

    @contextmanager
    def isolated(self, node: int) -> Iterator[int]:
        """Isolate a node while the context lasts; it is healthy again afterwards."""
        with self._healed_after():
            yield self.isolate(node)

    @contextmanager
    def _healed_after(self) -> Iterator[None]:
        try:
            yield
        finally:
            self.heal()

    def destroy(self) -> None:
        """End all nodes and remove their data. A second call has no effect."""
        self._cluster.destroy()

    def _known(self, node: int) -> int:
        if node not in self.nodes:
            raise InputError(
                f"there is no node {node}; there are {', '.join(map(str, self.nodes))}"
            )
        return node


@contextmanager
def start_cluster(
    nodes: int = 3,
    *,
    kafka_version: str = ClusterSpec.kafka_version,
    broker: Mapping[str, str] | None = None,
    isolation: bool = False,
    announce: Callable[[str], None] = _LOG.info,
) -> Iterator[HandCluster]:
    """Start a real cluster on this machine; it is destroyed when the context ends.

    It also ends when the process that started it dies, however it does.

    Args:
        nodes: brokers, each a controller too (KRaft).
        kafka_version: a release, or the beginning of one, such as `3.9`; its jars are fetched when
            they are first needed.
        broker: properties of the brokers that replace ackbench's, such as
            `{"min.insync.replicas": "2"}`.
        isolation: whether nodes can be isolated: needs root.
        announce: called with a line before each step that takes long.

    Yields:
        The cluster, healthy.

    Raises:
        InputError: there is no such version, or it has no such property, or not with this value.
        MachineError: this machine lacks what it needs; one line.
        HarnessError: a broker did not start; with the end of its log.
    """
    home = Home.from_environment()
    missing = missing_capability(Capability.NAMESPACES) if isolation else None
    if missing:
        raise MachineError(f"{missing.reason}: {missing.remedy}")
    version = resolve_version(kafka_version)
    _refuse_invalid(broker or {}, version)
    spec = ClusterSpec(
        nodes=nodes,
        kafka_version=version,
        broker=dict(broker or {}),
        network="namespaces" if isolation else "loopback",
    )
    ensure_kafka_ready(home.cache, spec, announce)
    announce(f"starting {format_count(nodes, 'broker')} ...")
    name = f"{PREFIX}-{secrets.token_hex(3)}"
    cluster = HandCluster(provision(home.clusters, home.cache, name, spec))
    try:
        yield cluster
    finally:
        cluster.destroy()


def _refuse_invalid(broker: Mapping[str, str], version: str) -> None:
    """Check properties of the brokers as those of an experiment's file that may load code."""
    from ackbench.experiments.planning.axes import KnownNames, Scope, resolve_name
    from ackbench.experiments.planning.settings import check_property_value

    no_names = frozenset[str]()
    known = KnownNames((), no_names, no_names, nearest_properties(version), {})
    for name, value in broker.items():
        place = resolve_name(Scope.BROKER, name, known)
        check_property_value(place, value, known, allow_code=True)


def _cluster_in(folder: Path) -> HandCluster:
    return HandCluster(LocalCluster(folder, require_own_machine(folder)))


def running_clusters(home: Home) -> list[HandCluster]:
    """Return the clusters by hand that run in a home, which other processes have started."""
    found = []
    for folder in sorted(home.clusters.glob(f"{PREFIX}-*")):
        try:
            cluster = _cluster_in(folder)
            cluster.status()
        except HarnessError:
            continue  # what is left of one that has ended
        found.append(cluster)
    return found
