"""Parameters of the faults of processes, and the effects of a crash. Pure."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from ackbench.experiments.trial.faults.core import FaultParameters, Seconds, SecondsOrNone
from ackbench.experiments.trial.faults.core.effects import (
    FaultEffects,
    Topology,
    no_follower_reason,
    no_group_reason,
    no_transactions_reason,
)
from ackbench.experiments.trial.faults.core.kind import too_short_reason

FAMILY: Final = "process"
RESTART_S: Final = 5.0
"""An allowance for the start of a node until it is in every ISR again. On idle cores the controller
unfences it about 2 s after its start."""


class CrashParameters(FaultParameters):
    """A node crashes (SIGKILL) and is started again."""

    restart_after_s: Seconds = Field(
        default=5.0, description="from the crash to the restart at the earliest, seconds"
    )
    patience_s: SecondsOrNone = Field(
        default=10.0,
        description="how much longer the node stays down while the cluster has not reacted,"
        " seconds",
    )

    def heals_at_s(self) -> float:
        """Return when the node is started again, if the cluster has reacted by then."""
        return self.at_s + self.restart_after_s


def crash_effects(parameters: CrashParameters, _topology: Topology) -> FaultEffects:
    """Return the effects of a crash. The node may lead any partition, or be the controller."""
    heals_ms = parameters.restart_after_s * 1000
    return FaultEffects(
        nodes_down=1,
        may_affect_leader=True,
        heals_after_ms=heals_ms,
        heals_within_ms=heals_ms + parameters.patience_s * 1000,
    )


class BehindParameters(CrashParameters):
    """The followers are paused for a moment before the leader crashes."""

    behind_s: float = Field(
        default=0.5,
        gt=0,
        le=60,
        description="how long the followers are paused before the leader crashes, seconds",
    )

    def heals_at_s(self) -> float:
        """Return when the leader is started again, if the cluster has reacted by then."""
        return self.at_s + self.behind_s + self.restart_after_s


class StopParameters(CrashParameters):
    """A node is shut down cleanly (SIGTERM) and started again."""

    restart_after_s: Seconds = Field(
        default=8.0,
        description="from SIGTERM to the restart at the earliest, seconds; includes the shutdown",
    )
    end_within_s: float = Field(
        default=20.0,
        gt=0,
        le=600,
        description="how long the shutdown may take before the node gets SIGKILL, seconds",
    )


class PauseParameters(FaultParameters):
    """A node is paused (SIGSTOP) for a while; all its connections stay open."""

    pause_s: Seconds = Field(default=3.0, description="how long the process is paused, seconds")

    def heals_at_s(self) -> float:
        """Return when the node is resumed."""
        return self.at_s + self.pause_s


class LeaderPauseParameters(PauseParameters):
    """The leader is among the paused nodes, so every client waits."""

    def unnoticed_reason(self, client_timeout_s: float, acks: str) -> str | None:
        """Refuse a pause that is not longer than the client's timeout."""
        return too_short_reason("pause", "pause_s", self.pause_s, client_timeout_s, acks)


class LongPauseParameters(PauseParameters):
    """The clients need not notice the pause.

    The cluster must, which takes longer than a session.
    """

    pause_s: Seconds = Field(default=6.0, description="how long the process is paused, seconds")


class _OneNode(FaultParameters):
    node: int = Field(default=1, ge=1, description="id of the target node")

    def impossible_reason(self, topology: Topology) -> str | None:
        """Refuse ids that do not exist: nodes are numbered from 1, brokers first."""
        nodes = topology.nodes + topology.other_nodes
        return f"node is {self.node}; allowed: 1 to {nodes}" if self.node > nodes else None


class _Majority(FaultParameters):
    def impossible_reason(self, topology: Topology) -> str | None:
        """Refuse clusters of one or two nodes, of which a majority is all nodes."""
        if topology.majority < topology.nodes:
            return None
        return (
            f"a majority of {topology.nodes} is all nodes;"
            " allowed: 3 nodes or more, or a fault of all nodes"
        )


class _Follower(FaultParameters):
    def impossible_reason(self, topology: Topology) -> str | None:
        """Refuse topics without followers."""
        return super().impossible_reason(topology) or no_follower_reason(topology)


class FollowerCrashParameters(_Follower, CrashParameters):
    """A follower crashes and is started again."""


class FollowerStopParameters(_Follower, StopParameters):
    """A follower is shut down cleanly and started again."""


class FollowerPauseParameters(_Follower, LongPauseParameters):
    """A follower is paused."""


class NodeCrashParameters(_OneNode, CrashParameters):
    """The chosen node crashes and is started again."""


class NodeStopParameters(_OneNode, StopParameters):
    """The chosen node is shut down cleanly and started again."""


class NodePauseParameters(_OneNode, LongPauseParameters):
    """The chosen node is paused."""


class MajorityCrashParameters(_Majority, CrashParameters):
    """More than half of the nodes crash and are started again."""


class MajorityStopParameters(_Majority, StopParameters):
    """More than half of the nodes are shut down cleanly and started again."""


class MajorityPauseParameters(_Majority, LeaderPauseParameters):
    """More than half of the nodes are paused."""


class _Transactions(FaultParameters):
    def impossible_reason(self, topology: Topology) -> str | None:
        """Refuse workloads without transactions."""
        return no_transactions_reason(topology)


class _Group(FaultParameters):
    def impossible_reason(self, topology: Topology) -> str | None:
        """Refuse workloads without a consumer group."""
        return no_group_reason(topology)


class CoordinatorCrashParameters(_Transactions, CrashParameters):
    """The transaction coordinator crashes and is started again."""


class CoordinatorStopParameters(_Transactions, StopParameters):
    """The transaction coordinator is shut down cleanly and started again."""


class CoordinatorPauseParameters(_Transactions, LongPauseParameters):
    """The transaction coordinator is paused."""


class GroupCoordinatorCrashParameters(_Group, CrashParameters):
    """The group coordinator crashes and is started again."""


class GroupCoordinatorStopParameters(_Group, StopParameters):
    """The group coordinator is shut down cleanly and started again."""


class GroupCoordinatorPauseParameters(_Group, LongPauseParameters):
    """The group coordinator is paused."""
