"""What the nodes of a cluster reach each other and their clients through."""

from __future__ import annotations

from infra.cluster import ClusterSpec
from infra.network.base import Network

__all__ = ["Network", "network_for"]


def network_for(spec: ClusterSpec, listeners: int, cluster_id: str) -> Network:
    """Make the network that a cluster asks for.

    Args:
        spec: what was asked for.
        listeners: how many ports a node listens on.
        cluster_id: the cluster's own; what is made on this machine is named after it.

    Raises:
        MachineError: this machine cannot have it.
    """
    match spec.network:
        case "namespaces":
            from infra.network.namespaces import NamespacedNetwork

            return NamespacedNetwork(len(spec.roles), listeners, cluster_id)
        case "relays":
            from infra.network.relayed import RelayedNetwork

            return RelayedNetwork(len(spec.roles), listeners)
        case "loopback":
            from infra.network.loopback import LoopbackNetwork

            return LoopbackNetwork(len(spec.roles), listeners)
