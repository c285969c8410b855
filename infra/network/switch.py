"""A network of one cluster: a namespace for each node, and one with the bridge that joins them and this machine.

This machine gets one interface, named after the cluster's id, and with it the route to the cluster's subnet; its tables of rules are not touched, nor is its
way to anywhere else. The bridge is in a namespace of its own, where no rule that this machine has for bridged packets reaches it.
"""

from __future__ import annotations

import ctypes
import hashlib
import ipaddress
import json
import os
import random
import socket
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from infra.errors import MachineError, SupervisorError
from infra.process.waiting import wait_until

# ---------- A network namespace without a name: the kernel keeps it while somebody has it open or lives in it, and then removes all that is in it.
#
# So nothing of it is left when its owner is killed: no file in /run/netns, no interface, no rule (network_namespaces(7)).


_CLONE_NEWNET: Final = 0x40000000  # sched.h; os.unshare came with Python 3.12
_TIMEOUT_S: Final = 20.0


class Namespace:
    """Open until it is closed, or its owner has ended."""

    def __init__(self) -> None:
        """Make one.

        Raises:
            MachineError: the kernel refuses.
        """
        self._fd: int | None = _made()

    @property
    def path(self) -> str:
        """A path that any process may enter it by, for as long as this one has it open."""
        return f"/proc/{os.getpid()}/fd/{self._fd}"

    def inside(self, command: Sequence[str]) -> tuple[str, ...]:
        """Return how a program is started in it; nsenter(1) becomes that program, so the pid and the signal at the parent's end stay."""
        return ("nsenter", f"--net={self.path}", "--", *command)

    def run(self, command: Sequence[str], script: str = "") -> str:
        """Run a program in it; see `run`."""
        return run(self.inside(command), script)

    def close(self) -> None:
        """Let the kernel remove it, once nobody lives in it; a second time does nothing."""
        if self._fd is not None:
            os.close(self._fd)
        self._fd = None


def run(command: Sequence[str], script: str = "", timeout_s: float = _TIMEOUT_S) -> str:
    """Run a program and return what it says.

    Args:
        command: the program.
        script: what it reads.
        timeout_s: how long it may take.

    Raises:
        SupervisorError: it failed, with its words, or took too long.
    """
    try:
        ran = subprocess.run(
            command, input=script, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise SupervisorError(f"{' '.join(command)}: not done after {timeout_s:g} s") from error
    if ran.returncode != 0:
        raise SupervisorError(f"{' '.join(command)}: {(ran.stderr or ran.stdout).strip()}")
    return ran.stdout


def host_namespace() -> str:
    """Return a path to the namespace that this process is in."""
    return f"/proc/{os.getpid()}/ns/net"


def _made() -> int:
    """Let a thread go into a new namespace, keep it open, and let the thread end: namespaces are the threads' own."""
    made: list[int | OSError] = []
    thread = threading.Thread(target=lambda: made.append(_unshared()), name="namespace")
    thread.start()
    thread.join()
    if isinstance(made[0], OSError):
        raise MachineError(
            f"no network namespace can be made here ({made[0].strerror}): run as root, with CAP_SYS_ADMIN"
        )
    return made[0]


def _unshared() -> int | OSError:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET) != 0:
        error = ctypes.get_errno()
        return OSError(error, os.strerror(error))
    return os.open(Path("/proc/thread-self/ns/net"), os.O_RDONLY | os.O_CLOEXEC)


# ---------- Subnets for clusters whose nodes have addresses of their own, reserved machine-wide for as long as the process lives that reserved them.
#
# They are taken from 198.18.0.0/15, which is set aside for the test of networks and is on no other (RFC 2544, RFC 6890). A subnet is claimed
# as a port is (`infra.network.ports`), and one that a route of this machine reaches into is passed over.


_POOL: Final = tuple(ipaddress.IPv4Network("198.18.0.0/15").subnets(new_prefix=24))
_ROUTES: Final = ("ip", "-json", "route", "show", "table", "all")


@dataclass(frozen=True)
class Subnet:
    """256 addresses that no other cluster will take while the claim is open."""

    number: int
    claim: socket.socket

    @property
    def own(self) -> str:
        """This machine's address in it."""
        return str(_POOL[self.number][1])

    def of_node(self, number: int) -> str:
        """Return the address of a node, by its number from 0."""
        return str(_POOL[self.number][number + 2])

    def release(self) -> None:
        """Let others have it."""
        self.claim.close()


def reserve_subnet() -> Subnet:
    """Return a subnet that nobody uses and nobody else has reserved.

    Raises:
        MachineError: there is none.
    """
    taken = _reached()
    begin = random.randrange(len(_POOL))  # noqa: S311 - spreads clusters, guards nothing
    for step in range(len(_POOL)):
        number = (begin + step) % len(_POOL)
        claim = (
            None if any(_POOL[number].overlaps(network) for network in taken) else _claim(number)
        )
        if claim is not None:
            return Subnet(number, claim)
    raise MachineError(
        "no subnet of 198.18.0.0/15 is free: other clusters or this machine's routes have them all"
    )


def _reached() -> Sequence[ipaddress.IPv4Network]:
    """What this machine's routes lead to, the default routes apart."""
    told = json.loads(subprocess.run(_ROUTES, check=True, capture_output=True, text=True).stdout)
    return [network for route in told if (network := _network(route.get("dst", ""))) is not None]


def _network(destination: str) -> ipaddress.IPv4Network | None:
    try:
        return ipaddress.IPv4Network(destination, strict=False)
    except ValueError:  # `default`, or IPv6
        return None


def _claim(number: int) -> socket.socket | None:
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        claim.bind(f"\0ackbench-subnet-{number}")
    except OSError:
        claim.close()
        return None
    return claim


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
                node.run(
                    _BATCH,
                    f"link set lo up\naddr add {self.subnet.of_node(number)}/24 dev {INTERFACE}\nlink set {INTERFACE} up\n",
                )
            run(
                _BATCH,
                f"addr add {self.subnet.own}/24 dev {self._interface}\nlink set {self._interface} up\n",
            )
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
        ends = [
            (f"node{number}", f"{INTERFACE} netns {node.path}")
            for number, node in enumerate(self.nodes)
        ]
        ends.append(("host", f"{self._interface} netns {host_namespace()}"))
        cables = [
            f"link add {port} type veth peer name {end}\nlink set {port} master {_BRIDGE} up\n"
            for port, end in ends
        ]
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
            subprocess.run(
                ("ip", "link", "delete", name), capture_output=True, check=False
            )  # it may go by itself meanwhile
        return not there.exists()

    wait_until(
        gone, awaiting=f"the end of the interface {name}", timeout_s=_GONE_TIMEOUT_S, every_s=0.02
    )
    return was_there
