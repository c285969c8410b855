"""The interface of a node's disk, and plain folders, which implement it without root.

A folder is on the file system of the cluster's folder: it outlives the node's processes, and has no
faults of its own.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Protocol

from ackbench.infra.errors import SupervisorError
from ackbench.infra.kafka.kraft import LOG_DIR


class Disk(Protocol):
    """The storage of nodes.

    The cluster's supervisor creates it before any node starts and removes it after the last one
    has exited.
    """

    def make(self, node_folder: Path) -> Path:
        """Create a node's empty log folder, `data` in the node's folder, and return it."""

    def shut_down(self, node_folder: Path) -> None:
        """Shut the disk down while it is in use: unsynced data are lost, reads and writes fail.

        Raises:
            SupervisorError: this kind of disk cannot be shut down.
        """

    def bring_back(self, node_folder: Path) -> None:
        """Make the disk usable again, with the data that it had kept.

        Raises:
            SupervisorError: it cannot be used again, for example because a process holds it open.
        """

    def limit(self, node_folder: Path, write_bytes_per_s: int | None) -> None:
        """Limit the disk's write rate; `None` removes the limit.

        Raises:
            SupervisorError: this kind of disk cannot be limited.
        """

    def remove(self, node_folder: Path) -> None:
        """Remove a node's log folder and its storage; a second call has no effect."""


class FolderDisk:
    """A plain folder per node. Implements `Disk`."""

    def make(self, node_folder: Path) -> Path:
        """Create the folder."""
        data = node_folder / LOG_DIR
        data.mkdir(parents=True)
        return data

    def shut_down(self, node_folder: Path) -> None:
        """Refuse.

        Raises:
            SupervisorError: always.
        """
        raise _refusal(node_folder)

    def bring_back(self, node_folder: Path) -> None:
        """Refuse.

        Raises:
            SupervisorError: always.
        """
        raise _refusal(node_folder)

    def limit(self, node_folder: Path, write_bytes_per_s: int | None) -> None:
        """Refuse.

        Raises:
            SupervisorError: always.
        """
        del write_bytes_per_s
        raise _refusal(node_folder)

    def remove(self, node_folder: Path) -> None:
        """Remove the folder."""
        shutil.rmtree(node_folder / LOG_DIR, ignore_errors=True)


def _refusal(node_folder: Path) -> SupervisorError:
    return SupervisorError(
        f"{node_folder / LOG_DIR} is a plain folder: only a disk image can be shut down or limited"
    )
