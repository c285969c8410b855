"""The network of a cluster with relays in front of its nodes' listeners."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from ackbench.infra.errors import SupervisorError
from ackbench.infra.kafka.kraft import ListenAddress
from ackbench.infra.kafka.spec import Listener
from ackbench.infra.network.impairment import (
    ImpairableNetwork,
    Impairment,
    ImpairmentMechanism,
    RelayAction,
    RequestHold,
)
from ackbench.infra.network.loopback import LoopbackNetwork
from ackbench.infra.network.relay import Relay, RelayMechanism, RelayTarget
from ackbench.infra.network.request_hold import RequestHoldMechanism
from ackbench.infra.network.request_rules import RequestRuleMechanism
from ackbench.infra.network.rule_actions import RequestRule


class RelayedNetwork(ImpairableNetwork):
    """Implements `infra.network.loopback.Network` with relays in front of some listeners.

    A relay's port is the advertised one. Other connections, and those of the harness, go directly
    to the nodes' listeners.
    """

    def __init__(self, nodes: int, listeners: int, relayed: Sequence[Listener]) -> None:
        """Reserve the ports.

        Args:
            nodes: how many there are.
            listeners: of each node.
            relayed: the listeners that have a relay; the first ones, in the order of `Listener`.

        Raises:
            MachineError: there are not enough free ports.
        """
        self._loopback = LoopbackNetwork(nodes, listeners + len(relayed))
        addresses: list[ListenAddress] = []
        self._relays: dict[Listener, dict[int, Relay]] = {listener: {} for listener in relayed}
        for node_id, address in enumerate(self._loopback.listen_addresses(), start=1):
            own, relays = address.ports[:listeners], address.ports[listeners:]
            advertised = (*relays, *own[len(relays) :])
            addresses.append(ListenAddress(address.host, own, advertised))
            for listener, port, relay in zip(relayed, own, relays, strict=False):
                self._relays[listener][node_id] = Relay(
                    node_id, (address.host, relay), RelayTarget(address.host, port)
                )
        self._listen_addresses = tuple(addresses)
        super().__init__(self._create_mechanism)

    def listen_addresses(self) -> tuple[ListenAddress, ...]:
        """Return where each node listens, and the ports that it advertises."""
        return self._listen_addresses

    def launch_command(self, index: int, command: Sequence[str]) -> tuple[str, ...]:
        """Return the command unchanged."""
        return self._loopback.launch_command(index, command)

    async def start(self) -> None:
        """Let the relays listen. The relay of a stopped node resets its clients' connections."""
        for relay in self._all_relays():
            await relay.start()

    def close(self) -> None:
        """Close the relays and release the ports."""
        for relay in self._all_relays():
            relay.close()
        self._loopback.close()

    def _all_relays(self) -> Iterator[Relay]:
        return chain.from_iterable(relays.values() for relays in self._relays.values())

    def _create_mechanism(self, impairment: Impairment) -> ImpairmentMechanism:
        listener = impairment.listener if isinstance(impairment, RequestRule) else "client"
        if listener not in self._relays:
            raise SupervisorError(f"no relay is in front of the {listener} listeners: {impairment}")
        return relay_mechanism(impairment, self._relays[listener])


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
