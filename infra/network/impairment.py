"""Impairments of nodes' traffic, their counts, and what networks that can be impaired share.

"Impairment" is the term of netem (tc-netem(8)) for what a network does to packets. Namespaces drop
and shape packets in the kernel; relays act on the bytes of client connections.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self

from ackbench.infra.errors import SupervisorError
from ackbench.infra.kafka.frames import TransactionalApi
from ackbench.infra.network.rule_actions import RequestRule
from ackbench.infra.network.treatment import Direction, RelayTreatment


@dataclass(frozen=True)
class PacketDrop:
    """The kernel drops packets at a node."""

    node_id: int
    peers: tuple[int, ...] = ()
    """Drop packets from and to these nodes."""
    clients: bool = False
    """Drop packets of the client listener."""
    incoming: bool = True
    outgoing: bool = True
    share: float = 1.0
    """The probability that a packet is dropped."""
    kind: Literal["cut"] = "cut"

    def __str__(self) -> str:
        """Return it as evidence: `node 2 drops incoming and outgoing packets of nodes 1, 3`."""
        share = "" if self.share >= 1 else f"{100 * self.share:g} % of the "
        chosen = {"incoming": self.incoming, "outgoing": self.outgoing}
        directions = " and ".join(name for name, is_chosen in chosen.items() if is_chosen)
        parties = _parties(self.peers, clients=self.clients)
        return f"node {self.node_id} drops {share}{directions} packets of {parties}"


@dataclass(frozen=True)
class TrafficShaping:
    """The kernel delays what a node sends to its peers and clients, or limits its rate."""

    node_id: int
    peers: tuple[int, ...]
    rate_kbit_per_s: int | None = None
    """`None`: not limited."""
    delay_ms: float = 0
    jitter_ms: float = 0
    kind: Literal["shaping"] = "shaping"

    def __str__(self) -> str:
        """Return it as evidence: `node 2 sends to node 1 and clients at 500 kbit/s at most`."""
        how = []
        if self.rate_kbit_per_s is not None:
            how.append(f"at {self.rate_kbit_per_s} kbit/s at most")
        if self.delay_ms:
            how.append(f"{self.delay_ms:g} ms late (jitter {self.jitter_ms:g} ms)")
        parties = _parties(self.peers, clients=True)
        return f"node {self.node_id} sends to {parties} {' and '.join(how)}"


@dataclass(frozen=True)
class RelayAction:
    """A relay holds, drops or resets the connections to a node's client listener."""

    node_id: int
    direction: Direction
    treatment: RelayTreatment
    kind: Literal["relaying"] = "relaying"

    def __str__(self) -> str:
        """Return it as evidence: `the relay of node 2 holds requests`."""
        actions = {"hold": "holds", "drop": "drops", "reset": "resets connections with"}
        return f"the relay of node {self.node_id} {actions[self.treatment]} {self.direction}"


@dataclass(frozen=True)
class RequestHold:
    """The relays hold one request of a transactional producer, and deliver it late.

    Whichever node receives the first such request, its relay holds it, and what follows it on the
    same connection. The request is delivered when the producer's next transaction has a stored
    record, at the latest when the impairment is removed. It outlives its client's connection.
    """

    request: TransactionalApi
    transactional_id: str
    """Of the producer whose request is held."""
    kind: Literal["request-hold"] = "request-hold"

    def __str__(self) -> str:
        """Return it as evidence: `the relays hold one EndTxn of t-0`."""
        return f"the relays hold one {self.request} of {self.transactional_id}"


NodeImpairment = PacketDrop | TrafficShaping | RelayAction
"""An impairment of one node's traffic."""
Impairment = NodeImpairment | RequestHold | RequestRule


