"""Each node in a network namespace of its own, with its own address: what goes in and out can be cut, node by node. Needs root."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from infra.errors import SupervisorError
from infra.kafka.kraft import ListenAddress
from infra.network.impairment import (
    Cut,
    ImpairedNetwork,
    Impairment,
    ImpairmentCounts,
    ImpairmentHandle,
    Shaping,
)
from infra.network.switch import INTERFACE, Namespace, Switch

# ---------- The kernel's rules for a node's packets as nft(8) reads them, and its counters as it tells them. Pure.


_SHARES: Final = 10_000
"""So finely is a share of packets told."""


def cut_table(table: str, cut: Cut, addresses: Mapping[int, str], client_port: int) -> str:
    """Return the script that makes a table which drops a node's packets, and counts them."""
    by_chance = (
        "" if cut.share >= 1 else f"numgen random mod {_SHARES} < {round(cut.share * _SHARES)} "
    )
    drop = f"{by_chance}counter drop"
    incoming = (
        [f"{match} {drop}" for match in _matches(cut, addresses, client_port, "saddr", "dport")]
        if cut.incoming
        else []
    )
    outgoing = (
        [f"{match} {drop}" for match in _matches(cut, addresses, client_port, "daddr", "sport")]
        if cut.outgoing
        else []
    )
    return _table(table, [("incoming", "input", incoming), ("outgoing", "output", outgoing)])


def shaping_table(
    table: str, shaping: Shaping, class_id: str, addresses: Mapping[int, str], client_port: int
) -> str:
    """Return the script that makes a table which puts what a node sends to its peers and clients into a class of its queue (tc-htb(8))."""
    matches = _matches(
        Cut(shaping.node_id, shaping.peers, clients=True), addresses, client_port, "daddr", "sport"
    )
    return _table(
        table,
        [
            (
                "outgoing",
                "output",
                [f"{match} meta priority set {class_id} counter" for match in matches],
            )
        ],
    )


def read_counters(node_id: int, told: str) -> tuple[ImpairmentCounts, ...]:
    """Return what `nft -j list table` counts, chain by chain.

    Raises:
        SupervisorError: that is not such a list.
    """
    try:
        rules = [entry["rule"] for entry in json.loads(told)["nftables"] if "rule" in entry]
        counted = [
            (rule["chain"], expression["counter"])
            for rule in rules
            for expression in rule["expr"]
            if "counter" in expression
        ]
        return tuple(
            _sum(node_id, chain, [counter for of, counter in counted if of == chain])
            for chain in dict.fromkeys(of for of, _ in counted)
        )
    except (ValueError, KeyError, TypeError) as error:
        raise SupervisorError(f"nft told no list of rules: {told[:200]!r}") from error


def _sum(node_id: int, chain: str, counters: Sequence[Mapping[str, int]]) -> ImpairmentCounts:
    packets, size_bytes = (
        sum(counter["packets"] for counter in counters),
        sum(counter["bytes"] for counter in counters),
    )
    return ImpairmentCounts(node_id, f"{chain} packets dropped", packets, size_bytes)


def _matches(
    cut: Cut, addresses: Mapping[int, str], client_port: int, address: str, port: str
) -> Iterator[str]:
    if cut.peers:
        yield f"ip {address} {{ {', '.join(addresses[peer] for peer in cut.peers)} }}"
    if cut.clients:
        yield f"tcp {port} {client_port}"


def _table(table: str, chains: Sequence[tuple[str, str, Sequence[str]]]) -> str:
    bodies = (
        f"  chain {name} {{\n    type filter hook {hook} priority 0; policy accept;\n"
        + "".join(f"    {rule}\n" for rule in rules)
        + "  }\n"
        for name, hook, rules in chains
        if rules
    )
    return f"table inet {table} {{\n{''.join(bodies)}}}\n"


# ---------- Impairments that the kernel carries out in a node's own namespace: packets dropped (nftables), sent late or slowly (tc).


_UNLIMITED_KBIT_PER_S: Final = 40_000_000
_QUEUE_S: Final = 0.25
"""So much of what is sent waits at a limited rate; what comes on top is dropped, as a router does."""
_LEAST_QUEUE_BYTES: Final = 131_072
"""Two of the largest segments that the kernel hands to an interface at once."""
_CLASS: Final = re.compile(
    r"class htb (?P<id>\S+) .*?Sent (?P<bytes>\d+) bytes (?P<packets>\d+) pkt \(dropped \d+, overlimits (?P<waited>\d+) ",
    re.DOTALL,
)


