"""What the nodes of a cluster reach each other and their clients through."""

from __future__ import annotations

from infra.cluster import ClusterSpec
from infra.network.base import Network
from infra.network.loopback import LoopbackNetwork

__all__ = ["Network", "network_for"]


def network_for(spec: ClusterSpec, listeners: int) -> Network:
    """Make the network that a cluster asks for.

    Args:
        spec: what was asked for.
        listeners: how many ports a node listens on.

    Raises:
        MachineError: this machine cannot have it.
    """
    return LoopbackNetwork(spec.nodes, listeners)
