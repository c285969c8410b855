"""Which running system a record was written on: a pid is valid in one boot and one pid namespace.

A home can be shared: by the containers of a machine, by machines over a network file system, and
by a machine before and after its restart. So every record that names processes also names the
system that they run on.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

HOST_VARIABLE: Final = "ACKBENCH_HOST"
"""Names the host instead of its own name: a pod has another name at each start."""
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_PID_NAMESPACE: Final = Path("/proc/self/ns/pid")


@dataclass(frozen=True)
class MachineIdentity:
    """A running kernel, and the pid namespace in which processes have the pids of a record."""

    host: str
    """The host's name, for messages, and to recognize a machine that has restarted."""
    boot_id: str
    """Random; the kernel makes one at each boot, and all containers of a machine see the same."""
    pid_namespace: str
    """Each container has its own, unless it is started with that of the host."""

    @staticmethod
    @cache
    def own() -> MachineIdentity:
        """Return the identity of the system that this process runs on."""
        return MachineIdentity(
            host=os.environ.get(HOST_VARIABLE) or os.uname().nodename,
            boot_id=_BOOT_ID.read_text().strip(),
            pid_namespace=str(_PID_NAMESPACE.readlink()),
        )

    @property
    def is_own(self) -> bool:
        """Whether the pids of a record are those that this process sees."""
        own = MachineIdentity.own()
        return (self.boot_id, self.pid_namespace) == (own.boot_id, own.pid_namespace)

    @property
    def has_own_kernel(self) -> bool:
        """Whether the locks of its processes (flock(2)) exclude those of this process."""
        return self.boot_id == MachineIdentity.own().boot_id

    @property
    def has_restarted(self) -> bool:
        """Whether it is this machine before its last boot, so that its processes have ended."""
        return self.host == MachineIdentity.own().host and not self.has_own_kernel

    def describe(self) -> str:
        """Return where it is, as the end of a sentence."""
        return "in another container" if self.has_own_kernel else f"on the host {self.host}"