@dataclass(frozen=True)
class NodeInterface:
    """Where an impairment is placed: a node's namespace, and a number that no other one there has."""

    namespace: Namespace
    number: int
    addresses: Mapping[int, str]
    """Of all nodes."""
    client_port: int

    @property
    def table(self) -> str:
        """Its table of rules."""
        return f"ackbench_{self.number}"

    @property
    def class_id(self) -> str:
        """Its class of the interface's queue."""
        return f"1:{self.number:x}"


@dataclass(frozen=True)
class PacketDropRules:
    """Implements `infra.network.impairment.ImpairmentHandle`: one table, made and removed by one command each."""

    cut: Cut
    spot: NodeInterface

    def begin(self) -> None:
        """Drop."""
        self.spot.namespace.run(
            ("nft", "-f", "-"),
            cut_table(self.spot.table, self.cut, self.spot.addresses, self.spot.client_port),
        )

    def counts(self) -> tuple[ImpairmentCounts, ...]:
        """Return what was dropped each way."""
        told = self.spot.namespace.run(("nft", "-j", "list", "table", "inet", self.spot.table))
        return read_counters(self.cut.node_id, told)

    def end(self) -> tuple[ImpairmentCounts, ...]:
        """Drop nothing more."""
        with contextlib.ExitStack() as undoing:
            undoing.callback(
                self.spot.namespace.run, ("nft", "delete", "table", "inet", self.spot.table)
            )
            return self.counts()


@dataclass(frozen=True)
class ShapingRules:
    """Implements `infra.network.impairment.ImpairmentHandle`: a class of the interface's queue, and a table that sends packets into it.

    What is in no class goes out at once (tc-htb(8), `default 0`): the harness sees the node as ever.
    """

    shaping: Shaping
    spot: NodeInterface

    def begin(self) -> None:
        """Slow down."""
        with contextlib.ExitStack() as undoing:
            self.spot.namespace.run(("tc", "-batch", "-"), self._queue())
            undoing.callback(self._remove_queue)
            self.spot.namespace.run(
                ("nft", "-f", "-"),
                shaping_table(
                    self.spot.table,
                    self.shaping,
                    self.spot.class_id,
                    self.spot.addresses,
                    self.spot.client_port,
                ),
            )
            undoing.pop_all()

    def counts(self) -> tuple[ImpairmentCounts, ...]:
        """Return how many packets passed, and, at a limited rate, how many had to wait for it."""
        counted = self._counted()
        sent = ImpairmentCounts(
            self.shaping.node_id,
            "packets in the slow queue",
            int(counted["packets"]),
            int(counted["bytes"]),
        )
        if self.shaping.rate_kbit_per_s is None:
            return (sent,)
        return (
            ImpairmentCounts(
                self.shaping.node_id,
                "packets that waited for the limit",
                packets=int(counted["waited"]),
            ),
        )

    def end(self) -> tuple[ImpairmentCounts, ...]:
        """Let everything go out at once."""
        with contextlib.ExitStack() as undoing:
            undoing.callback(self._remove_queue)
            undoing.callback(
                self.spot.namespace.run, ("nft", "delete", "table", "inet", self.spot.table)
            )
            return self.counts()

    def _counted(self) -> Mapping[str, str]:
        told = self.spot.namespace.run(("tc", "-s", "class", "show", "dev", INTERFACE))
        found = next(
            (
                found.groupdict()
                for found in _CLASS.finditer(told)
                if found["id"] == self.spot.class_id
            ),
            None,
        )
        if found is None:
            raise SupervisorError(f"tc tells of no class {self.spot.class_id}: {told[:200]!r}")
        return found

    def _queue(self) -> str:
        rate = self.shaping.rate_kbit_per_s
        queue_bytes = max(_LEAST_QUEUE_BYTES, round((rate or 0) * 125 * _QUEUE_S))
        leaf = (
            f"bfifo limit {queue_bytes}"
            if rate
            else f"netem delay {self.shaping.delay_ms:g}ms {self.shaping.jitter_ms:g}ms limit 100000"
        )
        root = (
            "" if self._has_root() else f"qdisc add dev {INTERFACE} root handle 1: htb default 0\n"
        )
        limit = f"class add dev {INTERFACE} parent 1: classid {self.spot.class_id} htb rate {rate or _UNLIMITED_KBIT_PER_S}kbit quantum 65536\n"
        return f"{root}{limit}qdisc add dev {INTERFACE} parent {self.spot.class_id} {leaf}\n"

    def _has_root(self) -> bool:
        return "qdisc htb 1:" in self.spot.namespace.run(("tc", "qdisc", "show", "dev", INTERFACE))

    def _remove_queue(self) -> None:
        """Remove the class, and with the last class the root."""
        self.spot.namespace.run(
            ("tc", "class", "delete", "dev", INTERFACE, "classid", self.spot.class_id)
        )
        if "class htb" not in self.spot.namespace.run(("tc", "class", "show", "dev", INTERFACE)):
            self.spot.namespace.run(("tc", "qdisc", "delete", "dev", INTERFACE, "root"))


