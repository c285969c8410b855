"""The network of a cluster with a relay in front of each node's client listener."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ackbench.infra.errors import SupervisorError
from ackbench.infra.kafka.kraft import ListenAddress
from ackbench.infra.network.impairment import (
    ImpairableNetwork,
    Impairment,
    ImpairmentMechanism,
    RelayAction,
    RequestHold,
    RequestRule,
)
from ackbench.infra.network.loopback import LoopbackNetwork
from ackbench.infra.network.relay import Relay, RelayMechanism, RelayTarget
from ackbench.infra.network.request_hold import RequestHoldMechanism
from ackbench.infra.network.request_rules import RequestRuleMechanism


class RelayedNetwork(ImpairableNetwork):
    """Implements `infra.network.loopback.Network` with a relay in front of each client listener.

    The relay's port is the advertised one. Connections between nodes and those of the harness go
    directly to the nodes' listeners.
    """

    def __init__(self, nodes: int, listeners: int) -> None:
        """Reserve the ports.

        Raises:
            MachineError: there are not enough free ports.
        """
        self._loopback = LoopbackNetwork(nodes, listeners + 1)
        addresses = self._loopback.listen_addresses()
        self._listen_addresses = tuple(
            ListenAddress(address.host, address.ports[:-1], address.ports[-1])
            for address in addresses
        )
        self._relays = {
            node_id: Relay(
                node_id,
                (address.host, address.ports[-1]),
                RelayTarget(address.host, address.ports[0]),
            )
            for node_id, address in enumerate(addresses, start=1)
        }
        super().__init__(self._create_mechanism)

    def listen_addresses(self) -> tuple[ListenAddress, ...]:
        """Return where each node listens, and the port that it advertises to clients."""
        return self._listen_addresses

    def launch_command(self, index: int, command: Sequence[str]) -> tuple[str, ...]:
        """Return the command unchanged."""
        return self._loopback.launch_command(index, command)

    async def start(self) -> None:
        """Let the relays listen. The relay of a stopped node resets its clients' connections."""
        for relay in self._relays.values():
            await relay.start()

    def close(self) -> None:
        """Close the relays and release the ports."""
        for relay in self._relays.values():
            relay.close()
        self._loopback.close()

    def _create_mechanism(self, impairment: Impairment) -> ImpairmentMechanism:
        return relay_mechanism(impairment, self._relays)


def relay_mechanism(impairment: Impairment, relays: Mapping[int, Relay]) -> ImpairmentMechanism:
    """Return how relays carry out an impairment.

    Args:
        impairment: what to do.
        relays: by node id.

    Raises:
        SupervisorError: relays cannot do this, or there is no such node.
    """
    if isinstance(impairment, RequestHold):
        return RequestHoldMechanism(impairment, tuple(relays.values()))
    if isinstance(impairment, RequestRule):
        return RequestRuleMechanism(impairment, tuple(relays.values()))
    if not isinstance(impairment, RelayAction):
        raise SupervisorError(
            f"relays do not drop or shape packets, that needs namespaces: {impairment}"
        )
    relay = relays.get(impairment.node_id)
    if relay is None:
        raise SupervisorError(f"there is no node {impairment.node_id}: nodes are {sorted(relays)}")
    return RelayMechanism(impairment, relay)
