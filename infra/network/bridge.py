"""The virtual network of a cluster: one network namespace per node, joined by a bridge.

The host gets one interface, named after the cluster's id, and with it the route to the cluster's
subnet. The host's firewall rules and its other routes are not changed. The bridge has a namespace
of its own, so the host's rules for bridged packets do not apply to it.

Namespaces have no name. The kernel keeps a namespace while a process has it open or runs in it, and
then removes everything in it. So nothing is left when the owner is killed: no file in /run/netns,
no interface, no rule (network_namespaces(7)).
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ackbench.infra.errors import MachineError, SupervisorError
from ackbench.infra.network.reservations import reserve_subnet
from ackbench.infra.process.waiting import wait_until

INTERFACE: Final = "eth0"
"""The name of a node's interface in its namespace."""
_BRIDGE: Final = "bridge"
_IP_BATCH: Final = ("ip", "-batch", "-")
_CLONE_NEWNET: Final = 0x40000000  # sched.h; os.unshare came with Python 3.12
_COMMAND_TIMEOUT_S: Final = 20.0
_REMOVAL_TIMEOUT_S: Final = 10.0


def run_command(
    command: Sequence[str], stdin: str = "", timeout_s: float = _COMMAND_TIMEOUT_S
) -> str:
    """Run a command and return its standard output.

    Raises:
        SupervisorError: the command failed (with its error output), or took too long.
    """
    try:
        result = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise SupervisorError(f"{' '.join(command)}: not done after {timeout_s:g} s") from error
    if result.returncode != 0:
        raise SupervisorError(f"{' '.join(command)}: {(result.stderr or result.stdout).strip()}")
    return result.stdout


class Namespace:
    """A network namespace. It exists until it is closed or its owner exits."""

    def __init__(self) -> None:
        """Create the namespace.

        Raises:
            MachineError: the kernel refuses.
        """
        self._fd: int | None = _create_namespace()

    @property
    def path(self) -> str:
        """A path through which any process can enter it, while this process has it open."""
        return f"/proc/{os.getpid()}/fd/{self._fd}"

    def command_inside(self, command: Sequence[str]) -> tuple[str, ...]:
        """Return a command that runs a program in the namespace.

        nsenter(1) executes the program in its own process, so the pid and the parent-death signal
        stay the same.
        """
        return ("nsenter", f"--net={self.path}", "--", *command)

    def run(self, command: Sequence[str], stdin: str = "") -> str:
        """Run a command in the namespace; see `run_command`."""
        return run_command(self.command_inside(command), stdin)

    def close(self) -> None:
        """Let the kernel remove the namespace when no process runs in it. Idempotent."""
        if self._fd is not None:
            os.close(self._fd)
        self._fd = None


class ClusterBridge:
    """The namespaces of a cluster's nodes, the bridge and the host's interface."""

    def __init__(self, nodes: int, cluster_id: str) -> None:
        """Create everything, in about 0.1 s, or nothing.

        Raises:
            MachineError: the kernel refuses, or no subnet is free.
        """
        self.subnet = reserve_subnet()
        self._host_interface = interface_name(cluster_id)
        self._bridge, self.nodes = Namespace(), tuple(Namespace() for _ in range(nodes))
        try:
            self._bridge.run(_IP_BATCH, self._bridge_commands())
            for index, node in enumerate(self.nodes):
                node.run(
                    _IP_BATCH,
                    "link set lo up\n"
                    + _address_commands(self.subnet.node_address(index), INTERFACE),
                )
            run_command(
                _IP_BATCH, _address_commands(self.subnet.host_address, self._host_interface)
            )
        except SupervisorError as error:
            self.close()
            raise MachineError(f"the cluster's network could not be created: {error}") from error

    def close(self) -> None:
        """Remove everything and wait until the kernel has done so. Idempotent."""
        for namespace in (*self.nodes, self._bridge):
            namespace.close()
        remove_interface(self._host_interface)
        self.subnet.release()

    def _bridge_commands(self) -> str:
        """Return ip(8) commands: the bridge, and a veth pair to each node and to the host."""
        peers = [
            (f"node{index}", f"{INTERFACE} netns {node.path}")
            for index, node in enumerate(self.nodes)
        ]
        peers.append(("host", f"{self._host_interface} netns /proc/{os.getpid()}/ns/net"))
        pairs = [
            f"link add {port} type veth peer name {peer}\nlink set {port} master {_BRIDGE} up\n"
            for port, peer in peers
        ]
        return f"link add {_BRIDGE} type bridge\nlink set {_BRIDGE} up\n" + "".join(pairs)


def interface_name(cluster_id: str) -> str:
    """Return the name of the host's interface: unique, and 15 characters, Linux's maximum."""
    return f"ack{hashlib.sha256(cluster_id.encode()).hexdigest()[:12]}"


def remove_interface(name: str) -> bool:
    """Remove an interface of the host, wait until it is gone, and return whether it existed.

    This also cuts the host's connection to the cluster. The kernel removes the interface itself
    shortly after the cluster's last process has ended.

    Raises:
        WaitTimeout: the interface still exists.
    """
    interface = Path("/sys/class/net", name)
    existed = interface.exists()

    def is_removed() -> bool:
        if interface.exists():
            # The kernel can remove it in the meantime, so an error does not matter.
            subprocess.run(("ip", "link", "delete", name), capture_output=True, check=False)
        return not interface.exists()

    wait_until(
        is_removed,
        awaiting=f"the removal of the interface {name}",
        timeout_s=_REMOVAL_TIMEOUT_S,
        every_s=0.02,
    )
    return existed


def _address_commands(address: str, interface: str) -> str:
    return f"addr add {address}/24 dev {interface}\nlink set {interface} up\n"


def _create_namespace() -> int:
    """Create a namespace in a short-lived thread, as a namespace is a thread's; return its fd."""
    results: list[int | OSError] = []
    thread = threading.Thread(target=lambda: results.append(_unshare()), name="namespace")
    thread.start()
    thread.join()
    (result,) = results
    if isinstance(result, OSError):
        raise MachineError(
            f"a network namespace could not be created ({result.strerror}): "
            "run as root with CAP_SYS_ADMIN"
        )
    return result


def _unshare() -> int | OSError:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET) != 0:
        error = ctypes.get_errno()
        return OSError(error, os.strerror(error))
    return os.open(Path("/proc/thread-self/ns/net"), os.O_RDONLY | os.O_CLOEXEC)
