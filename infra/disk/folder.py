"""Log folders on the file system where the cluster lies: need no root; what is written outlives the process."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from infra.errors import SupervisorError
from infra.kraft import DATA

_NOT_ALONE: Final = "{} is a plain folder: only a disk of the node's own can be taken away or slowed down"


class FolderDisk:
    """Implements `infra.disk.base.Disk`."""

    def make(self, node_folder: Path) -> Path:
        """Make the folder."""
        data = node_folder / DATA
        data.mkdir(parents=True)
        return data

    def shut_down(self, node_folder: Path) -> None:
        """Refuse.

        Raises:
            SupervisorError: the file system is not the node's alone.
        """
        raise SupervisorError(_NOT_ALONE.format(node_folder / DATA))

    def bring_back(self, node_folder: Path) -> None:
        """Refuse.

        Raises:
            SupervisorError: the file system is not the node's alone.
        """
        raise SupervisorError(_NOT_ALONE.format(node_folder / DATA))

    def limit(self, node_folder: Path, write_bytes_per_s: int | None) -> None:
        """Refuse.

        Raises:
            SupervisorError: the file system is not the node's alone.
        """
        del write_bytes_per_s
        raise SupervisorError(_NOT_ALONE.format(node_folder / DATA))

    def remove(self, node_folder: Path) -> None:
        """Remove it."""
        shutil.rmtree(node_folder / DATA, ignore_errors=True)
