"""Hosts on one machine: each has its own network, processes, mounts, name and boot id.

They differ in all by which ackbench recognizes a host (`infra.machine.identity`), and share the
kernel, so that their figures are those of one machine. A bridge joins them with this process, which
has a network of its own too. A host exists as long as its first process. This process ends it, and
the kernel does if this process is killed: nothing of a host is left, whatever it has started.

Needs root.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import psutil

from ackbench.infra.network.bridge import run_command
from ackbench.infra.process.processes import spawn_dying_with_parent
from ackbench.infra.process.waiting import wait_until

OWN_ADDRESS: Final = "10.77.0.1"
"""The address of this process on the bridge."""
_BRIDGE: Final = "hosts"
_CLONE_NEWNET: Final = 0x40000000  # sched.h; os.unshare came with Python 3.12
_READY_S: Final = 20.0
_STOP_S: Final = 30.0
_INIT: Final = """
hostname "$1"
mount --bind "$2/boot_id" /proc/sys/kernel/random/boot_id
mount --bind "$2/hosts" /etc/hosts
ip link set lo up
: > "$2/ready"
exec "$3" -I -S -c "$4"
"""
_REAP: Final = """
import signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    signal.pause()
"""
"""The first process of a host: the kernel removes the host's orphans for it when they end."""


def enter_own_network() -> None:
    """Give this process, and all that it starts, a network of its own with a bridge for hosts.

    Call it before there is another thread: a namespace is a thread's (network_namespaces(7)).

    Raises:
        OSError: the kernel refuses; root is needed.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"a network namespace: {os.strerror(error)}")
    run_command(
        ("ip", "-batch", "-"),
        f"link set lo up\nlink add {_BRIDGE} type bridge\n"
        f"addr add {OWN_ADDRESS}/24 dev {_BRIDGE}\nlink set {_BRIDGE} up\n",
    )


@dataclass(frozen=True)
class Host:
    """A running host."""

    name: str
    address: str
    folder: Path
    """Its files; also its home."""
    pid: int
    """Of the process that holds its namespaces."""

    def command(self, command: Sequence[str | Path]) -> list[str]:
        """Return a command that runs a program on the host, in the host's folder."""
        namespaces = [
            f"--{option}=/proc/{self.pid}/ns/{name}"
            for option, name in (
                ("net", "net"),
                ("uts", "uts"),
                ("mount", "mnt"),
                ("pid", "pid_for_children"),
            )
        ]
        folder = f"--chdir={self.folder}"
        return ["nsenter", *namespaces, "--", "env", folder, *map(str, command)]

    def start(
        self, name: str, command: Sequence[str | Path], environment: Mapping[str, str]
    ) -> subprocess.Popen[Any]:
        """Start a program on the host, as the leader of a process group, with a log of its name."""
        with self.log(name).open("ab") as output:
            return subprocess.Popen(
                self.command(command),
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def run(
        self,
        command: Sequence[str | Path],
        environment: Mapping[str, str],
        *,
        timeout_s: float = 300,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program on the host until it ends."""
        return subprocess.run(
            self.command(command),
            env=dict(environment),
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )

    def processes(self) -> list[str]:
        """Return pid and command of what runs on the host, without the host's first process."""
        own = Path(f"/proc/{self.pid}/ns/pid_for_children").readlink()
        found = []
        for process in psutil.process_iter():
            try:
                if (
                    process.status() != psutil.STATUS_ZOMBIE
                    and process.ppid() != self.pid
                    and Path(f"/proc/{process.pid}/ns/pid").readlink() == own
                ):
                    found.append(f"{process.pid} {' '.join(process.cmdline())[:200]}")
            except (OSError, psutil.Error):
                continue  # it has ended
        return found

    def log(self, name: str) -> Path:
        """Return the log of a program."""
        return self.folder / f"{name}.log"


def kill_group(process: subprocess.Popen[Any]) -> None:
    """Send SIGKILL to a program that `Host.start` has started, and to its process group."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(_STOP_S)


@contextmanager
def running_hosts(folder: Path, names: Sequence[str]) -> Iterator[list[Host]]:
    """Start hosts, and end them with everything that runs on them.

    Args:
        folder: for their files.
        names: of the hosts, in the order of their addresses.
    """
    addresses = {name: f"10.77.0.{number}" for number, name in enumerate(names, 2)}
    lines = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in addresses.items())]
    holders: list[subprocess.Popen[Any]] = []
    try:
        hosts = []
        for name, address in addresses.items():
            own = folder / name
            own.mkdir()
            (own / "hosts").write_text("\n".join(lines) + "\n")
            (own / "boot_id").write_text(f"{uuid.uuid4()}\n")
            with (own / "host.log").open("ab") as log:
                holders.append(_holder(name, own, log))
            hosts.append(_connected(Host(name, address, own, holders[-1].pid), holders[-1]))
        yield hosts
    finally:
        for holder in holders:
            holder.kill()  # the kernel then kills the host's first process, and with it all others
            holder.wait()
        for name in names:  # the kernel removes them too, and takes its time
            subprocess.run(("ip", "link", "delete", _port(name)), capture_output=True, check=False)


def _port(name: str) -> str:
    """Return the name of a host's port of the bridge."""
    return f"to-{name}"


def _holder(name: str, folder: Path, log: IO[bytes]) -> subprocess.Popen[Any]:
    unshare = ["unshare", "--net", "--uts", "--mount", "--pid", "--fork", "--kill-child"]
    init = ["sh", "-ec", _INIT, "init", name, str(folder), sys.executable, _REAP]
    return spawn_dying_with_parent(
        [*unshare, "--mount-proc", "--", *init],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def _connected(host: Host, holder: subprocess.Popen[Any]) -> Host:
    """Wait until the namespaces exist, and connect the host to the bridge."""

    def is_ready() -> bool:
        if holder.poll() is not None:
            raise subprocess.CalledProcessError(
                holder.returncode, f"unshare, see {host.log('host')}"
            )
        return (host.folder / "ready").exists()

    wait_until(is_ready, awaiting=f"the host {host.name}", timeout_s=_READY_S)
    port = _port(host.name)
    run_command(
        ("ip", "-batch", "-"),
        f"link add {port} type veth peer name eth0 netns /proc/{host.pid}/ns/net\n"
        f"link set {port} master {_BRIDGE} up\n",
    )
    inside = host.command(("ip", "-batch", "-"))
    run_command(
        inside,
        f"addr add {host.address}/24 dev eth0\nlink set eth0 up\n"
        f"route add default via {OWN_ADDRESS}\n",
    )
    return host
