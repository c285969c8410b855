"""What the nodes of a cluster keep their data on."""

from __future__ import annotations

from infra.cluster_spec import DiskKind
from infra.disk.base import Disk
from infra.disk.folder import FolderDisk
from infra.disk.image import ImageDisk
from infra.errors import MachineError
from infra.means import Means, lack_of

__all__ = ["Disk", "disk_for"]


def disk_for(kind: DiskKind) -> Disk:
    """Return what a cluster asks for, not made yet.

    Raises:
        MachineError: this machine cannot have it.
    """
    if kind == "folder":
        return FolderDisk()
    lack = lack_of(Means.DISK_IMAGES)
    if lack:
        raise MachineError(f"there are no {Means.DISK_IMAGES} here: {lack.reason}; {lack.then}")
    return ImageDisk()
