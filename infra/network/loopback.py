"""Every node on 127.0.0.1, on ports of its own: needs no root, and nothing can be cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from infra.errors import SupervisorError
from infra.kafka.kraft import LOOPBACK, ListenAddress
from infra.network.impairment import Impairment, ImpairmentCounts
from infra.network.ports import reserve_ports


class LoopbackNetwork:
    """Implements `infra.network.loopback.Network`."""

    def __init__(self, nodes: int, listeners: int) -> None:
        """Reserve the ports.

        Raises:
            MachineError: there are not that many.
        """
        self._reservation, self._nodes = reserve_ports(nodes * listeners), nodes

    def places(self) -> tuple[ListenAddress, ...]:
        """Where each node is to listen, by its number from 0."""
        ports = self._reservation.ports
        return tuple(
            ListenAddress(LOOPBACK, ports[number :: self._nodes]) for number in range(self._nodes)
        )

    def command(self, number: int, command: Sequence[str]) -> tuple[str, ...]:
        """Return the command as it is."""
        del number
        return tuple(command)

    async def open(self) -> None:
        """The kernel carries it all."""

    def impair(self, name: str, impairments: Sequence[Impairment]) -> None:
        """Refuse.

        Raises:
            SupervisorError: always; a fault says which network it needs.
        """
        raise SupervisorError(
            f"{name}: nothing can be done to the traffic on loopback ({len(impairments)} impairments were asked for)"
        )

    def impairment_counts(self, name: str) -> tuple[ImpairmentCounts, ...]:
        """Refuse.

        Raises:
            SupervisorError: always.
        """
        raise SupervisorError(f"there is no impairment {name} on loopback")

    def active_impairments(self) -> tuple[str, ...]:
        """Nothing is."""
        return ()

    def heal(self, name: str) -> tuple[ImpairmentCounts, ...]:
        """Find nothing to do."""
        del name
        return ()

    def end(self) -> None:
        """Let others have the ports."""
        self._reservation.release()


# ---------- What a cluster needs of its network.


class Network(Protocol):
    """Made by a cluster's supervisor before any node starts; undone by it after the last one ended. Node 1 is number 0."""

    def places(self) -> tuple[ListenAddress, ...]:
        """Where each node is to listen, by its number from 0."""

    def command(self, number: int, command: Sequence[str]) -> tuple[str, ...]:
        """Return how a node's program is started where it is to run."""

    async def open(self) -> None:
        """Begin to carry traffic, where that is done by the supervisor itself."""

    def impair(self, name: str, impairments: Sequence[Impairment]) -> None:
        """Begin to treat the nodes' traffic so; all of it, or, where something is raised, nothing.

        Raises:
            SupervisorError: this network cannot, or the name is taken.
        """

    def impairment_counts(self, name: str) -> tuple[ImpairmentCounts, ...]:
        """Return what the impairments of that name have met with so far.

        Raises:
            SupervisorError: there are none of that name.
        """

    def active_impairments(self) -> tuple[str, ...]:
        """Return the names of the impairments that act now."""

    def heal(self, name: str) -> tuple[ImpairmentCounts, ...]:
        """Undo the impairments of that name and return what they met with in all; a second time finds nothing to do."""

    def end(self) -> None:
        """Undo all that was made and cut; a second time finds nothing to do."""
