"""The settings of a node under KRaft. Pure.

Names and meanings: https://kafka.apache.org/documentation/#brokerconfigs. Where no reason is given the value is Kafka's own
default, written down so that it is recorded with the trial and does not change with the next version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from infra.kafka.spec import MemberRole

LOOPBACK: Final = "127.0.0.1"
LOG_DIR: Final = "data"
"""The log folder, relative to the node's own."""

FAILOVER_PROPERTIES: Final = {
    "broker.heartbeat.interval.ms": "500",  # a quarter of the default, to be noticed sooner
    "broker.session.timeout.ms": "4000",  # less than half the default; still longer than a pause that a client is to notice
    "initial.broker.registration.timeout.ms": "60000",
    "controller.quorum.election.timeout.ms": "500",  # half the default: the first election waits for it as well
    "controller.quorum.election.backoff.max.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",  # half the default
    "controller.quorum.request.timeout.ms": "2000",
    "controller.quorum.retry.backoff.ms": "20",
    "controller.quorum.append.linger.ms": "25",
}
"""Of all nodes: what the failover hangs on where controllers hold the metadata."""


@dataclass(frozen=True)
class ListenAddress:
    """Where a node listens."""

    host: str
    ports: tuple[int, ...]
    """Of its listeners: client, replication, controller."""
    advertised_port: int | None = None
    """Where clients are told to come; `None`: to the client listener itself."""


@dataclass(frozen=True)
class NodeAddress:
    """A node and its three listeners, apart so that each can be cut off alone."""

    node_id: int
    client_port: int
    replication_port: int
    controller_port: int
    host: str = LOOPBACK
    advertised_port: int | None = None
    """Where clients are told to come; `None`: to the client listener itself."""
    role: MemberRole = "combined"

    @property
    def clients_port(self) -> int:
        """Where clients come."""
        return self.client_port if self.advertised_port is None else self.advertised_port

    @classmethod
    def of(cls, node_id: int, place: ListenAddress, role: MemberRole) -> NodeAddress:
        """Return the address of a node at a place."""
        client, replication, controller = place.ports
        return cls(
            node_id, client, replication, controller, place.host, place.advertised_port, role
        )


def node_properties(node: NodeAddress, members: Sequence[NodeAddress]) -> dict[str, str]:
    """Return the settings that follow from who the node is; nobody may override them.

    The log folder is relative to the node's own folder, in which it runs: `log.dirs` is a list, and a comma in a path would part it.
    The quorum is static (`controller.quorum.voters`): the formatted folder then holds no address and can be kept, see `infra.kafka.storage`.
    """
    quorum = {
        "process.roles": {"combined": "broker,controller"}.get(node.role, node.role),
        "node.id": str(node.node_id),
        "controller.quorum.voters": ",".join(
            f"{n.node_id}@{n.host}:{n.controller_port}" for n in members if n.role != "broker"
        ),
        "controller.listener.names": "CONTROLLER",
    }
    return {
        **quorum,
        **listener_properties(node, () if node.role == "broker" else ("CONTROLLER",)),
        "log.dirs": LOG_DIR,
    }


def listener_properties(node: NodeAddress, also: Sequence[str] = ()) -> dict[str, str]:
    """Return where a node listens, and for whom.

    Args:
        node: the node.
        also: listeners beside those that a broker has.
    """
    ports = {
        "CLIENT": node.client_port,
        "REPLICATION": node.replication_port,
        "CONTROLLER": node.controller_port,
    }
    named = [
        name
        for name in ports
        if name in also or (name != "CONTROLLER" and node.role != "controller")
    ]
    told = {
        "listeners": ",".join(f"{name}://{node.host}:{ports[name]}" for name in named),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in ports),
    }
    if node.role == "controller":
        return told
    advertised = {"CLIENT": node.clients_port, "REPLICATION": node.replication_port}
    places = ",".join(f"{name}://{node.host}:{port}" for name, port in advertised.items())
    return {**told, "advertised.listeners": places, "inter.broker.listener.name": "REPLICATION"}


def properties_text(properties: Mapping[str, str]) -> str:
    """Return properties as `java.util.Properties.load` reads them back, whatever characters they hold."""
    return "".join(
        f"{_escaped(key, ' :=#!')}={_escaped(value, '')}\n" for key, value in properties.items()
    )


def _escaped(text: str, also: str) -> str:
    """Backslashes and line ends anywhere, a leading space, what would end a key, and as UTF-16 units all that is not ASCII."""
    named = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"} | {
        character: "\\" + character for character in also
    }
    escaped = "".join(
        named.get(character, character) if character.isascii() else _utf16(character)
        for character in text
    )
    return "\\" + escaped if escaped.startswith(" ") else escaped


def _utf16(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
