"""Free loopback ports, reserved machine-wide for as long as the process lives that reserved them.

A port found free by binding and closing can be found free by somebody else as well. Here each port is claimed first by an
abstract Unix socket of its number (unix(7)): the kernel gives a name to one process only, in the whole network namespace, and
takes it back when that process ends, however it ends.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from infra.errors import MachineError
from infra.kafka.kraft import LOOPBACK

_LOWEST, _HIGHEST = 10240, 65535
_SPAN: Final = 12000


@dataclass(frozen=True)
class Reservation:
    """Ports that no other cluster will take while the claims are open."""

    ports: tuple[int, ...]
    claims: tuple[socket.socket, ...]

    def release(self) -> None:
        """Let others have them."""
        for claim in self.claims:
            claim.close()


def reserve_ports(count: int) -> Reservation:
    """Return so many ports that nobody uses and nobody else has reserved.

    Raises:
        MachineError: there are not that many.
    """
    claimed: dict[int, socket.socket] = {}
    for port in _candidates():
        if len(claimed) == count:
            break
        claim = _claim(port)
        if claim is not None:
            claimed[port] = claim
    if len(claimed) < count:
        raise MachineError(
            f"{count} free loopback ports are needed, only {len(claimed)} were found"
        )
    return Reservation(tuple(claimed), tuple(claimed.values()))


def _candidates() -> Iterator[int]:
    """Ports that the kernel does not hand out to outgoing connections by itself (ip(7)), from a random one on."""
    first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    below = range(max(_LOWEST, first - _SPAN), first)
    usable = below or range(last + 1, _HIGHEST + 1) or range(_LOWEST, _HIGHEST + 1)
    begin = random.randrange(len(usable))  # noqa: S311 - spreads clusters, guards nothing
    return (usable[(begin + step) % len(usable)] for step in range(len(usable)))


def _claim(port: int) -> socket.socket | None:
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        claim.bind(f"\0ackbench-port-{port}")
        _try(port)
    except OSError:
        claim.close()
        return None
    return claim


def _try(port: int) -> None:
    """Bind as a broker will, which may find the remains of closed connections there."""
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        tried.bind((LOOPBACK, port))
