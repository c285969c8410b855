"""Removes what clusters left behind when their supervisors, or their holders, were killed."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from infra.cluster.handle import ClusterHandle, read_handle
from infra.disk.image import IMAGE
from infra.disk.mounts import release_below
from infra.errors import SupervisorError
from infra.kafka.kraft import LOG_DIR
from infra.network.bridge import interface_name, remove_interface
from infra.process.processes import ProcessIdentity, kill_and_wait


@dataclass(frozen=True)
class CleanReport:
    """What `clean` found and did."""

    removed: tuple[str, ...] = ()
    """Names of the clusters whose folders were removed, with their logs."""
    killed: tuple[ProcessIdentity, ...] = ()
    """Supervisors and nodes that were still alive."""
    kept: tuple[str, ...] = ()
    """Names of the clusters that a living process holds."""


def clean(clusters: Path, *, include_held: bool = False) -> CleanReport:
    """Remove every cluster that no living process holds. A second call finds nothing to do.

    Args:
        clusters: the folder of all clusters.
        include_held: also remove the clusters that a living process holds.
    """
    report = CleanReport()
    for folder in sorted(path for path in clusters.glob("*") if path.is_dir()):
        if _is_held(folder) and not include_held:
            report = replace(report, kept=(*report.kept, folder.name))
            continue
        killed = remove_processes(folder)
        shutil.rmtree(folder)
        report = replace(
            report, removed=(*report.removed, folder.name), killed=(*report.killed, *killed)
        )
    return report


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


def _is_held(folder: Path) -> bool:
    handle = _handle(folder)
    if handle is None:
        return False
    has_ended = handle.supervisor is None and bool(handle.nodes)
    return not has_ended and bool(handle.living_holders())


def _handle(folder: Path) -> ClusterHandle | None:
    """Return the cluster's handle; `None` where the folder exists and nothing was started yet."""
    try:
        return read_handle(folder)
    except SupervisorError:
        return None
