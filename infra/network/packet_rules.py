"""Kernel rules that drop (nftables) or shape (tc) a node's packets in its network namespace.

Each impairment has its own nftables table, which is added and deleted as a unit, and counts the
packets that match. Shaping also has its own class of the interface's queue (tc-htb(8)). Packets
that match no rule are sent at once, so the harness's view of the node is not affected.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ackbench.infra.errors import SupervisorError
from ackbench.infra.network.bridge import INTERFACE, Namespace
from ackbench.infra.network.impairment import ImpairmentCounts, PacketDrop, TrafficShaping

_SHARE_RESOLUTION: Final = 10_000
"""A share of packets is rounded to 1/10000."""
_UNLIMITED_KBIT_PER_S: Final = 40_000_000
_QUEUE_S: Final = 0.25
"""How much data a rate limit queues, in seconds at that rate. More is dropped, as in a router."""
_MIN_QUEUE_BYTES: Final = 131_072
"""Two of the largest segments that the kernel hands to an interface at once."""
_NFT_SCRIPT: Final = ("nft", "-f", "-")
_HTB_CLASS: Final = re.compile(
    r"class htb (?P<id>\S+) .*?Sent (?P<bytes>\d+) bytes (?P<packets>\d+) pkt "
    r"\(dropped \d+, overlimits (?P<delayed>\d+) ",
    re.DOTALL,
)


@dataclass(frozen=True)
class RulePlacement:
    """Where the rules of an impairment are placed, and what they need to know of the cluster."""

    namespace: Namespace
    number: int
    """Unique among the impairments of the cluster."""
    addresses: Mapping[int, str]
    """Of all nodes, by node id."""
    client_port: int

    @property
    def table(self) -> str:
        """The impairment's nftables table."""
        return f"ackbench_{self.number}"

    @property
    def class_id(self) -> str:
        """The impairment's class of the interface's queue."""
        return f"1:{self.number:x}"

    def add_table(self, script: str) -> None:
        """Add the nftables table."""
        self.namespace.run(_NFT_SCRIPT, script)

    def delete_table(self) -> None:
        """Delete the nftables table."""
        self.namespace.run(("nft", "delete", "table", "inet", self.table))


def drop_rules(table: str, drop: PacketDrop, addresses: Mapping[int, str], client_port: int) -> str:
    """Return the nft script of a table that counts and drops packets."""
    share = f"numgen random mod {_SHARE_RESOLUTION} < {round(drop.share * _SHARE_RESOLUTION)} "
    action = f"{share if drop.share < 1 else ''}counter drop"
    peers = [addresses[peer] for peer in drop.peers]
    port = client_port if drop.clients else None
    incoming = _matches("saddr", peers, "dport", port) if drop.incoming else []
    outgoing = _matches("daddr", peers, "sport", port) if drop.outgoing else []
    return _table(
        table,
        [
            ("incoming", "input", [f"{match} {action}" for match in incoming]),
            ("outgoing", "output", [f"{match} {action}" for match in outgoing]),
        ],
    )


def shaping_rules(
    table: str,
    shaping: TrafficShaping,
    class_id: str,
    addresses: Mapping[int, str],
    client_port: int,
) -> str:
    """Return the nft script of a table that puts packets to peers and clients into a class."""
    matches = _matches("daddr", [addresses[peer] for peer in shaping.peers], "sport", client_port)
    rules = [f"{match} meta priority set {class_id} counter" for match in matches]
    return _table(table, [("outgoing", "output", rules)])


def parse_counters(node_id: int, output: str) -> tuple[ImpairmentCounts, ...]:
    """Return the counters in the output of `nft -j list table`, summed by chain.

    Raises:
        SupervisorError: the output is not a list of rules.
    """
    try:
        rules = [entry["rule"] for entry in json.loads(output)["nftables"] if "rule" in entry]
        packets: dict[str, int] = {}
        sizes_bytes: dict[str, int] = {}
        for rule in rules:
            for expression in rule["expr"]:
                if "counter" in expression:
                    chain, counter = rule["chain"], expression["counter"]
                    packets[chain] = packets.get(chain, 0) + counter["packets"]
                    sizes_bytes[chain] = sizes_bytes.get(chain, 0) + counter["bytes"]
    except (ValueError, KeyError, TypeError) as error:
        raise SupervisorError(f"nft returned no list of rules: {output[:200]!r}") from error
    return tuple(
        ImpairmentCounts(node_id, f"{chain} packets dropped", packets[chain], sizes_bytes[chain])
        for chain in packets
    )