_FIRST_PORT: Final = 9092
"""A node has its address to itself, so all have the same ports: Kafka's usual one, and those behind it."""


class NamespacedNetwork(ImpairedNetwork):
    """Implements `infra.network.loopback.Network`."""

    def __init__(self, nodes: int, listeners: int, cluster_id: str) -> None:
        """Make the namespaces and what joins them.

        Raises:
            MachineError: the kernel refuses, or no subnet is free.
        """
        self._switch, self._listeners = Switch(nodes, cluster_id), listeners
        self._addresses = {
            number + 1: self._switch.subnet.of_node(number) for number in range(nodes)
        }
        self._numbers = itertools.count(1)
        super().__init__(self._placed)

    def places(self) -> tuple[ListenAddress, ...]:
        """Where each node is to listen, by its number from 0."""
        ports = tuple(range(_FIRST_PORT, _FIRST_PORT + self._listeners))
        return tuple(ListenAddress(address, ports) for address in self._addresses.values())

    def command(self, number: int, command: Sequence[str]) -> tuple[str, ...]:
        """Return the command that becomes the node's program in its namespace."""
        return self._switch.nodes[number].inside(command)

    async def open(self) -> None:
        """The kernel carries it all."""

    def end(self) -> None:
        """Remove the namespaces, and with them every rule."""
        self._switch.end()

    def _placed(self, impairment: Impairment) -> ImpairmentHandle:
        strangers = {impairment.node_id, *getattr(impairment, "peers", ())} - self._addresses.keys()
        if strangers:
            raise SupervisorError(
                f"there is no node {min(strangers)}: there are {sorted(self._addresses)}"
            )
        spot = NodeInterface(
            self._switch.nodes[impairment.node_id - 1],
            next(self._numbers),
            self._addresses,
            _FIRST_PORT,
        )
        match impairment:
            case Cut():
                return PacketDropRules(impairment, spot)
            case Shaping():
                return ShapingRules(impairment, spot)
        raise SupervisorError(f"there are no relays in namespaces, {impairment} needs one")


# ---------- Whether this machine's kernel can do what faults of the network need: tried for real, in a namespace that is thrown away.


_CABLE: Final = "ip link add tried type veth peer name other; ip link set tried up; ip link add bridge type bridge; "
_RULE: Final = "tcp sport 1 numgen random mod 2 < 1 meta priority set 1:1 counter drop"
_TABLE: Final = (
    f"table inet tried {{ chain output {{ type filter hook output priority 0; {_RULE}; }}; }}"
)
RULES: Final = f"{_CABLE} nft '{_TABLE}'"
"""Dropping packets, all or some, and counting them."""
RATE: Final = f"{_CABLE} tc qdisc add dev tried root handle 1: htb default 0; tc class add dev tried parent 1: classid 1:1 htb rate 1mbit quantum 65536"
"""Sending no faster than a rate."""
DELAY: Final = f"{_CABLE} tc qdisc add dev tried root netem delay 1ms"
"""Sending late."""
_TIMEOUT_S: Final = 20.0


def refused(commands: str) -> str | None:
    """Return in what words the kernel refuses to do it, on one line; `None`: it can."""
    try:
        ran = subprocess.run(
            ["unshare", "--net", "sh", "-ec", commands],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"a trial was not done after {_TIMEOUT_S:g} s"
    if ran.returncode == 0:
        return None
    return next(
        (line.strip() for line in (ran.stderr + ran.stdout).splitlines() if line.strip()),
        f"a trial ended with status {ran.returncode}",
    )
