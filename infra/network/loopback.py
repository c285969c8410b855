"""Every node on 127.0.0.1, on ports of its own: needs no root, and nothing can be cut."""

from __future__ import annotations

from collections.abc import Sequence

from infra.kraft import LOOPBACK, Place
from infra.ports import reserve_ports


class LoopbackNetwork:
    """Implements `infra.network.base.Network`."""

    def __init__(self, nodes: int, listeners: int) -> None:
        """Reserve the ports.

        Raises:
            MachineError: there are not that many.
        """
        self._reservation, self._nodes = reserve_ports(nodes * listeners), nodes

    def places(self) -> tuple[Place, ...]:
        """Where each node is to listen, by its number from 0."""
        ports = self._reservation.ports
        return tuple(Place(LOOPBACK, ports[number :: self._nodes]) for number in range(self._nodes))

    def command(self, number: int, command: Sequence[str]) -> tuple[str, ...]:
        """Return the command as it is."""
        del number
        return tuple(command)

    def end(self) -> None:
        """Let others have the ports."""
        self._reservation.release()