@dataclass(frozen=True)
class NftablesDrop:
    """Implements `ImpairmentMechanism` for `PacketDrop`."""

    drop: PacketDrop
    placement: RulePlacement

    def apply(self) -> None:
        """Add the rules."""
        at = self.placement
        at.add_table(drop_rules(at.table, self.drop, at.addresses, at.client_port))

    def counts(self) -> tuple[ImpairmentCounts, ...]:
        """Return the packets dropped in each direction."""
        listing = ("nft", "-j", "list", "table", "inet", self.placement.table)
        return parse_counters(self.drop.node_id, self.placement.namespace.run(listing))

    def remove(self) -> tuple[ImpairmentCounts, ...]:
        """Delete the rules, even if the counters cannot be read."""
        with contextlib.ExitStack() as removal:
            removal.callback(self.placement.delete_table)
            return self.counts()


@dataclass(frozen=True)
class HtbShaping:
    """Implements `ImpairmentMechanism` for `TrafficShaping`."""

    shaping: TrafficShaping
    placement: RulePlacement

    def apply(self) -> None:
        """Add the queue, then the rules that put packets into it."""
        at = self.placement
        with contextlib.ExitStack() as rollback:
            at.namespace.run(("tc", "-batch", "-"), self._queue_commands())
            rollback.callback(self._remove_queue)
            at.add_table(
                shaping_rules(at.table, self.shaping, at.class_id, at.addresses, at.client_port)
            )
            rollback.pop_all()

    def counts(self) -> tuple[ImpairmentCounts, ...]:
        """Return the packets sent through the queue; with a rate limit, those that it delayed."""
        statistics = self._class_statistics()
        if self.shaping.rate_kbit_per_s is None:
            what, packets = "packets in the slow queue", int(statistics["packets"])
            size_bytes = int(statistics["bytes"])
            return (ImpairmentCounts(self.shaping.node_id, what, packets, size_bytes),)
        what, packets = "packets that waited for the limit", int(statistics["delayed"])
        return (ImpairmentCounts(self.shaping.node_id, what, packets),)

    def remove(self) -> tuple[ImpairmentCounts, ...]:
        """Delete the rules and the queue, even if the statistics cannot be read."""
        with contextlib.ExitStack() as removal:
            removal.callback(self._remove_queue)
            removal.callback(self.placement.delete_table)
            return self.counts()

    def _class_statistics(self) -> Mapping[str, str]:
        class_id = self.placement.class_id
        output = self.placement.namespace.run(("tc", "-s", "class", "show", "dev", INTERFACE))
        for match in _HTB_CLASS.finditer(output):
            if match["id"] == class_id:
                return match.groupdict()
        raise SupervisorError(f"tc shows no class {class_id}: {output[:200]!r}")

    def _queue_commands(self) -> str:
        """Return tc(8) commands: the root queue if it does not exist, the class and its queue."""
        rate, class_id = self.shaping.rate_kbit_per_s, self.placement.class_id
        root = f"qdisc add dev {INTERFACE} root handle 1: htb default 0\n"
        htb_class = (
            f"class add dev {INTERFACE} parent 1: classid {class_id} "
            f"htb rate {rate or _UNLIMITED_KBIT_PER_S}kbit quantum 65536\n"
        )
        if rate:
            queue = f"bfifo limit {max(_MIN_QUEUE_BYTES, round(rate * 125 * _QUEUE_S))}"
        else:
            delay, jitter = self.shaping.delay_ms, self.shaping.jitter_ms
            queue = f"netem delay {delay:g}ms {jitter:g}ms limit 100000"
        leaf = f"qdisc add dev {INTERFACE} parent {class_id} {queue}\n"
        queues = self.placement.namespace.run(("tc", "qdisc", "show", "dev", INTERFACE))
        return f"{'' if 'qdisc htb 1:' in queues else root}{htb_class}{leaf}"

    def _remove_queue(self) -> None:
        """Remove the class, and the root queue with its last class."""
        run, device = self.placement.namespace.run, ("dev", INTERFACE)
        run(("tc", "class", "delete", *device, "classid", self.placement.class_id))
        if "class htb" not in run(("tc", "class", "show", *device)):
            run(("tc", "qdisc", "delete", *device, "root"))


def _matches(
    address_field: str, addresses: Sequence[str], port_field: str, port: int | None
) -> list[str]:
    """Return nft expressions that match packets of these addresses, or of this port."""
    matches = []
    if addresses:
        matches.append(f"ip {address_field} {{ {', '.join(addresses)} }}")
    if port is not None:
        matches.append(f"tcp {port_field} {port}")
    return matches


def _table(table: str, chains: Sequence[tuple[str, str, Sequence[str]]]) -> str:
    """Return the nft script of a table from each chain's name, hook and rules."""
    bodies = (
        f"  chain {name} {{\n    type filter hook {hook} priority 0; policy accept;\n"
        + "".join(f"    {rule}\n" for rule in rules)
        + "  }\n"
        for name, hook, rules in chains
        if rules
    )
    return f"table inet {table} {{\n{''.join(bodies)}}}\n"
