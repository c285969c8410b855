"""The network of a cluster: how nodes reach each other and their clients, and how it is impaired.

Faults choose the impairments (`experiments.trial.faults.network`); this package carries them out.
"""

from __future__ import annotations

from ackbench.infra.kafka.spec import RELAYED, NetworkKind
from ackbench.infra.network.loopback import Network


def network_for(kind: NetworkKind, nodes: int, listeners: int, cluster_id: str) -> Network:
    """Create the network of a cluster.

    Args:
        kind: which kind of network.
        nodes: the number of nodes, brokers and others.
        listeners: the number of ports that each node listens on.
        cluster_id: the cluster's id; network devices on this machine are named after it.

    Raises:
        MachineError: this machine does not support it.
    """
    match kind:
        case "namespaces":
            from ackbench.infra.network.namespaces import NamespacedNetwork

            return NamespacedNetwork(nodes, listeners, cluster_id)
        case "relays" | "node-relays":
            from ackbench.infra.network.relayed import RelayedNetwork

            return RelayedNetwork(nodes, listeners, RELAYED[kind])
        case "loopback":
            from ackbench.infra.network.loopback import LoopbackNetwork

            return LoopbackNetwork(nodes, listeners)
