"""A cluster in memory that can be operated: quotas, elections, moved replicas, more partitions, a topic made again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from support.fakes.cluster import MemoryCluster

from experiments.clients.librdkafka import admin, topics
from experiments.faults.operations import moves, topology
from experiments.faults.replication import isr
from experiments.faults.replication import isr as held_back
from infra.errors import HarnessError
from infra.kafka.spec import ClusterState, NodeStatus, PartitionState
from infra.kafka.wire import LeaderCandidates


@dataclass
class OperatedCluster(MemoryCluster):
    """A node that stands still leaves the ISR at once, and comes back when it goes on, unless quotas hold the topic's followers back."""

    settings: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)
    """What was set, by kind and name."""
    out: set[int] = field(default_factory=set)
    """Who is out of sync."""
    eligible: tuple[int, ...] = ()
    """Who may lead all the same."""
    led_by: int | None = None
    """Whom an election made the leader."""
    topic_id: str | None = "first"
    """`None`: there is no topic."""
    deaf: frozenset[int] = frozenset()
    """Nodes that stay in the ISR whatever is done to them."""
    looks_to_leave: int = 0
    """How often the cluster is asked before it says that who stands still has left the ISR."""
    leaving: dict[int, int] = field(default_factory=dict)
    """Of whom stands still and has not left yet, how often more it is asked."""
    slips_back: set[int] = field(default_factory=set)
    """Nodes that come back into sync once, with what they had been sent before the quota held."""

    def describe(self, topics: Sequence[str] | None = None, timeout_s: float = 5.0) -> ClusterState:
        """As in memory, without those that are out of sync."""
        self.leaving = {node: looks - 1 for node, looks in self.leaving.items()}
        self.out |= {node for node, looks in self.leaving.items() if looks < 0}
        self.leaving = {node: looks for node, looks in self.leaving.items() if looks >= 0}
        state = super().describe(topics, timeout_s)
        states = (
            tuple(self._seen(one) for one in state.partitions) if self.topic_id is not None else ()
        )
        return replace(state, partitions=states)

    def pause(self, node_id: int) -> None:
        """It falls out of sync."""
        super().pause(node_id)
        self.leaving |= {} if node_id in self.deaf else {node_id: self.looks_to_leave}

    def resume(self, node_id: int) -> None:
        """It catches up, where it may."""
        super().resume(node_id)
        self.leaving.pop(node_id, None)
        self.catch_up()
        if node_id in self.slips_back:
            self.slips_back.remove(node_id)
            self.out.discard(node_id)

    def start(self, node_id: int) -> NodeStatus:
        """It catches up, where it may."""
        told = super().start(node_id)
        self.catch_up()
        return told

    def catch_up(self) -> None:
        """Let those catch up that run and are not held back."""
        if not self.settings.get(("topic", self.topic)):
            self.out = {node for node in self.out if self.states[node] != "running"}

    def _seen(self, partition: PartitionState) -> PartitionState:
        isr = tuple(node for node in partition.isr if node not in self.out)
        leader = (
            self.led_by
            if self.led_by in {*isr, *self.out} and self.states.get(self.led_by or 0) == "running"
            else next(iter(isr), None)
        )
        return replace(
            partition,
            isr=isr if leader is None or leader in isr else (leader,),
            leader=leader,
            topic_id=self.topic_id,
        )


def operate(cluster: OperatedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let faults operate this cluster, and wait for no quota to fill."""
    desk = Desk(cluster)
    monkeypatch.setattr(held_back, "_QUOTA_WINDOW_S", 0.01)
    monkeypatch.setattr(isr, "_ISR_RETURN_S", 0.01)
    for module in (topics, admin, held_back, isr, moves, topology):
        for name in (
            "alter_configs",
            "leader_candidates",
            "elect_leader",
            "reassign",
            "add_partitions",
            "topic_overrides",
            "create_topic",
            "delete_topic",
        ):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, getattr(desk, name))


@dataclass
class Desk:
    """What an operator can ask for, with the signatures of the real functions."""

    cluster: OperatedCluster

    def alter_configs(
        self,
        _servers: str,
        kind: str,
        name: str,
        settings: Mapping[str, str | None],
        **_timeouts: float,
    ) -> None:
        """Set, and take away."""
        if kind == "broker" and self.cluster.states[int(name)] != "running":
            raise HarnessError(f"broker {name} does not answer")
        kept = self.cluster.settings.get((kind, name), {}) | {
            key: value for key, value in settings.items() if value is not None
        }
        self.cluster.settings[kind, name] = {
            key: value for key, value in kept.items() if settings.get(key, value) is not None
        }
        self.cluster.catch_up()

    def leader_candidates(self, _nodes: object, _topic: str) -> tuple[LeaderCandidates, ...]:
        """As the test says."""
        return (LeaderCandidates(0, None, (), self.cluster.eligible),)

    def elect_leader(
        self,
        _servers: str,
        _topic: str,
        _partition: int,
        *,
        unclean: bool = False,
        **_timeouts: float,
    ) -> str | None:
        """The first replica that runs; unclean, also where it is out of sync."""
        leader = self.cluster.describe().partitions[0].leader
        if unclean and leader is not None:
            return "leader election not needed"
        if not unclean and leader == self.cluster.replicas[0]:
            return "leader election not needed"
        self.cluster.led_by = next(
            node for node in self.cluster.replicas if self.cluster.states[node] == "running"
        )
        return None

    def reassign(
        self,
        _nodes: object,
        _topic: str,
        replicas: Mapping[int, Sequence[int]],
        _timeout_s: float = 0,
    ) -> None:
        """At once."""
        leader = self.cluster.describe().partitions[0].leader
        self.cluster.replicas = tuple(replicas[0])
        self.cluster.led_by = leader if leader in self.cluster.replicas else None

    def add_partitions(
        self, _servers: str, _topic: str, partitions: int, **_timeouts: float
    ) -> None:
        """At once."""
        self.cluster.partitions = partitions

    def topic_overrides(self, _servers: str, _topic: str, **_timeouts: float) -> dict[str, str]:
        """One."""
        return {"min.insync.replicas": "2"}

    def delete_topic(self, _servers: str, _topic: str, **_timeouts: float) -> None:
        """At once."""
        self.cluster.topic_id = None

    def create_topic(self, _servers: str, topic: str, **made_of: Any) -> None:
        """At once, under another id."""
        self.cluster.topic_id = "second"
        self.cluster.settings["made", topic] = {name: str(value) for name, value in made_of.items()}
