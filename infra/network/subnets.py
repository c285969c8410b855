"""Subnets for clusters whose nodes have addresses of their own, reserved machine-wide for as long as the process lives that reserved them.

They are taken from 198.18.0.0/15, which is set aside for the test of networks and is on no other (RFC 2544, RFC 6890). A subnet is claimed
as a port is (`infra.ports`), and one that a route of this machine reaches into is passed over.
"""

from __future__ import annotations

import ipaddress
import json
import random
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from infra.errors import MachineError

_POOL: Final = tuple(ipaddress.IPv4Network("198.18.0.0/15").subnets(new_prefix=24))
_ROUTES: Final = ("ip", "-json", "route", "show", "table", "all")


@dataclass(frozen=True)
class Subnet:
    """256 addresses that no other cluster will take while the claim is open."""

    number: int
    claim: socket.socket

    @property
    def own(self) -> str:
        """This machine's address in it."""
        return str(_POOL[self.number][1])

    def of_node(self, number: int) -> str:
        """Return the address of a node, by its number from 0."""
        return str(_POOL[self.number][number + 2])

    def release(self) -> None:
        """Let others have it."""
        self.claim.close()


def reserve_subnet() -> Subnet:
    """Return a subnet that nobody uses and nobody else has reserved.

    Raises:
        MachineError: there is none.
    """
    taken = _reached()
    begin = random.randrange(len(_POOL))  # noqa: S311 - spreads clusters, guards nothing
    for step in range(len(_POOL)):
        number = (begin + step) % len(_POOL)
        claim = None if any(_POOL[number].overlaps(network) for network in taken) else _claim(number)
        if claim is not None:
            return Subnet(number, claim)
    raise MachineError("no subnet of 198.18.0.0/15 is free: other clusters or this machine's routes have them all")


def _reached() -> Sequence[ipaddress.IPv4Network]:
    """What this machine's routes lead to, the default routes apart."""
    told = json.loads(subprocess.run(_ROUTES, check=True, capture_output=True, text=True).stdout)
    return [network for route in told if (network := _network(route.get("dst", ""))) is not None]


def _network(destination: str) -> ipaddress.IPv4Network | None:
    try:
        return ipaddress.IPv4Network(destination, strict=False)
    except ValueError:  # `default`, or IPv6
        return None


def _claim(number: int) -> socket.socket | None:
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        claim.bind(f"\0ackbench-subnet-{number}")
    except OSError:
        claim.close()
        return None
    return claim
