"""What a cluster needs of its network, and the simplest network: every node on 127.0.0.1.

The loopback network needs no root, and its traffic cannot be impaired.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ackbench.infra.errors import SupervisorError
from ackbench.infra.kafka.kraft import LOOPBACK, ListenAddress
from ackbench.infra.network.impairment import Impairment, ImpairmentCounts
from ackbench.infra.network.reservations import reserve_ports


class Network(Protocol):
    """The network of one cluster.

    The cluster's supervisor creates it before the first node starts, and closes it after the last
    node has ended. The index of node 1 is 0.
    """

    def listen_addresses(self) -> tuple[ListenAddress, ...]:
        """Return where each node listens, by its index."""

    def launch_command(self, index: int, command: Sequence[str]) -> tuple[str, ...]:
        """Return the command that runs a node's program in this network."""

    async def start(self) -> None:
        """Start to forward traffic, if the supervisor itself does that."""

    def impair(self, name: str, impairments: Sequence[Impairment]) -> None:
        """Apply impairments under a name: all of them, or none if an error is raised.

        Raises:
            ImpairmentConflict: another impairment acts on the same traffic, and only one can.
            SupervisorError: the network does not support one of them, a node does not exist, or
                the name is taken.
        """

    def impairment_counts(self, name: str) -> tuple[ImpairmentCounts, ...]:
        """Return the traffic that the impairments of this name have affected so far.

        Raises:
            SupervisorError: no impairment has this name.
        """

    def active_impairments(self) -> tuple[str, ...]:
        """Return the names of the active impairments."""

    def heal(self, name: str) -> tuple[ImpairmentCounts, ...]:
        """Remove the impairments of this name and return their final counts.

        If there are none, do nothing.
        """

    def close(self) -> None:
        """Remove everything that the network created on this machine. Idempotent."""


class LoopbackNetwork:
    """Implements `Network` with ports of 127.0.0.1."""

    def __init__(self, nodes: int, listeners: int) -> None:
        """Reserve the ports.

        Raises:
            MachineError: there are not enough free ports.
        """
        self._reservation, self._nodes = reserve_ports(nodes * listeners), nodes

    def listen_addresses(self) -> tuple[ListenAddress, ...]:
        """Return where each node listens, by its index."""
        ports = self._reservation.ports
        return tuple(
            ListenAddress(LOOPBACK, ports[index :: self._nodes]) for index in range(self._nodes)
        )

    def launch_command(self, index: int, command: Sequence[str]) -> tuple[str, ...]:
        """Return the command unchanged."""
        del index
        return tuple(command)

    async def start(self) -> None:
        """Do nothing: the kernel forwards the traffic."""

    def impair(self, name: str, impairments: Sequence[Impairment]) -> None:
        """Refuse.

        Raises:
            SupervisorError: always.
        """
        raise SupervisorError(
            f"{name}: traffic on loopback cannot be impaired ({len(impairments)} requested)"
        )

    def impairment_counts(self, name: str) -> tuple[ImpairmentCounts, ...]:
        """Refuse.

        Raises:
            SupervisorError: always.
        """
        raise SupervisorError(f"there is no impairment {name}: the network is loopback")

    def active_impairments(self) -> tuple[str, ...]:
        """Return no names."""
        return ()

    def heal(self, name: str) -> tuple[ImpairmentCounts, ...]:
        """Do nothing: there are no impairments."""
        del name
        return ()

    def close(self) -> None:
        """Release the ports."""
        self._reservation.release()
