"""What the nodes of a cluster keep their data on."""

from __future__ import annotations

from infra.cluster import ClusterSpec
from infra.disk.base import Disk
from infra.disk.folder import FolderDisk

__all__ = ["Disk", "disk_for"]


def disk_for(spec: ClusterSpec) -> Disk:
    """Return what a cluster asks for, not made yet.

    Raises:
        MachineError: this machine cannot have it.
    """
    del spec
    return FolderDisk()
