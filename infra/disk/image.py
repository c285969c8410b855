"""Log folders each on a file system of its own: an ext4 in an image file of the cluster's folder, on a loop device. Needs root.

Such a disk can lose power, vanish, fill up and be slow, and nothing else on the machine is touched. The image is sparse: it takes the
room that is used. What the kernel had written to the image outlives every power cut here, as on a drive that keeps what it took.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from infra.disk.mounts import (
    loop_devices_below,
    mounts_below,
    release_below,
    require_write_throttle,
    run_system_tool,
    shut_down_file_system,
    unmount,
)
from infra.errors import SupervisorError
from infra.kafka.kraft import LOG_DIR

IMAGE: Final = "disk.img"
DISK_BYTES: Final = 16 << 30
"""More than a sweep writes; what it does write is held against the machine's own disk."""
_MAKE: Final = (
    "mkfs.ext4",
    "-q",
    "-F",
    "-m",
    "0",
    "-J",
    "size=32",
    "-E",
    "nodiscard,lazy_itable_init=1,lazy_journal_init=1",
)
_OPTIONS: Final = "loop,discard,noatime,noinit_itable"
"""Deleted topics give their room back; no thread of the kernel's writes beside the nodes. All else is as by default, `commit=5` among it."""


class ImageDisk:
    """Implements `infra.disk.folder.Disk`."""

    def __init__(self, size_bytes: int = DISK_BYTES) -> None:
        """Know how large each node's disk is to be."""
        self._size_bytes = size_bytes

    def make(self, node_folder: Path) -> Path:
        """Make the image and its file system, and mount it.

        Raises:
            HarnessError: one of the system's programs failed; the text has what it said.
        """
        data, image = node_folder / LOG_DIR, node_folder / IMAGE
        data.mkdir(parents=True)
        with image.open("xb") as file:
            file.truncate(self._size_bytes)
        run_system_tool(*_MAKE, str(image))
        _mount(image, data)
        (data / "lost+found").rmdir()  # Kafka takes every folder for a partition's
        return data

    def shut_down(self, node_folder: Path) -> None:
        """Take the disk away under whoever uses it.

        Raises:
            SupervisorError: the kernel refuses.
        """
        try:
            shut_down_file_system(node_folder / LOG_DIR)
        except OSError as error:
            raise SupervisorError(
                f"the file system of {node_folder / LOG_DIR} cannot be ended: {error}"
            ) from error

    def bring_back(self, node_folder: Path) -> None:
        """Mount the image again, as after a power cut: the kernel replays the journal.

        Raises:
            WaitTimeout: somebody still uses what was mounted.
            HarnessError: the image cannot be mounted.
        """
        if node_folder / LOG_DIR in mounts_below(node_folder):
            unmount(node_folder / LOG_DIR)
        _mount(node_folder / IMAGE, node_folder / LOG_DIR)

    def limit(self, node_folder: Path, write_bytes_per_s: int | None) -> None:
        """Have the kernel hold back what is written to the disk's device.

        Raises:
            SupervisorError: it has no such control.
        """
        for loop in loop_devices_below(node_folder):
            require_write_throttle().set(loop, write_bytes_per_s)

    def remove(self, node_folder: Path) -> None:
        """Unmount it, and remove the image."""
        release_below(node_folder)
        (node_folder / IMAGE).unlink(missing_ok=True)
        shutil.rmtree(node_folder / LOG_DIR, ignore_errors=True)


def _mount(image: Path, data: Path) -> None:
    run_system_tool("mount", "-t", "ext4", "-o", _OPTIONS, str(image), str(data))
