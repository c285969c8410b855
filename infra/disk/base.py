"""What a cluster needs of its disks."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


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
