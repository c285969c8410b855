"""Machine-wide reservations of loopback ports and of subnets for clusters with namespaces.

A port that is found free by binding and closing can be found free by another process as well. So
each port and subnet is first locked with an abstract Unix socket named after it (unix(7)). The
kernel gives a name to only one process in the network namespace, and frees it when that process
ends, however it ends.

Subnets are taken from 198.18.0.0/15, which is reserved for network tests and not routed anywhere
else (RFC 2544, RFC 6890). A subnet that overlaps one of this machine's routes is skipped.
"""

from __future__ import annotations

import ipaddress
import json
import random
import socket
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ackbench.infra.errors import MachineError
from ackbench.infra.kafka.kraft import LOOPBACK

_LOWEST_PORT, _HIGHEST_PORT = 10240, 65535
_PORT_RANGE_SIZE: Final = 12000
_ALL_SUBNETS: Final = ipaddress.IPv4Network("198.18.0.0/15")
_SUBNETS: Final = 2 ** (24 - _ALL_SUBNETS.prefixlen)
"""The number of subnets of 256 addresses."""
_LIST_ROUTES: Final = ("ip", "-json", "route", "show", "table", "all")


@dataclass(frozen=True)
class PortReservation:
    """Loopback ports that no other cluster takes until they are released."""

    ports: tuple[int, ...]
    locks: tuple[socket.socket, ...]

    def release(self) -> None:
        """Let other clusters have the ports."""
        for lock in self.locks:
            lock.close()


@dataclass(frozen=True)
class SubnetReservation:
    """A subnet of 256 addresses that no other cluster takes until it is released."""

    index: int
    lock: socket.socket

    @property
    def host_address(self) -> str:
        """This machine's address in the subnet."""
        return str(_subnet(self.index)[1])

    def node_address(self, index: int) -> str:
        """Return the address of a node by its index, which is 0 for node 1."""
        return str(_subnet(self.index)[index + 2])

    def release(self) -> None:
        """Let other clusters have the subnet."""
        self.lock.close()


def reserve_ports(count: int) -> PortReservation:
    """Reserve loopback ports that no process listens on.

    Raises:
        MachineError: there are not enough free ports.
    """
    locks: dict[int, socket.socket] = {}
    for port in _candidate_ports():
        if len(locks) == count:
            break
        lock = _lock_port(port)
        if lock is not None:
            locks[port] = lock
    if len(locks) < count:
        raise MachineError(f"{count} free loopback ports are needed, only {len(locks)} were found")
    return PortReservation(tuple(locks), tuple(locks.values()))


def reserve_subnet() -> SubnetReservation:
    """Reserve a subnet that this machine does not route to.

    Raises:
        MachineError: no subnet is free.
    """
    routed = _routed_networks()
    first = random.randrange(_SUBNETS)  # noqa: S311 - only spreads clusters
    for step in range(_SUBNETS):
        index = (first + step) % _SUBNETS
        if any(_subnet(index).overlaps(network) for network in routed):
            continue
        lock = _lock(f"subnet-{index}")
        if lock is not None:
            return SubnetReservation(index, lock)
    raise MachineError(
        "no subnet of 198.18.0.0/15 is free: other clusters or this machine's routes use them all"
    )


def _subnet(index: int) -> ipaddress.IPv4Network:
    return ipaddress.IPv4Network((_ALL_SUBNETS[256 * index], 24))


def _candidate_ports() -> Iterator[int]:
    """Give the ports outside the kernel's ephemeral range (ip(7)), starting at a random one."""
    first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    below = range(max(_LOWEST_PORT, first - _PORT_RANGE_SIZE), first)
    above = range(last + 1, _HIGHEST_PORT + 1)
    usable = below or above or range(_LOWEST_PORT, _HIGHEST_PORT + 1)
    begin = random.randrange(len(usable))  # noqa: S311 - only spreads clusters
    return (usable[(begin + step) % len(usable)] for step in range(len(usable)))


def _lock_port(port: int) -> socket.socket | None:
    lock = _lock(f"port-{port}")
    if lock is not None and not _can_bind(port):
        lock.close()
        return None
    return lock


def _can_bind(port: int) -> bool:
    """Bind as a broker will: connections of the port in state TIME_WAIT do not matter."""
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def _routed_networks() -> Sequence[ipaddress.IPv4Network]:
    """Return the destinations of this machine's IPv4 routes, without the default routes."""
    output = subprocess.run(_LIST_ROUTES, check=True, capture_output=True, text=True).stdout
    networks = (_parse_network(route.get("dst", "")) for route in json.loads(output))
    return [network for network in networks if network is not None]


def _parse_network(destination: str) -> ipaddress.IPv4Network | None:
    try:
        return ipaddress.IPv4Network(destination, strict=False)
    except ValueError:  # `default`, or IPv6
        return None


def _lock(name: str) -> socket.socket | None:
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        lock.bind(f"\0ackbench-{name}")
    except OSError:
        lock.close()
        return None
    return lock
