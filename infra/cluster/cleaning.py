"""Removes what clusters left behind when their supervisors, or their holders, were killed."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from ackbench.infra.cluster.handle import HANDLE_FILE, LOCK_FILE, ClusterHandle, read_handle
from ackbench.infra.disk.image import IMAGE
from ackbench.infra.disk.mounts import release_below
from ackbench.infra.errors import SupervisorError
from ackbench.infra.kafka.kraft import LOG_DIR
from ackbench.infra.machine.files import is_locked
from ackbench.infra.network.bridge import interface_name, remove_interface
from ackbench.infra.process.processes import ProcessIdentity, kill_and_wait

IN_USE: Final = "it is in use"


@dataclass(frozen=True)
class CleanReport:
    """What `clean` found and did."""

    removed: tuple[str, ...] = ()
    """Names of the clusters whose folders were removed, with their logs."""
    killed: tuple[ProcessIdentity, ...] = ()
    """Supervisors and nodes that were still alive."""
    kept: Mapping[str, str] = field(default_factory=dict)
    """Names of the folders that were not removed, each with the reason."""


def clean(
    clusters: Path,
    *,
    running: Collection[str] = (),
    ended: Collection[str] = (),
    include_held: bool = False,
    owners: Collection[str] | None = None,
) -> CleanReport:
    """Remove every cluster that is not in use. A second call finds nothing to do.

    A folder that is not that of a cluster is kept, and so is a link.

    Args:
        clusters: the folder of all clusters.
        running: owners (the names of clusters before the last dot) whose clusters are in use.
        ended: owners whose clusters are not in use, although a grace may still last.
        include_held: also remove the clusters that a living process of this machine holds.
        owners: look only at the clusters of these owners; `None`: at all.
    """
    report = CleanReport()
    for folder in sorted(path for path in clusters.glob("*") if path.is_dir()):
        owner = folder.stem
        if owners is not None and owner not in owners:
            continue
        reason = "its run is in progress" if owner in running else _reason_to_keep(folder)
        if reason == IN_USE and (include_held or owner in ended):
            reason = None
        if reason:
            report = replace(report, kept={**report.kept, folder.name: reason})
            continue
        killed = remove_processes(folder)
        shutil.rmtree(folder)
        report = replace(
            report, removed=(*report.removed, folder.name), killed=(*report.killed, *killed)
        )
    return report


def _reason_to_keep(folder: Path) -> str | None:
    """Return why a folder must not be removed; `None`: it is that of a cluster that has ended."""
    if folder.is_symlink():
        return "it is a link, and nothing is deleted through a link"
    handle = _handle(folder)
    if handle is None:
        return _reason_to_keep_without_handle(folder)
    if handle.machine.is_own:
        return IN_USE if handle.is_in_use() else None
    if handle.machine.has_own_kernel and is_locked(folder / LOCK_FILE):
        return f"it is in use {handle.machine.describe()}"
    if handle.machine.has_own_kernel or handle.machine.has_restarted:
        return None
    return (
        f"it was made {handle.machine.describe()}: run `ackbench clean` there, or delete "
        f"{folder} by hand if that machine no longer uses it"
    )


def _reason_to_keep_without_handle(folder: Path) -> str | None:
    """Return why to keep a folder without a handle, which is the first file of a cluster."""
    if is_locked(folder / LOCK_FILE):
        return IN_USE
    files = {path.name for path in folder.iterdir()} - {LOCK_FILE}
    if any(not name.startswith(f".{HANDLE_FILE}.") for name in files):
        return f"it has no valid {HANDLE_FILE}: delete it by hand if it is not needed"
    return None


def require_own_machine(folder: Path) -> ClusterHandle:
    """Return the handle of a cluster whose processes run on this machine, if at all.

    Raises:
        SupervisorError: the folder has no handle, or the processes may run on another machine.
    """
    handle = read_handle(folder)
    reason = None if handle.machine.is_own else _reason_to_keep(folder)
    if reason:
        raise SupervisorError(f"cluster {folder.name} cannot be used or destroyed here: {reason}")
    return handle


def remove_processes(folder: Path) -> Sequence[ProcessIdentity]:
    """Kill the remaining processes of a cluster, and remove its network and its data.

    The processes are identified by pid and start time, so no other process is hit. The logs stay.

    Returns:
        The processes that were still alive.

    Raises:
        WaitTimeout: a process did not end after SIGKILL.
        HarnessError: a loop device is still in use; the text names the process that uses it.
    """
    handle = _handle(folder)
    killed = [process for process in handle.processes() if kill_and_wait(process)] if handle else []
    if handle and handle.spec.network == "namespaces":
        remove_interface(interface_name(handle.cluster_id))
    release_below(folder)
    for left in (*folder.glob(f"nodes/*/{LOG_DIR}"), *folder.glob(f"nodes/*/{IMAGE}")):
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    return killed


def _handle(folder: Path) -> ClusterHandle | None:
    """Return the cluster's handle; `None` where the folder exists and nothing was started yet."""
    try:
        return read_handle(folder)
    except SupervisorError:
        return None
