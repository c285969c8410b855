"""The kernel's rules for a node's packets as nft(8) reads them, and its counters as it tells them. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from infra.errors import SupervisorError
from infra.impairment import Caught, Cut, Shaping

_SHARES: Final = 10_000
"""So finely is a share of packets told."""


def cut_table(table: str, cut: Cut, addresses: Mapping[int, str], client_port: int) -> str:
    """Return the script that makes a table which drops a node's packets, and counts them."""
    by_chance = "" if cut.share >= 1 else f"numgen random mod {_SHARES} < {round(cut.share * _SHARES)} "
    drop = f"{by_chance}counter drop"
    incoming = [f"{match} {drop}" for match in _matches(cut, addresses, client_port, "saddr", "dport")] if cut.incoming else []
    outgoing = [f"{match} {drop}" for match in _matches(cut, addresses, client_port, "daddr", "sport")] if cut.outgoing else []
    return _table(table, [("incoming", "input", incoming), ("outgoing", "output", outgoing)])


def shaping_table(table: str, shaping: Shaping, class_id: str, addresses: Mapping[int, str], client_port: int) -> str:
    """Return the script that makes a table which puts what a node sends to its peers and clients into a class of its queue (tc-htb(8))."""
    matches = _matches(Cut(shaping.node_id, shaping.peers, clients=True), addresses, client_port, "daddr", "sport")
    return _table(table, [("outgoing", "output", [f"{match} meta priority set {class_id} counter" for match in matches])])


def read_counters(node_id: int, told: str) -> tuple[Caught, ...]:
    """Return what `nft -j list table` counts, chain by chain.

    Raises:
        SupervisorError: that is not such a list.
    """
    try:
        rules = [entry["rule"] for entry in json.loads(told)["nftables"] if "rule" in entry]
        counted = [(rule["chain"], expression["counter"]) for rule in rules for expression in rule["expr"] if "counter" in expression]
        return tuple(_sum(node_id, chain, [counter for of, counter in counted if of == chain]) for chain in dict.fromkeys(of for of, _ in counted))
    except (ValueError, KeyError, TypeError) as error:
        raise SupervisorError(f"nft told no list of rules: {told[:200]!r}") from error


def _sum(node_id: int, chain: str, counters: Sequence[Mapping[str, int]]) -> Caught:
    packets, size_bytes = sum(counter["packets"] for counter in counters), sum(counter["bytes"] for counter in counters)
    return Caught(node_id, f"{chain} packets dropped", packets, size_bytes)


def _matches(cut: Cut, addresses: Mapping[int, str], client_port: int, address: str, port: str) -> Iterator[str]:
    if cut.peers:
        yield f"ip {address} {{ {', '.join(addresses[peer] for peer in cut.peers)} }}"
    if cut.clients:
        yield f"tcp {port} {client_port}"


def _table(table: str, chains: Sequence[tuple[str, str, Sequence[str]]]) -> str:
    bodies = (
        f"  chain {name} {{\n    type filter hook {hook} priority 0; policy accept;\n" + "".join(f"    {rule}\n" for rule in rules) + "  }\n"
        for name, hook, rules in chains
        if rules
    )
    return f"table inet {table} {{\n{''.join(bodies)}}}\n"
