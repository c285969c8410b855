"""What can be done to the traffic of a node, and what is told of it. Pure.

The word is netem's (tc-netem(8)) for what a network does to packets. Which of these a cluster's network can do is its own affair:
namespaces cut and shape packets in the kernel, relays act on the bytes of the clients' connections.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Direction = Literal["responses", "requests"]
"""Of a client's connection: what the node sends, what it receives."""
Treatment = Literal["hold", "drop", "reset"]
"""Of a connection's bytes: kept and delivered at the end; thrown away, with a reset at the end; thrown away, with a reset at once."""


@dataclass(frozen=True)
class Cut:
    """Packets that the kernel throws away at a node."""

    node_id: int
    peers: tuple[int, ...] = ()
    """Traffic with these nodes."""
    clients: bool = False
    """Traffic of the client listener."""
    incoming: bool = True
    outgoing: bool = True
    share: float = 1.0
    """Of the packets, by chance; 1: all of them."""
    kind: Literal["cut"] = "cut"


@dataclass(frozen=True)
class Shaping:
    """What a node sends to its peers and its clients, made slower by the kernel."""

    node_id: int
    peers: tuple[int, ...]
    rate_kbit_per_s: int | None = None
    """`None`: as fast as it goes."""
    delay_ms: float = 0
    jitter_ms: float = 0
    kind: Literal["shaping"] = "shaping"


@dataclass(frozen=True)
class Relaying:
    """What a relay does with the bytes of the connections to a node's client listener."""

    node_id: int
    direction: Direction
    treatment: Treatment
    kind: Literal["relaying"] = "relaying"


Impairment = Cut | Shaping | Relaying


@dataclass(frozen=True)
class Caught:
    """What an impairment met with, as the kernel or the relay counted it; `None`: that is not counted there."""

    node_id: int
    what: str
    """`incoming packets`, `outgoing packets`, `shaped packets`, `held responses`, ..."""
    packets: int | None = None
    bytes: int | None = None
    connections: int | None = None
    """So many of them were reset."""

    @property
    def anything(self) -> bool:
        """Whether it met with anything at all."""
        return bool(self.packets or self.bytes or self.connections)

    def __str__(self) -> str:
        """Return it as a sentence of evidence."""
        counted = {"packets": self.packets, "bytes": self.bytes, "connections reset": self.connections}
        figures = ", ".join(f"{count} {unit}" for unit, count in counted.items() if count is not None)
        return f"node {self.node_id}, {self.what}: {figures}"


def impairment_of(raw: Mapping[str, Any]) -> Impairment:
    """Return the impairment that `dataclasses.asdict` made a mapping of.

    Raises:
        KeyError, TypeError: it is none.
    """
    kind: type[Impairment] = {"cut": Cut, "shaping": Shaping, "relaying": Relaying}[raw["kind"]]
    return kind(**(dict(raw) | ({"peers": tuple(raw["peers"])} if "peers" in raw else {})))
