"""Log folders on the file system where the cluster lies: need no root; what is written outlives the process."""

from __future__ import annotations

import shutil
from pathlib import Path

from infra.kraft import DATA


class FolderDisk:
    """Implements `infra.disk.base.Disk`."""

    def make(self, node_folder: Path) -> Path:
        """Make the folder."""
        data = node_folder / DATA
        data.mkdir(parents=True)
        return data

    def remove(self, node_folder: Path) -> None:
        """Remove it."""
        shutil.rmtree(node_folder / DATA, ignore_errors=True)
