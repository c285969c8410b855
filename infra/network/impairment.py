"""What can be done to the traffic of a node, and what is told of it. Pure.

The word is netem's (tc-netem(8)) for what a network does to packets. Which of these a cluster's network can do is its own affair:
namespaces cut and shape packets in the kernel, relays act on the bytes of the clients' connections.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from infra.errors import SupervisorError

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
class ImpairmentCounts:
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
        counted = {
            "packets": self.packets,
            "bytes": self.bytes,
            "connections reset": self.connections,
        }
        figures = ", ".join(
            f"{count} {unit}" for unit, count in counted.items() if count is not None
        )
        return f"node {self.node_id}, {self.what}: {figures}"


def impairment_of(raw: Mapping[str, Any]) -> Impairment:
    """Return the impairment that `dataclasses.asdict` made a mapping of.

    Raises:
        KeyError, TypeError: it is none.
    """
    kind: type[Impairment] = {"cut": Cut, "shaping": Shaping, "relaying": Relaying}[raw["kind"]]
    return kind(**(dict(raw) | ({"peers": tuple(raw["peers"])} if "peers" in raw else {})))


# ---------- What is done to a network at a time, by name: begun whole or not at all, counted, undone.


class ImpairmentHandle(Protocol):
    """An impairment that is in its place."""

    def begin(self) -> None:
        """Let it act.

        Raises:
            SupervisorError: it cannot; nothing of it is left.
        """

    def counts(self) -> tuple[ImpairmentCounts, ...]:
        """Return what it has met with so far."""

    def end(self) -> tuple[ImpairmentCounts, ...]:
        """Undo it; return what it met with in all."""


class Impairments:
    """Those of a cluster that act now."""

    def __init__(self, place: Callable[[Impairment], ImpairmentHandle]) -> None:
        """Begin with none.

        Args:
            place: makes one ready to begin; raises `SupervisorError` where this network cannot.
        """
        self._place = place
        self._placed: dict[str, tuple[ImpairmentHandle, ...]] = {}

    def begin(self, name: str, impairments: Sequence[Impairment]) -> None:
        """Let all of them act, or, where something is raised, none.

        Raises:
            SupervisorError: one of them cannot, or the name is taken.
        """
        if name in self._placed:
            raise SupervisorError(f"there is an impairment {name} already")
        with contextlib.ExitStack() as undoing:
            placed = tuple(map(self._place, impairments))
            for one in placed:
                one.begin()
                undoing.callback(one.end)
            self._placed[name] = placed
            undoing.pop_all()

    def counts(self, name: str) -> tuple[ImpairmentCounts, ...]:
        """Return what those of a name have met with so far.

        Raises:
            SupervisorError: there are none.
        """
        if name not in self._placed:
            raise SupervisorError(
                f"there is no impairment {name}: there are {sorted(self._placed)}"
            )
        return tuple(counts for one in self._placed[name] for counts in one.counts())

    def names(self) -> tuple[str, ...]:
        """Return the names of those that act now."""
        return tuple(self._placed)

    def heal(self, name: str) -> tuple[ImpairmentCounts, ...]:
        """Undo those of a name, each of them whatever becomes of the others; return what they met with. A second time finds nothing to do."""
        if name not in self._placed:
            return ()
        counts: list[ImpairmentCounts] = []
        with contextlib.ExitStack() as undoing:
            for one in reversed(self._placed[name]):
                undoing.callback(_end, one, counts)
        del self._placed[name]
        return tuple(counts)


class ImpairedNetwork:
    """What networks have in common that can be impaired: it is begun, counted and undone by name."""

    def __init__(self, place: Callable[[Impairment], ImpairmentHandle]) -> None:
        """Begin with nothing impaired; `place` as of `Impairments`."""
        self._impairments = Impairments(place)

    def impair(self, name: str, impairments: Sequence[Impairment]) -> None:
        """Begin to treat the nodes' traffic so.

        Raises:
            Busy: what there can be one of at a time is treated already.
            SupervisorError: there is no such node, this network or the kernel cannot, or the name is taken.
        """
        self._impairments.begin(name, impairments)

    def impairment_counts(self, name: str) -> tuple[ImpairmentCounts, ...]:
        """Return what the kernel or the relays counted so far.

        Raises:
            SupervisorError: there is nothing of that name.
        """
        return self._impairments.counts(name)

    def active_impairments(self) -> tuple[str, ...]:
        """Return the names of what acts now."""
        return self._impairments.names()

    def heal(self, name: str) -> tuple[ImpairmentCounts, ...]:
        """Undo what is of that name; return what was counted in all. A second time finds nothing to do."""
        return self._impairments.heal(name)


def _end(one: ImpairmentHandle, counts: list[ImpairmentCounts]) -> None:
    counts.extend(one.end())
