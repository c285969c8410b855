"""The settings of a KRaft node that depend on the node, and how properties files are written.

Names and meanings: https://kafka.apache.org/documentation/#brokerconfigs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ackbench.infra.kafka.spec import MemberRole

LOOPBACK: Final = "127.0.0.1"
LOG_DIR: Final = "data"
"""The log folder, relative to the node's folder."""

FAILOVER_PROPERTIES: Final = {
    "broker.heartbeat.interval.ms": "500",  # 2000 by default; detects crashes sooner
    # 9000 by default; longer than a pause that clients notice
    "broker.session.timeout.ms": "4000",
    "initial.broker.registration.timeout.ms": "60000",
    # 1000 by default; the first election waits for it too
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.election.backoff.max.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",  # 2000 by default
    "controller.quorum.request.timeout.ms": "2000",
    "controller.quorum.retry.backoff.ms": "20",
    "controller.quorum.append.linger.ms": "25",
}
"""For all KRaft nodes: what failover depends on. Values without a comment are Kafka's defaults, set
explicitly so that the trial records them and they do not change with the next version."""


@dataclass(frozen=True)
class ListenAddress:
    """The host and ports that a node listens on."""

    host: str
    ports: tuple[int, ...]
    """Of its client, replication and controller listeners."""
    advertised_ports: tuple[int, ...] = ()
    """In the same order; empty: they advertise themselves."""


@dataclass(frozen=True)
class NodeAddress:
    """A node and its three listeners, separate so that each can be partitioned on its own."""

    node_id: int
    client_port: int
    replication_port: int
    controller_port: int
    host: str = LOOPBACK
    advertised_ports: tuple[int, ...] = ()
    """In the same order; empty: they advertise themselves."""
    role: MemberRole = "combined"

    @property
    def advertised(self) -> tuple[int, ...]:
        """The ports of its listeners that clients, brokers and controllers connect to."""
        return self.advertised_ports or (
            self.client_port,
            self.replication_port,
            self.controller_port,
        )

    @classmethod
    def of(cls, node_id: int, address: ListenAddress, role: MemberRole) -> NodeAddress:
        """Return the address of a node that listens there."""
        client, replication, controller = address.ports
        return cls(
            node_id, client, replication, controller, address.host, address.advertised_ports, role
        )


def node_properties(node: NodeAddress, members: Sequence[NodeAddress]) -> dict[str, str]:
    """Return the settings that depend on the node; they cannot be overridden.

    The log folder is relative to the folder in which the node runs: `log.dirs` is a list, and a
    comma in an absolute path would split it. The quorum is static (`controller.quorum.voters`):
    then the formatted folder holds no address and can be cached, see `infra.kafka.storage`.
    """
    quorum = {
        "process.roles": {"combined": "broker,controller"}.get(node.role, node.role),
        "node.id": str(node.node_id),
        "controller.quorum.voters": ",".join(
            f"{n.node_id}@{n.host}:{n.advertised[2]}" for n in members if n.role != "broker"
        ),
        "controller.listener.names": "CONTROLLER",
    }
    return {
        **quorum,
        **listener_properties(node, () if node.role == "broker" else ("CONTROLLER",)),
        "log.dirs": LOG_DIR,
    }


def listener_properties(node: NodeAddress, also: Sequence[str] = ()) -> dict[str, str]:
    """Return the settings of a node's listeners.

    Args:
        node: the node.
        also: listeners in addition to those of a broker.
    """
    ports = {
        "CLIENT": node.client_port,
        "REPLICATION": node.replication_port,
        "CONTROLLER": node.controller_port,
    }
    names = [
        name
        for name in ports
        if name in also or (name != "CONTROLLER" and node.role != "controller")
    ]
    listeners = {
        "listeners": ",".join(f"{name}://{node.host}:{ports[name]}" for name in names),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in ports),
    }
    if node.role == "controller":
        return listeners
    advertised = dict(zip(("CLIENT", "REPLICATION"), node.advertised, strict=False))
    addresses = ",".join(f"{name}://{node.host}:{port}" for name, port in advertised.items())
    return {
        **listeners,
        "advertised.listeners": addresses,
        "inter.broker.listener.name": "REPLICATION",
    }


def properties_text(properties: Mapping[str, str]) -> str:
    """Return the text of a properties file, escaped for `java.util.Properties.load`."""
    return "".join(
        f"{_escaped(key, ' :=#!')}={_escaped(value, '')}\n" for key, value in properties.items()
    )


def _escaped(text: str, also: str) -> str:
    """Escape backslashes, line ends, a leading space, the characters in `also`, and non-ASCII."""
    escapes = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"} | {
        character: "\\" + character for character in also
    }
    escaped = "".join(
        escapes.get(character, character) if character.isascii() else _utf16(character)
        for character in text
    )
    return "\\" + escaped if escaped.startswith(" ") else escaped


def _utf16(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
