"""Finds and removes what clusters left behind when their supervisors, or the runs that held them, were killed."""

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
    """What was found and done."""

    removed: tuple[str, ...] = ()
    """Names of clusters whose folders were removed, logs and all."""
    killed: tuple[ProcessIdentity, ...] = ()
    """Supervisors and nodes that still lived."""
    kept: tuple[str, ...] = ()
    """Names of clusters that a living process holds."""


def clean(clusters: Path, *, held_too: bool = False) -> CleanReport:
    """Remove every cluster that no living process holds; does nothing the second time.

    Args:
        clusters: the folder of all clusters.
        held_too: remove also those that a living process holds.
    """
    report = CleanReport()
    for folder in sorted(path for path in clusters.glob("*") if path.is_dir()):
        if _is_held(folder) and not held_too:
            report = replace(report, kept=(*report.kept, folder.name))
            continue
        killed = remove_processes(folder)
        shutil.rmtree(folder)
        report = replace(
            report, removed=(*report.removed, folder.name), killed=(*report.killed, *killed)
        )
    return report


def remove_processes(folder: Path) -> Sequence[ProcessIdentity]:
    """Kill what lives of a cluster, by pid and start time, and remove its network and its data; return whom it killed.

    Raises:
        WaitTimeout: a process did not end.
        HarnessError: a loop device is still in use; names by whom.
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
    ended = handle is None or (handle.supervisor is None and bool(handle.nodes))
    return not ended and handle is not None and bool(handle.living_holders())


def _handle(folder: Path) -> ClusterHandle | None:
    """The cluster's handle; `None` where the folder was made and nothing started yet."""
    try:
        return read_handle(folder)
    except SupervisorError:
        return None
