"""What this machine has and may use: memory, disk, cores, root. Asked from the kernel each time, for it changes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from infra.errors import MachineError

MIB: Final = 2**20
GIB: Final = 2**30
_CGROUPS: Final = Path("/sys/fs/cgroup")
_FILES: Final = {
    "": ("memory.max", "memory.current"),
    "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes"),
}
"""The limit and the use of a control group, for version 2 and version 1 of the interface."""


@dataclass(frozen=True)
class MachineResources:
    """What there is for a sweep to use."""

    memory_bytes: int
    """Free, or freed on demand, and allowed by the control group (a container's limit)."""
    disk_bytes: int
    """Free to this user below the folder asked for."""
    cores: int
    """That this process may run on."""
    root: bool


def this_machine(folder: Path) -> MachineResources:
    """Return what this machine has now.

    Args:
        folder: on whose file system the disk is counted; its nearest existing parent, where it is not there yet.
    """
    allowed = min(
        (limit - used for limit, used in _limits()), default=psutil.virtual_memory().available
    )
    return MachineResources(
        memory_bytes=max(0, min(psutil.virtual_memory().available, allowed)),
        disk_bytes=psutil.disk_usage(str(_existing(folder))).free,
        cores=len(os.sched_getaffinity(0)),
        root=os.geteuid() == 0,
    )


def require_resources(machine: MachineResources, *, memory_bytes: int, disk_bytes: int, purpose: str) -> None:
    """See that there is enough.

    Args:
        machine: what there is.
        memory_bytes: what is needed.
        disk_bytes: what is needed.
        purpose: what for, for the message.

    Raises:
        MachineError: there is less memory or disk; says how much of which, and what would help.
    """
    if machine.memory_bytes < memory_bytes:
        raise MachineError(
            f"{purpose} needs {format_gib(memory_bytes)} of memory and {format_gib(machine.memory_bytes)} are free: end something, or ask for fewer nodes"
        )
    if machine.disk_bytes < disk_bytes:
        raise MachineError(
            f"{purpose} needs {format_gib(disk_bytes)} of disk and {format_gib(machine.disk_bytes)} are free: "
            "make room, set ACKBENCH_HOME to a larger disk, or ask for fewer or shorter trials"
        )


def format_gib(size_bytes: int) -> str:
    """Return a size for a person, in GiB."""
    return f"{size_bytes / GIB:.1f} GiB"


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.absolute().parents) if path.exists())


def _limits() -> Iterator[tuple[int, int]]:
    """Yield limit and use of the control groups this process is in, the inner ones' and the outer ones'."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers in _FILES:
            inner = _CGROUPS / controllers / path.lstrip("/")
            yield from (
                found
                for group in (inner, *inner.parents)
                if group.is_relative_to(_CGROUPS) and (found := _limit(group, *_FILES[controllers]))
            )


def _limit(group: Path, limit_file: str, use_file: str) -> tuple[int, int] | None:
    """Return what a group may use and what it cannot give back; `None` where it has no limit."""
    try:
        limit, used = (group / limit_file).read_text().strip(), int((group / use_file).read_text())
        inactive = next(
            (
                line.split()[1]
                for line in (group / "memory.stat").read_text().splitlines()
                if line.startswith("inactive_file ")
            ),
            "0",
        )
    except (
        OSError
    ):  # the root group has no such files, and an outer group may not be shown inside a container
        return None
    return (int(limit), used - int(inactive)) if limit.isdecimal() else None
