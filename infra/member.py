"""A member of a cluster: what it is, and how its supervisor knows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

NodeState = Literal["running", "paused", "stopped"]
MemberRole = Literal["combined", "broker", "controller", "zookeeper"]
"""What a process of a cluster is; combined: broker and controller in one."""


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
