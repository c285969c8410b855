"""Kafka with ZooKeeper, up to 3.9: the settings of its servers and of the brokers that keep their metadata there. Pure.

Names and meanings: https://zookeeper.apache.org/doc/r3.8.4/zookeeperAdmin.html and https://kafka.apache.org/39/documentation.html#brokerconfigs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from infra.kafka.kraft import LOG_DIR, NodeAddress, listener_properties

MAIN_CLASS: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
PROPERTIES_FILE: Final = "zookeeper.properties"
MYID_FILE: Final = "myid"
"""In the data folder: who the server is, where there are several."""

FAILOVER_PROPERTIES: Final = {
    "zookeeper.session.timeout.ms": "4000",  # 18000 by default; as long as the session that brokers have under KRaft
    "zookeeper.connection.timeout.ms": "30000",  # brokers start with the servers, and wait for them
    "zookeeper.max.in.flight.requests": "10",
    "controller.socket.timeout.ms": "30000",
}
"""Of all brokers: what the failover hangs on where ZooKeeper holds the metadata."""

TICK_MS: Final = 500
"""2000 by default. Sessions end at whole ticks, and none is shorter than two (`minSessionTimeout`)."""
INIT_LIMIT_TICKS: Final = 20
"""How long a server may take to join its leader: 10 s, half of what the distribution's file has."""
SYNC_LIMIT_TICKS: Final = 4
"""How long it may be without word of its leader: 2 s, as of a KRaft quorum twice the fetch timeout; 10 s in the distribution's file."""


def broker_properties(node: NodeAddress, members: Sequence[NodeAddress]) -> dict[str, str]:
    """Return the settings of a broker that follow from who it is; nobody may override them."""
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
    """Return a server's own settings: brokers come to its controller port, the others of its ensemble to the other two."""
    ensemble = [member for member in members if member.role == "zookeeper"]
    alone = len(ensemble) == 1
    peers = (
        {}
        if alone
        else {
            f"server.{peer.node_id}": f"{peer.host}:{peer.replication_port}:{peer.client_port}"
            for peer in ensemble
        }
    )
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
