"""What the nodes of a cluster reach each other and their clients through."""

from __future__ import annotations

from infra.kafka.spec import NetworkKind
from infra.network.loopback import Network


def network_for(kind: NetworkKind, members: int, listeners: int, cluster_id: str) -> Network:
    """Make the network that a cluster asks for.

    Args:
        kind: what was asked for.
        members: how many nodes it is to have.
        listeners: how many ports a node listens on.
        cluster_id: the cluster's own; what is made on this machine is named after it.

    Raises:
        MachineError: this machine cannot have it.
    """
    match kind:
        case "namespaces":
            from infra.network.namespaces import NamespacedNetwork

            return NamespacedNetwork(members, listeners, cluster_id)
        case "relays":
            from infra.network.relay import RelayedNetwork

            return RelayedNetwork(members, listeners)
        case "loopback":
            from infra.network.loopback import LoopbackNetwork

            return LoopbackNetwork(members, listeners)
