"""A network with one namespace and IP address per node, whose packets the kernel can impair.

Needs root. The probes at the end test what this machine's kernel supports by doing it in a
temporary namespace.
"""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Sequence
from typing import Final

from ackbench.infra.errors import SupervisorError
from ackbench.infra.kafka.kraft import ListenAddress
from ackbench.infra.network.bridge import ClusterBridge
from ackbench.infra.network.impairment import (
    ImpairableNetwork,
    Impairment,
    ImpairmentMechanism,
    PacketDrop,
    TrafficShaping,
)
from ackbench.infra.network.packet_rules import HtbShaping, NftablesDrop, RulePlacement

_FIRST_PORT: Final = 9092
"""Every node has its own address, so all use the same ports: Kafka's default and those after it."""


class NamespacedNetwork(ImpairableNetwork):
    """Implements `infra.network.loopback.Network`."""

    def __init__(self, nodes: int, listeners: int, cluster_id: str) -> None:
        """Create the namespaces and the bridge that joins them.

        Raises:
            MachineError: the kernel refuses, or no subnet is free.
        """
        self._bridge, self._listeners = ClusterBridge(nodes, cluster_id), listeners
        self._addresses = {
            index + 1: self._bridge.subnet.node_address(index) for index in range(nodes)
        }
        self._rule_numbers = itertools.count(1)
        super().__init__(self._create_mechanism)

    def listen_addresses(self) -> tuple[ListenAddress, ...]:
        """Return where each node listens, by its index."""
        ports = tuple(range(_FIRST_PORT, _FIRST_PORT + self._listeners))
        return tuple(ListenAddress(address, ports) for address in self._addresses.values())

    def launch_command(self, index: int, command: Sequence[str]) -> tuple[str, ...]:
        """Return the command that runs a node's program in its namespace."""
        return self._bridge.nodes[index].command_inside(command)

    async def start(self) -> None:
        """Do nothing: the kernel forwards the traffic."""

    def close(self) -> None:
        """Remove the namespaces, and with them every rule. Idempotent."""
        self._bridge.close()

    def _create_mechanism(self, impairment: Impairment) -> ImpairmentMechanism:
        if not isinstance(impairment, PacketDrop | TrafficShaping):
            raise SupervisorError(f"{impairment}: there are no relays in a network of namespaces")
        node_ids = {impairment.node_id, *getattr(impairment, "peers", ())}
        unknown = node_ids - self._addresses.keys()
        if unknown:
            raise SupervisorError(
                f"there is no node {min(unknown)}: nodes are {sorted(self._addresses)}"
            )
        placement = RulePlacement(
            self._bridge.nodes[impairment.node_id - 1],
            next(self._rule_numbers),
            self._addresses,
            _FIRST_PORT,
        )
        match impairment:
            case PacketDrop():
                return NftablesDrop(impairment, placement)
            case TrafficShaping():
                return HtbShaping(impairment, placement)


_CREATE_LINKS: Final = (
    "ip link add tried type veth peer name other; "
    "ip link set tried up; "
    "ip link add bridge type bridge; "
)
_RULE: Final = "tcp sport 1 numgen random mod 2 < 1 meta priority set 1:1 counter drop"
_TABLE: Final = (
    f"table inet tried {{ chain output {{ type filter hook output priority 0; {_RULE}; }}; }}"
)
DROP_PROBE: Final = f"{_CREATE_LINKS} nft '{_TABLE}'"
"""Drop packets, all or a share, and count them."""
RATE_PROBE: Final = (
    f"{_CREATE_LINKS} tc qdisc add dev tried root handle 1: htb default 0; "
    "tc class add dev tried parent 1: classid 1:1 htb rate 1mbit quantum 65536"
)
"""Limit the rate of sending."""
DELAY_PROBE: Final = f"{_CREATE_LINKS} tc qdisc add dev tried root netem delay 1ms"
"""Delay packets."""
_PROBE_TIMEOUT_S: Final = 20.0


def kernel_refusal(probe: str) -> str | None:
    """Return the first line of the error when the kernel refuses a probe; `None`: it succeeds."""
    try:
        result = subprocess.run(
            ["unshare", "--net", "sh", "-ec", probe],
            capture_output=True,
            text=True,
            timeout=_PROBE_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"the probe did not finish within {_PROBE_TIMEOUT_S:g} s"
    if result.returncode == 0:
        return None
    lines = (line.strip() for line in (result.stderr + result.stdout).splitlines())
    return next(filter(None, lines), f"the probe exited with status {result.returncode}")