def decode_impairment(raw: Mapping[str, Any]) -> Impairment:
    """Return the impairment from a mapping made by `dataclasses.asdict`.

    Raises:
        KeyError, TypeError: the mapping is not an impairment.
    """
    types: dict[str, type[Impairment]] = {
        "cut": PacketDrop,
        "shaping": TrafficShaping,
        "relaying": RelayAction,
        "request-hold": RequestHold,
        "request-rule": RequestRule,
    }
    fields = dict(raw)
    if "peers" in fields:
        fields["peers"] = tuple(fields["peers"])
    return types[fields["kind"]](**fields)


@dataclass(frozen=True)
class HeldRequest:
    """A request that a relay held, and what became of it."""

    node_id: int
    """The node that it was sent to."""
    request: str
    """Its name in Kafka's protocol: `EndTxn`."""
    version: int
    """Its version, which the client chose."""
    held_ns: int
    """When it arrived, by the monotonic clock."""
    released_ns: int | None = None
    """When it was delivered to the node; `None`: not yet, or the node had closed the connection."""
    in_next_transaction: bool = False
    """Whether the producer's next transaction had a stored record when it was delivered."""
    error_code: int | None = None
    """What the node answered, 0 for no error; `None`: nothing, as far as the relay saw."""

    def __str__(self) -> str:
        """Return it as evidence: `EndTxn v1 to node 2, held for 1.52 s, answered with error 0`."""
        sent = f"{self.request} v{self.version} to node {self.node_id}"
        if self.released_ns is None:
            return f"{sent}, not delivered"
        when = "in the next transaction" if self.in_next_transaction else "at the time limit"
        lasted_s = (self.released_ns - self.held_ns) / 1e9
        answer = "unanswered"
        if self.error_code is not None:
            answer = f"answered with error {self.error_code}"
        return f"{sent}, held for {lasted_s:.2f} s, delivered {when}, {answer}"


@dataclass(frozen=True)
class MetRequest:
    """A request that a rule acted on, or the response to it."""

    node_id: int
    """The node that it was sent to."""
    api: str
    version: int
    """Its version, which the client chose."""
    correlation_id: int
    client_id: str
    at_ns: int
    """When the rule acted, by the monotonic clock."""
    next_id: int | None = None
    """The correlation id of the next request of this API and client; `None`: none followed yet."""
    next_ns: int = 0
    """When it arrived."""

    def __str__(self) -> str:
        """Return it as evidence: `Produce v10 (correlation id 7) of rdkafka to node 2`."""
        followed = ""
        if self.next_id is not None:
            after_ms = (self.next_ns - self.at_ns) / 1e6
            followed = f", followed by correlation id {self.next_id} after {after_ms:.0f} ms"
        return (
            f"{self.api} v{self.version} (correlation id {self.correlation_id}) of "
            f"{self.client_id or 'a client without id'} to node {self.node_id}{followed}"
        )


@dataclass(frozen=True)
class ImpairmentCounts:
    """The traffic that an impairment affected, as counted by the kernel or the relay.

    `None`: not counted there.
    """

    node_id: int
    what: str
    """What is counted: `incoming packets dropped`, `packets in the slow queue`, ..."""
    packets: int | None = None
    bytes: int | None = None
    connections: int | None = None
    """Connections that were reset."""
    request: HeldRequest | None = None
    """The one request that was held, if the impairment is a `RequestHold`."""
    requests: int | None = None
    """Requests that a `RequestRule` acted on, or responses to them."""
    met: tuple[MetRequest, ...] = ()
    """The first of them."""
    ended: str = ""
    """The event that ended the rule, as the relays saw it, as a sentence; empty: none did yet."""
    not_acted_on: tuple[str, ...] = ()
    """Why others met the rule and were forwarded as they are, with their number."""

    @classmethod
    def from_mapping(cls, raw: Mapping[str, Any]) -> Self:
        """Return the counts from a mapping made by `dataclasses.asdict`.

        Raises:
            TypeError: the mapping has other fields.
        """
        request = raw.get("request")
        met = tuple(MetRequest(**one) for one in raw.get("met", ()))
        held = HeldRequest(**request) if request else None
        reasons = tuple(raw.get("not_acted_on", ()))
        return cls(**{**raw, "request": held, "met": met, "not_acted_on": reasons})

    @property
    def any_traffic(self) -> bool:
        """Whether the impairment affected any traffic."""
        return bool(self.packets or self.bytes or self.connections or self.request or self.requests)

    def __str__(self) -> str:
        """Return the counts as evidence: `node 1, requests held: 7 bytes, 0 connections reset`."""
        if self.request is not None:
            return str(self.request)
        counts = {
            "packets": self.packets,
            "bytes": self.bytes,
            "connections reset": self.connections,
        }
        if self.requests is not None:
            first = "; ".join(map(str, self.met))
            others = f"; not acted on: {', '.join(self.not_acted_on)}" if self.not_acted_on else ""
            return f"{self.requests} {self.what}{f': {first}' if first else ''}{others}"
        figures = ", ".join(
            f"{count} {unit}" for unit, count in counts.items() if count is not None
        )
        return f"node {self.node_id}, {self.what}: {figures}"


