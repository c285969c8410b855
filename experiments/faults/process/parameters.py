"""What faults of processes can be told: times, how long to wait for the cluster, which node."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from experiments.faults.core import FaultParameters
from experiments.faults.core.effects import Topology

FAMILY: Final = "process"


class CrashParameters(FaultParameters):
    """A node is killed and started again."""

    restart_after_s: float = Field(
        default=5.0,
        gt=0,
        le=3600,
        description="from the kill to the restart at the earliest, seconds",
    )
    patience_s: float = Field(
        default=10.0,
        ge=0,
        le=3600,
        description="how much longer it stays down while the cluster has not noticed, seconds",
    )

    def heals_at_s(self) -> float:
        """Return when the node is started again, where the cluster has noticed by then."""
        return self.at_s + self.restart_after_s


class BehindParameters(CrashParameters):
    """The followers are stopped for a moment before the leader is killed."""

    behind_s: float = Field(
        default=0.5,
        gt=0,
        le=60,
        description="how long the followers stand still before the leader dies, seconds",
    )

    def heals_at_s(self) -> float:
        """Return when the leader is started again."""
        return self.at_s + self.behind_s + self.restart_after_s


class StopParameters(CrashParameters):
    """A node is asked to end, and started again."""

    restart_after_s: float = Field(
        default=8.0,
        gt=0,
        le=3600,
        description="from the SIGTERM to the restart at the earliest, seconds; an end takes some",
    )
    end_within_s: float = Field(
        default=20.0,
        gt=0,
        le=600,
        description="how long it may take to end before it is killed, seconds",
    )


class PauseParameters(FaultParameters):
    """A node is stopped for a while, and all its connections stay open."""

    pause_s: float = Field(
        default=3.0, gt=0, le=3600, description="how long the process stands still, seconds"
    )

    def heals_at_s(self) -> float:
        """Return when the node goes on."""
        return self.at_s + self.pause_s


class LeaderPauseParameters(PauseParameters):
    """The leader is among the nodes that stand still, so each client waits."""

    def unnoticed_reason(self, client_timeout_s: float, acks: str) -> str | None:
        """A pause no longer than the client waits is repaired by TCP; with acks=0 nobody waits, and what is asked is another thing."""
        if acks == "0" or self.pause_s > client_timeout_s:
            return None
        waits = f"the client waits {client_timeout_s * 1000:g} ms for an answer (socket.timeout.ms; java: request.timeout.ms)"
        return f"pause_s is {self.pause_s:g} and {waits}; allowed: a longer pause"


class LongPauseParameters(PauseParameters):
    """The clients may not notice: the cluster must, and that takes longer than a session."""

    pause_s: float = Field(
        default=6.0, gt=0, le=3600, description="how long the process stands still, seconds"
    )


class _Chosen(FaultParameters):
    node: int = Field(default=1, ge=1, description="which node, by its number")

    def impossible_reason(self, shape: Topology) -> str | None:
        """Members are numbered from 1, the brokers first."""
        members = shape.nodes + shape.other_nodes
        return f"node is {self.node}; allowed: 1 to {members}" if self.node > members else None


class _Most(FaultParameters):
    def impossible_reason(self, shape: Topology) -> str | None:
        """With one node or two, a majority is all of them."""
        return (
            f"a majority of {shape.nodes} is all there are; allowed: 3 nodes or more, or a fault of all"
            if shape.majority == shape.nodes
            else None
        )


class NodeCrashParameters(_Chosen, CrashParameters):
    """A chosen node is killed and started again."""


class NodeStopParameters(_Chosen, StopParameters):
    """A chosen node is asked to end, and started again."""


class NodePauseParameters(_Chosen, LongPauseParameters):
    """A chosen node stands still."""


class MajorityCrashParameters(_Most, CrashParameters):
    """More than half of the nodes are killed, and started again."""


class MajorityStopParameters(_Most, StopParameters):
    """More than half of the nodes are asked to end, and started again."""


class MajorityPauseParameters(_Most, LeaderPauseParameters):
    """More than half of the nodes stand still."""
