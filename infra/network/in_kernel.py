"""Impairments that the kernel carries out in a node's own namespace: packets dropped (nftables), sent late or slowly (tc)."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from infra.errors import SupervisorError
from infra.impairment import Caught, Cut, Shaping
from infra.network.namespace import Namespace
from infra.network.rules import cut_table, read_counters, shaping_table
from infra.network.switch import INTERFACE

_UNLIMITED_KBIT_PER_S: Final = 40_000_000
_QUEUE_S: Final = 0.25
"""So much of what is sent waits at a limited rate; what comes on top is dropped, as a router does."""
_LEAST_QUEUE_BYTES: Final = 131_072
"""Two of the largest segments that the kernel hands to an interface at once."""
_CLASS: Final = re.compile(r"class htb (?P<id>\S+) .*?Sent (?P<bytes>\d+) bytes (?P<packets>\d+) pkt \(dropped \d+, overlimits (?P<waited>\d+) ", re.DOTALL)


@dataclass(frozen=True)
class Spot:
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
class PlacedCut:
    """Implements `infra.network.placing.Placed`: one table, made and removed by one command each."""

    cut: Cut
    spot: Spot

    def begin(self) -> None:
        """Drop."""
        self.spot.namespace.run(("nft", "-f", "-"), cut_table(self.spot.table, self.cut, self.spot.addresses, self.spot.client_port))

    def caught(self) -> tuple[Caught, ...]:
        """Return what was dropped each way."""
        told = self.spot.namespace.run(("nft", "-j", "list", "table", "inet", self.spot.table))
        return read_counters(self.cut.node_id, told)

    def end(self) -> tuple[Caught, ...]:
        """Drop nothing more."""
        with contextlib.ExitStack() as undoing:
            undoing.callback(self.spot.namespace.run, ("nft", "delete", "table", "inet", self.spot.table))
            return self.caught()


@dataclass(frozen=True)
class PlacedShaping:
    """Implements `infra.network.placing.Placed`: a class of the interface's queue, and a table that sends packets into it.

    What is in no class goes out at once (tc-htb(8), `default 0`): the harness sees the node as ever.
    """

    shaping: Shaping
    spot: Spot

    def begin(self) -> None:
        """Slow down."""
        with contextlib.ExitStack() as undoing:
            self.spot.namespace.run(("tc", "-batch", "-"), self._queue())
            undoing.callback(self._remove_queue)
            self.spot.namespace.run(
                ("nft", "-f", "-"), shaping_table(self.spot.table, self.shaping, self.spot.class_id, self.spot.addresses, self.spot.client_port)
            )
            undoing.pop_all()

    def caught(self) -> tuple[Caught, ...]:
        """Return how many packets passed, and, at a limited rate, how many had to wait for it."""
        counted = self._counted()
        sent = Caught(self.shaping.node_id, "packets in the slow queue", int(counted["packets"]), int(counted["bytes"]))
        if self.shaping.rate_kbit_per_s is None:
            return (sent,)
        return (Caught(self.shaping.node_id, "packets that waited for the limit", packets=int(counted["waited"])),)

    def end(self) -> tuple[Caught, ...]:
        """Let everything go out at once."""
        with contextlib.ExitStack() as undoing:
            undoing.callback(self._remove_queue)
            undoing.callback(self.spot.namespace.run, ("nft", "delete", "table", "inet", self.spot.table))
            return self.caught()

    def _counted(self) -> Mapping[str, str]:
        told = self.spot.namespace.run(("tc", "-s", "class", "show", "dev", INTERFACE))
        found = next((found.groupdict() for found in _CLASS.finditer(told) if found["id"] == self.spot.class_id), None)
        if found is None:
            raise SupervisorError(f"tc tells of no class {self.spot.class_id}: {told[:200]!r}")
        return found

    def _queue(self) -> str:
        rate = self.shaping.rate_kbit_per_s
        queue_bytes = max(_LEAST_QUEUE_BYTES, round((rate or 0) * 125 * _QUEUE_S))
        leaf = f"bfifo limit {queue_bytes}" if rate else f"netem delay {self.shaping.delay_ms:g}ms {self.shaping.jitter_ms:g}ms limit 100000"
        root = "" if self._has_root() else f"qdisc add dev {INTERFACE} root handle 1: htb default 0\n"
        limit = f"class add dev {INTERFACE} parent 1: classid {self.spot.class_id} htb rate {rate or _UNLIMITED_KBIT_PER_S}kbit quantum 65536\n"
        return f"{root}{limit}qdisc add dev {INTERFACE} parent {self.spot.class_id} {leaf}\n"

    def _has_root(self) -> bool:
        return "qdisc htb 1:" in self.spot.namespace.run(("tc", "qdisc", "show", "dev", INTERFACE))

    def _remove_queue(self) -> None:
        """Remove the class, and with the last class the root."""
        self.spot.namespace.run(("tc", "class", "delete", "dev", INTERFACE, "classid", self.spot.class_id))
        if "class htb" not in self.spot.namespace.run(("tc", "class", "show", "dev", INTERFACE)):
            self.spot.namespace.run(("tc", "qdisc", "delete", "dev", INTERFACE, "root"))