class ImpairmentMechanism(Protocol):
    """How a network carries out one impairment."""

    def apply(self) -> None:
        """Apply the impairment.

        Raises:
            SupervisorError: it could not be applied; nothing of it is left.
        """

    def counts(self) -> tuple[ImpairmentCounts, ...]:
        """Return the traffic that it has affected so far."""

    def remove(self) -> tuple[ImpairmentCounts, ...]:
        """Remove the impairment and return its final counts."""


class ImpairableNetwork:
    """Base of networks whose traffic can be impaired: applies and removes impairments by name."""

    def __init__(self, create: Callable[[Impairment], ImpairmentMechanism]) -> None:
        """Begin without impairments.

        Args:
            create: returns the mechanism for an impairment, not yet applied. It raises
                `SupervisorError` if this network does not support the impairment.
        """
        self._create = create
        self._active: dict[str, tuple[ImpairmentMechanism, ...]] = {}

    def impair(self, name: str, impairments: Sequence[Impairment]) -> None:
        """Apply impairments under a name: all of them, or none if an error is raised.

        Raises:
            ImpairmentConflict: another impairment acts on the same traffic, and only one can.
            SupervisorError: the network does not support one of them, a node does not exist, or
                the name is taken.
        """
        if name in self._active:
            raise SupervisorError(f"there already is an impairment {name}")
        with contextlib.ExitStack() as rollback:
            mechanisms = tuple(map(self._create, impairments))
            for mechanism in mechanisms:
                mechanism.apply()
                rollback.callback(mechanism.remove)
            self._active[name] = mechanisms
            rollback.pop_all()

    def impairment_counts(self, name: str) -> tuple[ImpairmentCounts, ...]:
        """Return the traffic that the impairments of this name have affected so far.

        Raises:
            SupervisorError: no impairment has this name.
        """
        if name not in self._active:
            raise SupervisorError(
                f"there is no impairment {name}: active are {sorted(self._active)}"
            )
        return tuple(counts for mechanism in self._active[name] for counts in mechanism.counts())

    def active_impairments(self) -> tuple[str, ...]:
        """Return the names of the active impairments."""
        return tuple(self._active)

    def heal(self, name: str) -> tuple[ImpairmentCounts, ...]:
        """Remove the impairments of this name and return their final counts.

        An error in one of them does not keep the others from being removed; the name then stays
        active. If there are none of this name, do nothing.
        """
        counts: list[ImpairmentCounts] = []

        def remove(mechanism: ImpairmentMechanism) -> None:
            counts.extend(mechanism.remove())

        with contextlib.ExitStack() as removals:
            for mechanism in reversed(self._active.get(name, ())):
                removals.callback(remove, mechanism)
        self._active.pop(name, None)
        return tuple(counts)


def _parties(peers: Sequence[int], *, clients: bool) -> str:
    parties = []
    if peers:
        noun = "node" if len(peers) == 1 else "nodes"
        parties.append(f"{noun} {', '.join(map(str, peers))}")
    if clients:
        parties.append("clients")
    return " and ".join(parties)
