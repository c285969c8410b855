"""The host that runs a trial, as far as the trial's figures depend on it."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path
from typing import Final

from ackbench.experiments.ledger.trial_manifest import Host
from ackbench.infra.machine.identity import MachineIdentity
from ackbench.infra.machine.resources import GIB

_CPUS: Final = Path("/proc/cpuinfo")
_MOUNTS: Final = Path("/proc/self/mountinfo")
_OCTAL: Final = re.compile(r"\\([0-7]{3})")


def this_host(folder: Path) -> Host:
    """Return the properties of this host.

    Args:
        folder: its file system is the one that the brokers write to.
    """
    return Host(
        name=MachineIdentity.own().host,
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        processor=processor_of(_CPUS.read_text()) or platform.machine(),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB),
        disk=disk_of(_MOUNTS.read_text(), folder.resolve()),
    )


def processor_of(cpu_info: str) -> str:
    """Return the model of the first processor in `/proc/cpuinfo`; empty: it names none (on ARM)."""
    models = re.findall(r"^model name\s*:\s*(.+)$", cpu_info, re.MULTILINE)
    return " ".join(models[0].split()) if models else ""


def disk_of(mounts: str, folder: Path) -> str:
    """Return the file system of a folder, for example `ext4 on /dev/vda`.

    Args:
        mounts: the content of `/proc/self/mountinfo`; proc_pid_mountinfo(5) has its fields.
        folder: an absolute path without symbolic links; it need not exist.
    """
    found = ""
    longest = -1
    for line in mounts.splitlines():
        mounted, _, file_system = line.partition(" - ")
        point = Path(_OCTAL.sub(lambda code: chr(int(code[1], 8)), mounted.split()[4]))
        if folder.is_relative_to(point) and len(point.parts) >= longest:
            longest = len(point.parts)
            kind, device, *_ = file_system.split()
            found = f"{kind} on {device}" if device.startswith("/") else kind
    return found
