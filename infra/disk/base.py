"""What a cluster needs of its disks."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class Disk(Protocol):
    """Made by a cluster's supervisor before any node starts; undone by it after the last one ended."""

    def make(self, node_folder: Path) -> Path:
        """Make a node's log folder, empty, and return it: `data` in the node's own folder."""

    def remove(self, node_folder: Path) -> None:
        """Remove a node's log folder and all that it lies on; a second time finds nothing to do."""
