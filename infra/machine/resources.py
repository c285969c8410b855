"""The resources of this machine: memory, disk, cores and root, read from the kernel each time."""

from __future__ import annotations

import errno
import os
import re
import resource
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from ackbench.infra.errors import MachineError

MIB: Final = 2**20
GIB: Final = 2**30
SPARK_OPEN_FILES: Final = 512
"""Open files of Spark's JVM: 336 measured, most of them jars."""
_CGROUPS: Final = Path("/sys/fs/cgroup")
_FILES: Final = {
    "": ("memory.max", "memory.current"),
    "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes"),
}
"""The files of a control group's limit and usage, for version 2 and version 1 of the interface."""

_FULL_BYTES: Final = 32 * MIB
"""A disk with less space is full for Kafka: each replica's new segment begins with two indexes of
10 MiB (`segment.index.bytes`)."""
_FULL_DISK: Final = re.compile(
    r"No space left on device|[Dd]isk quota exceeded|disk (?:of .+ )?is full"
)
_STORE: Final = re.compile(r"[a-z][a-z0-9+.-]*://\S+ cannot be written: .*")
"""The error of a store, which has a disk of its own and is named."""


@dataclass(frozen=True)
class MachineResources:
    """The resources that a sweep may use."""

    memory_bytes: int
    """Available (free or reclaimable), and within the control group's limit (a container's)."""
    disk_bytes: int
    """Free for this user on the file system of the folder in question."""
    cores: int
    """On which this process may run."""
    root: bool
    open_files: int = 2**20
    """How many files a process of this user may have open: the hard limit, which a JVM takes."""


def this_machine(folder: Path) -> MachineResources:
    """Return the resources that this machine has now.

    Args:
        folder: its file system is the one whose free space counts. For a folder that does not
            exist yet that is the file system of its nearest existing parent.
    """
    allowed = min(
        (limit - used for limit, used in _limits()), default=psutil.virtual_memory().available
    )
    return MachineResources(
        memory_bytes=max(0, min(psutil.virtual_memory().available, allowed)),
        disk_bytes=psutil.disk_usage(str(_existing(folder))).free,
        cores=len(os.sched_getaffinity(0)),
        root=os.geteuid() == 0,
        open_files=_open_files(),
    )


def full_disk_is_named(text: str) -> bool:
    """Return whether a text says so: one of `full_disk`, Arrow, SQLite, Spark or Kafka."""
    return bool(_FULL_DISK.search(text))


def full_disk(error: BaseException, folder: Path) -> str | None:
    """Return which disk is full and what to do, if an error is due to that; else `None`.

    A store that cannot be written has a disk of its own: its error, and what caused that, count
    for nothing here.

    Args:
        error: any; a full disk is an error number, or a text of Arrow, SQLite, Spark or Kafka.
        folder: its file system is the one that is written to.
    """
    free_bytes = psutil.disk_usage(str(_existing(folder))).free
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in causes and not _STORE.search(str(cause)):
        causes.append(cause)
        cause = cause.__cause__ or cause.__context__
    texts = [str(each) for each in (*causes, *([cause] if cause else ()))]
    numbers = {each.errno for each in causes if isinstance(each, OSError)}
    if not (
        numbers & {errno.ENOSPC, errno.EDQUOT}
        or any(full_disk_is_named(_STORE.sub("", text)) for text in texts)
        or free_bytes < _FULL_BYTES
    ):
        return None
    return (
        f"the disk of {folder} is full ({free_bytes // MIB} MiB free): free space, for example "
        "with `ackbench clean`, or name another home with ACKBENCH_HOME"
    )


def failure_reason(error: BaseException, folder: Path) -> str:
    """Return an error with its class, and with the full disk if that is its cause.

    Args:
        error: any.
        folder: as of `full_disk`.
    """
    full = full_disk(error, folder)
    return f"{type(error).__name__}: {error}{f'; {full}' if full else ''}"


def require_resources(
    machine: MachineResources,
    *,
    memory_bytes: int,
    disk_bytes: int,
    purpose: str,
    open_files: int = 0,
) -> None:
    """Check that the machine has enough memory and disk, and allows enough open files.

    Args:
        machine: the resources of the machine.
        memory_bytes: the memory needed.
        disk_bytes: the disk space needed.
        purpose: what needs them, for the message.
        open_files: how many files a process needs to have open.

    Raises:
        MachineError: there is less memory or disk, or a lower limit; the text has both figures and
            a remedy.
    """
    if machine.open_files < open_files:
        raise MachineError(
            f"{purpose} needs {open_files:,} open files per process and this user may have "
            f"{machine.open_files:,}: raise the limit with `ulimit -n {max(4096, open_files)}`"
        )
    if machine.memory_bytes < memory_bytes:
        raise MachineError(
            f"{purpose} needs {format_gib(memory_bytes)} of memory and "
            f"{format_gib(machine.memory_bytes)} are free: "
            "stop other programs, or request fewer nodes"
        )
    if machine.disk_bytes < disk_bytes:
        raise MachineError(
            f"{purpose} needs {format_gib(disk_bytes)} of disk and "
            f"{format_gib(machine.disk_bytes)} are free: delete files, set ACKBENCH_HOME to a "
            "larger disk, or request fewer or shorter trials"
        )


def format_gib(size_bytes: int) -> str:
    """Return a size in GiB with one decimal, for example `3.0 GiB`."""
    return f"{size_bytes / GIB:.1f} GiB"


def _open_files() -> int:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2**20 if hard == resource.RLIM_INFINITY else hard


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.absolute().parents) if path.exists())


def _limits() -> Iterator[tuple[int, int]]:
    """Yield limit and usage of each control group of this process, inner groups first."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers in _FILES:
            inner = _CGROUPS / controllers / path.lstrip("/")
            groups = [one for one in (inner, *inner.parents) if one.is_relative_to(_CGROUPS)]
            limits = (_limit(group, *_FILES[controllers]) for group in groups)
            yield from (limit for limit in limits if limit is not None)


def _limit(group: Path, limit_file: str, usage_file: str) -> tuple[int, int] | None:
    """Return a control group's limit and the part of its usage that it cannot reclaim, bytes.

    `None`: the group has no limit, or no such files. The root group has none, and a container
    may hide its outer groups.
    """
    try:
        limit = (group / limit_file).read_text().strip()
        used_bytes = int((group / usage_file).read_text())
        inactive_bytes = next(
            (
                line.split()[1]
                for line in (group / "memory.stat").read_text().splitlines()
                if line.startswith("inactive_file ")
            ),
            "0",
        )
    except OSError:
        return None
    return (int(limit), used_bytes - int(inactive_bytes)) if limit.isdecimal() else None
