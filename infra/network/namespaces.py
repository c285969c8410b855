"""Each node in a network namespace of its own, with its own address: what goes in and out can be cut, node by node. Needs root."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

from infra.errors import SupervisorError
from infra.impairment import Cut, Impairment, Shaping
from infra.kraft import Place
from infra.network.in_kernel import PlacedCut, PlacedShaping, Spot
from infra.network.placing import ImpairedNetwork, Placed
from infra.network.switch import Switch

_FIRST_PORT: Final = 9092
"""A node has its address to itself, so all have the same ports: Kafka's usual one, and those behind it."""


class NamespacedNetwork(ImpairedNetwork):
    """Implements `infra.network.base.Network`."""

    def __init__(self, nodes: int, listeners: int, cluster_id: str) -> None:
        """Make the namespaces and what joins them.

        Raises:
            MachineError: the kernel refuses, or no subnet is free.
        """
        self._switch, self._listeners = Switch(nodes, cluster_id), listeners
        self._addresses = {number + 1: self._switch.subnet.of_node(number) for number in range(nodes)}
        self._numbers = itertools.count(1)
        super().__init__(self._placed)

    def places(self) -> tuple[Place, ...]:
        """Where each node is to listen, by its number from 0."""
        ports = tuple(range(_FIRST_PORT, _FIRST_PORT + self._listeners))
        return tuple(Place(address, ports) for address in self._addresses.values())

    def command(self, number: int, command: Sequence[str]) -> tuple[str, ...]:
        """Return the command that becomes the node's program in its namespace."""
        return self._switch.nodes[number].inside(command)

    async def open(self) -> None:
        """The kernel carries it all."""

    def end(self) -> None:
        """Remove the namespaces, and with them every rule."""
        self._switch.end()

    def _placed(self, impairment: Impairment) -> Placed:
        strangers = {impairment.node_id, *getattr(impairment, "peers", ())} - self._addresses.keys()
        if strangers:
            raise SupervisorError(f"there is no node {min(strangers)}: there are {sorted(self._addresses)}")
        spot = Spot(self._switch.nodes[impairment.node_id - 1], next(self._numbers), self._addresses, _FIRST_PORT)
        match impairment:
            case Cut():
                return PlacedCut(impairment, spot)
            case Shaping():
                return PlacedShaping(impairment, spot)
        raise SupervisorError(f"there are no relays in namespaces, {impairment} needs one")
