"""Log folders on the file system where the cluster lies: need no root; what is written outlives the process."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final, Protocol

from infra.errors import SupervisorError
from infra.kafka.kraft import LOG_DIR

_NOT_ALONE: Final = (
    "{} is a plain folder: only a disk of the node's own can be taken away or slowed down"
)


class FolderDisk:
    """Implements `infra.disk.folder.Disk`."""

    def make(self, node_folder: Path) -> Path:
        """Make the folder."""
        data = node_folder / LOG_DIR
        data.mkdir(parents=True)
        return data

    def shut_down(self, node_folder: Path) -> None:
        """Refuse.

        Raises:
            SupervisorError: the file system is not the node's alone.
        """
        raise SupervisorError(_NOT_ALONE.format(node_folder / LOG_DIR))

    def bring_back(self, node_folder: Path) -> None:
        """Refuse.

        Raises:
            SupervisorError: the file system is not the node's alone.
        """
        raise SupervisorError(_NOT_ALONE.format(node_folder / LOG_DIR))

    def limit(self, node_folder: Path, write_bytes_per_s: int | None) -> None:
        """Refuse.

        Raises:
            SupervisorError: the file system is not the node's alone.
        """
        del write_bytes_per_s
        raise SupervisorError(_NOT_ALONE.format(node_folder / LOG_DIR))

    def remove(self, node_folder: Path) -> None:
        """Remove it."""
        shutil.rmtree(node_folder / LOG_DIR, ignore_errors=True)


# ---------- What a cluster needs of its disks.


class Disk(Protocol):
    """Made by a cluster's supervisor before any node starts; undone by it after the last one ended."""

    def make(self, node_folder: Path) -> Path:
        """Make a node's log folder, empty, and return it: `data` in the node's own folder."""

    def shut_down(self, node_folder: Path) -> None:
        """Take the disk away under whoever uses it: what it had not been told to keep is gone, and nothing more is written or read.

        Raises:
            SupervisorError: this disk cannot be taken away.
        """

    def bring_back(self, node_folder: Path) -> None:
        """Let the disk be used again, with what it had kept.

        Raises:
            SupervisorError: it cannot be, as when somebody still uses it.
        """

    def limit(self, node_folder: Path, write_bytes_per_s: int | None) -> None:
        """Let no more than so much be written to the disk, or all it can take again.

        Raises:
            SupervisorError: this disk cannot be slowed down.
        """

    def remove(self, node_folder: Path) -> None:
        """Remove a node's log folder and all that it lies on; a second time finds nothing to do."""
