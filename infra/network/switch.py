"""A network of one cluster: a namespace for each node, and one with the bridge that joins them and this machine.

This machine gets one interface, named after the cluster's id, and with it the route to the cluster's subnet; its tables of rules are not touched, nor is its
way to anywhere else. The bridge is in a namespace of its own, where no rule that this machine has for bridged packets reaches it.
"""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from typing import Final

from infra.errors import MachineError, SupervisorError
from infra.network.namespace import Namespace, host_namespace, run
from infra.network.subnets import Subnet, reserve_subnet
from infra.waiting import wait_until

INTERFACE: Final = "eth0"
"""Of a node, in its namespace."""
_BRIDGE: Final = "bridge"
_BATCH: Final = ("ip", "-batch", "-")
_GONE_TIMEOUT_S: Final = 10.0


class Switch:
    """Made whole or not at all."""

    def __init__(self, nodes: int, cluster_id: str) -> None:
        """Make all of it, in about a tenth of a second.

        Raises:
            MachineError: the kernel refuses, or no subnet is free.
        """
        self.subnet: Subnet = reserve_subnet()
        self._interface = interface_of(cluster_id)
        self._bridge, self.nodes = Namespace(), tuple(Namespace() for _ in range(nodes))
        try:
            self._bridge.run(_BATCH, self._wiring())
            for number, node in enumerate(self.nodes):
                node.run(_BATCH, f"link set lo up\naddr add {self.subnet.of_node(number)}/24 dev {INTERFACE}\nlink set {INTERFACE} up\n")
            run(_BATCH, f"addr add {self.subnet.own}/24 dev {self._interface}\nlink set {self._interface} up\n")
        except SupervisorError as error:
            self.end()
            raise MachineError(f"the cluster's network cannot be made: {error}") from error

    def end(self) -> None:
        """Remove it, and wait for the kernel to have done so; a second time finds nothing to do."""
        for namespace in (*self.nodes, self._bridge):
            namespace.close()
        remove_interface(self._interface)
        self.subnet.release()

    def _wiring(self) -> str:
        """A cable from the bridge to each node and to this machine."""
        ends = [(f"node{number}", f"{INTERFACE} netns {node.path}") for number, node in enumerate(self.nodes)]
        ends.append(("host", f"{self._interface} netns {host_namespace()}"))
        cables = [f"link add {port} type veth peer name {end}\nlink set {port} master {_BRIDGE} up\n" for port, end in ends]
        return f"link add {_BRIDGE} type bridge\nlink set {_BRIDGE} up\n" + "".join(cables)


def interface_of(cluster_id: str) -> str:
    """Return what this machine's interface into a cluster is called: the 15 characters that Linux allows, and no other cluster's."""
    return f"ack{hashlib.sha256(cluster_id.encode()).hexdigest()[:12]}"


def remove_interface(name: str) -> bool:
    """Remove an interface of this machine and return once it is gone, whether it was there; with its cable goes the way into the cluster.

    The kernel takes it away by itself with the last process of its cluster, a little later.

    Raises:
        WaitTimeout: it is still there.
    """
    there = Path("/sys/class/net", name)
    was_there = there.exists()

    def gone() -> bool:
        if there.exists():
            subprocess.run(("ip", "link", "delete", name), capture_output=True, check=False)  # it may go by itself meanwhile
        return not there.exists()

    wait_until(gone, awaiting=f"the end of the interface {name}", timeout_s=_GONE_TIMEOUT_S, every_s=0.02)
    return was_there
