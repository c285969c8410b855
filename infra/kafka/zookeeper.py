"""The settings of ZooKeeper servers, and of the brokers that use them (Kafka up to 3.9).

Names and meanings: https://zookeeper.apache.org/doc/r3.8.4/zookeeperAdmin.html and
https://kafka.apache.org/39/documentation.html#brokerconfigs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ackbench.infra.kafka.kraft import LOG_DIR, NodeAddress, listener_properties

MAIN_CLASS: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
PROPERTIES_FILE: Final = "zookeeper.properties"
MYID_FILE: Final = "myid"
"""In the data folder: the server's id in its ensemble."""

FAILOVER_PROPERTIES: Final = {
    "zookeeper.session.timeout.ms": "4000",  # 18000 by default; as long as under KRaft
    # Brokers start together with the servers, and wait for them.
    "zookeeper.connection.timeout.ms": "30000",
    "zookeeper.max.in.flight.requests": "10",
    "controller.socket.timeout.ms": "30000",
}
"""For all brokers under ZooKeeper: what failover depends on."""

TICK_MS: Final = 500
"""2000 by default. Sessions expire at a tick and last at least two ticks (`minSessionTimeout`)."""
INIT_LIMIT_TICKS: Final = 20
"""How long a server may take to join its leader: 10 s, half of the distribution's value."""
SYNC_LIMIT_TICKS: Final = 4
"""How long a server may lag behind its leader: 2 s, twice the fetch timeout of a KRaft quorum, as
under KRaft; the distribution has 10 s."""


def broker_properties(node: NodeAddress, members: Sequence[NodeAddress]) -> dict[str, str]:
    """Return the settings of a broker that depend on the node; they cannot be overridden."""
    servers = ",".join(
        f"{member.host}:{member.controller_port}"
        for member in members
        if member.role == "zookeeper"
    )
    return {
        "broker.id": str(node.node_id),
        "zookeeper.connect": servers,
        **listener_properties(node),
        "log.dirs": LOG_DIR,
    }


def zookeeper_properties(node: NodeAddress, members: Sequence[NodeAddress]) -> dict[str, str]:
    """Return a server's settings.

    Brokers connect to its controller port; the other servers of its ensemble use its replication
    port (to follow the leader) and its client port (to elect one).
    """
    ensemble = [member for member in members if member.role == "zookeeper"]
    peers = {
        f"server.{peer.node_id}": f"{peer.host}:{peer.replication_port}:{peer.client_port}"
        for peer in ensemble
    }
    if len(ensemble) == 1:
        peers = {}  # a list of one would make the server wait for an election
    return {
        "dataDir": LOG_DIR,
        "clientPort": str(node.controller_port),
        "clientPortAddress": node.host,
        "tickTime": str(TICK_MS),
        "initLimit": str(INIT_LIMIT_TICKS),
        "syncLimit": str(SYNC_LIMIT_TICKS),
        "maxClientCnxns": "0",
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "srvr",
        **peers,
    }
