"""Every node on 127.0.0.1 with a relay in front of its client listener, where clients are told to come: their connections can be cut without root.

What nodes say to each other, and the harness to them, goes to the nodes' own listeners.
"""

from __future__ import annotations

from collections.abc import Sequence

from infra.errors import SupervisorError
from infra.impairment import Impairment, Relaying
from infra.kraft import Place
from infra.network.loopback import LoopbackNetwork
from infra.network.placing import ImpairedNetwork, Placed
from infra.network.relay import PlacedRelaying, Relay


class RelayedNetwork(ImpairedNetwork):
    """Implements `infra.network.base.Network`."""

    def __init__(self, nodes: int, listeners: int) -> None:
        """Reserve the ports.

        Raises:
            MachineError: there are not that many.
        """
        self._ports = LoopbackNetwork(nodes, listeners + 1)
        self._places = tuple(Place(place.host, place.ports[:-1], place.ports[-1]) for place in self._ports.places())
        self._relays = {number: Relay(number, place.host, place.ports[-1], place.ports[0]) for number, place in enumerate(self._ports.places(), start=1)}
        super().__init__(self._placed)

    def places(self) -> tuple[Place, ...]:
        """Where each node is to listen, and where its clients are told to come."""
        return self._places

    def command(self, number: int, command: Sequence[str]) -> tuple[str, ...]:
        """Return the command as it is."""
        return self._ports.command(number, command)

    async def open(self) -> None:
        """Let the relays listen; a node that is down refuses through its relay."""
        for relay in self._relays.values():
            await relay.open()

    def end(self) -> None:
        """Close the relays and let others have the ports."""
        for relay in self._relays.values():
            relay.close()
        self._ports.end()

    def _placed(self, impairment: Impairment) -> Placed:
        relay = self._relays.get(impairment.node_id)
        if relay is None:
            raise SupervisorError(f"there is no node {impairment.node_id}: there are {sorted(self._relays)}")
        if not isinstance(impairment, Relaying):
            raise SupervisorError(f"relays cut nodes off from nobody, {impairment} needs namespaces")
        return PlacedRelaying(impairment, relay)
