"""A cluster in memory with admin operations.

Quotas, leader elections, reassignments, additional partitions and recreated topics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from support.fakes.cluster import MemoryCluster

from ackbench.experiments.trial.clients.librdkafka import admin, topics
from ackbench.experiments.trial.faults.operations import moves, topology
from ackbench.experiments.trial.faults.replication import isr
from ackbench.infra.errors import HarnessError
from ackbench.infra.kafka.spec import ClusterState, NodeStatus, PartitionState
from ackbench.infra.kafka.wire import LeaderCandidates


@dataclass
class OperatedCluster(MemoryCluster):
    """A cluster in memory in which paused nodes leave the ISR.

    They return to it when they are resumed, unless a quota throttles the followers of the topic.
    """

    settings: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)
    """Dynamic configurations, by kind and name."""
    out_of_sync: set[int] = field(default_factory=set)
    """Nodes outside the ISR."""
    eligible: tuple[int, ...] = ()
    """Eligible leader replicas outside the ISR."""
    elected_leader: int | None = None
    """The leader by an explicit election; `None`: the first replica in the ISR."""
    elections_refused: int = 0
    """Elections of a preferred leader that are refused, as while its broker is fenced."""
    topic_id: str | None = "first"
    """`None`: the topic does not exist."""
    always_in_sync: frozenset[int] = frozenset()
    """Nodes that stay in the ISR while they are paused."""
    polls_until_out_of_sync: int = 0
    """How many calls of `describe` a paused node stays in the ISR."""
    leaving: dict[int, int] = field(default_factory=dict)
    """For paused nodes in the ISR: how many further calls of `describe` they stay in it."""
    rejoins_once: set[int] = field(default_factory=set)
    """Nodes that rejoin the ISR once despite the quota, with data fetched before it applied."""

    def describe(self, topics: Sequence[str] | None = None, timeout_s: float = 5.0) -> ClusterState:
        """Return the state, without nodes that are out of sync in the ISRs."""
        self.leaving = {node: polls - 1 for node, polls in self.leaving.items()}
        self.out_of_sync |= {node for node, polls in self.leaving.items() if polls < 0}
        self.leaving = {node: polls for node, polls in self.leaving.items() if polls >= 0}
        state = super().describe(topics, timeout_s)
        states = (
            tuple(self._with_isr(one) for one in state.partitions)
            if self.topic_id is not None
            else ()
        )
        return replace(state, partitions=states)

    def pause(self, node_id: int) -> None:
        """Pause a node, which then leaves the ISR."""
        super().pause(node_id)
        if node_id not in self.always_in_sync:
            self.leaving[node_id] = self.polls_until_out_of_sync

    def resume(self, node_id: int) -> None:
        """Resume a node, which then catches up."""
        super().resume(node_id)
        self.leaving.pop(node_id, None)
        self.catch_up()
        if node_id in self.rejoins_once:
            self.rejoins_once.remove(node_id)
            self.out_of_sync.discard(node_id)

    def start(self, node_id: int) -> NodeStatus:
        """Start a node, which then catches up."""
        status = super().start(node_id)
        self.catch_up()
        return status

    def catch_up(self) -> None:
        """Return running nodes to the ISR, unless a quota throttles them."""
        if not self.settings.get(("topic", self.topic)):
            self.out_of_sync = {node for node in self.out_of_sync if self.states[node] != "running"}

    def _with_isr(self, partition: PartitionState) -> PartitionState:
        isr = tuple(node for node in partition.isr if node not in self.out_of_sync)
        leader = next(iter(isr), None)
        elected = self.elected_leader
        if elected in {*isr, *self.out_of_sync} and self.states.get(elected or 0) == "running":
            leader = elected
        return replace(
            partition,
            isr=isr if leader is None or leader in isr else (leader,),
            leader=leader,
            topic_id=self.topic_id,
        )


def operate(cluster: OperatedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the admin functions with those of this cluster, and shorten waits for quotas."""
    admin_functions = AdminFunctions(cluster)
    monkeypatch.setattr(isr, "_QUOTA_WINDOW_S", 0.01)
    monkeypatch.setattr(isr, "_ISR_RETURN_S", 0.01)
    for module in (topics, admin, isr, moves, topology):
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
                monkeypatch.setattr(module, name, getattr(admin_functions, name))


@dataclass
class AdminFunctions:
    """Admin operations on a cluster in memory, with the signatures of the real functions."""

    cluster: OperatedCluster

    def alter_configs(
        self,
        _servers: str,
        kind: str,
        name: str,
        settings: Mapping[str, str | None],
        **_timeouts: float,
    ) -> None:
        """Set configurations; `None` deletes one."""
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
        """Return the candidates that the test has set."""
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
        """Elect the first running replica; an unclean election includes those out of sync."""
        leader = self.cluster.describe().partitions[0].leader
        if unclean and leader is not None:
            return "leader election not needed"
        if not unclean and leader == self.cluster.replicas[0]:
            return "leader election not needed"
        if not unclean and self.cluster.elections_refused:
            self.cluster.elections_refused -= 1
            raise admin.LeaderNotAvailable("the preferred leader was not available")
        self.cluster.elected_leader = next(
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
        """Reassign the replicas immediately."""
        leader = self.cluster.describe().partitions[0].leader
        self.cluster.replicas = tuple(replicas[0])
        self.cluster.elected_leader = leader if leader in self.cluster.replicas else None

    def add_partitions(
        self, _servers: str, _topic: str, partitions: int, **_timeouts: float
    ) -> None:
        """Add the partitions immediately."""
        self.cluster.partitions = partitions

    def topic_overrides(self, _servers: str, _topic: str, **_timeouts: float) -> dict[str, str]:
        """Return one override."""
        return {"min.insync.replicas": "2"}

    def delete_topic(self, _servers: str, _topic: str, **_timeouts: float) -> None:
        """Delete the topic immediately."""
        self.cluster.topic_id = None

    def create_topic(self, _servers: str, topic: str, **settings: Any) -> None:
        """Create the topic immediately, with another id."""
        self.cluster.topic_id = "second"
        self.cluster.settings["made", topic] = {
            name: str(value) for name, value in settings.items()
        }
