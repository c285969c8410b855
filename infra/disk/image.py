"""A disk per node: an ext4 file system in an image file, mounted through a loop device. Needs root.

Such a disk can lose power, fail, fill up and be slow without an effect on the rest of the machine.
The image is sparse: it takes the space that is used. Data that the kernel has written to the image
survive every simulated power cut, as on a drive without a volatile cache.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from ackbench.infra.disk.mounts import (
    loop_devices_below,
    mounts_below,
    release_below,
    run_system_tool,
    shut_down_file_system,
    unmount,
)
from ackbench.infra.disk.write_throttle import require_write_throttle
from ackbench.infra.errors import SupervisorError
from ackbench.infra.kafka.kraft import LOG_DIR

IMAGE: Final = "disk.img"
DISK_BYTES: Final = 16 << 30
"""More than a sweep writes. Planning compares what it does write with the machine's free space."""
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
"""`discard` frees the space of deleted topics; `noinit_itable` prevents background writes by the
kernel. Everything else is the default, including `commit=5`."""


class ImageDisk:
    """An image file per node. Implements `infra.disk.folder.Disk`."""

    def __init__(self, size_bytes: int = DISK_BYTES) -> None:
        """Set the size of each node's disk."""
        self._size_bytes = size_bytes

    def make(self, node_folder: Path) -> Path:
        """Create the image and its file system, and mount it.

        Raises:
            HarnessError: a system program failed; the text has its output.
        """
        data, image = node_folder / LOG_DIR, node_folder / IMAGE
        data.mkdir(parents=True)
        with image.open("xb") as file:
            file.truncate(self._size_bytes)
        run_system_tool(*_MAKE, str(image))
        _mount(image, data)
        (data / "lost+found").rmdir()  # Kafka treats every folder as a partition
        return data

    def shut_down(self, node_folder: Path) -> None:
        """Shut down the file system while it is in use.

        Raises:
            SupervisorError: the kernel refuses.
        """
        try:
            shut_down_file_system(node_folder / LOG_DIR)
        except OSError as error:
            raise SupervisorError(
                f"cannot shut down the file system of {node_folder / LOG_DIR}: {error}"
            ) from error

    def bring_back(self, node_folder: Path) -> None:
        """Mount the image again, as after a power cut: the kernel replays the journal.

        Raises:
            WaitTimeout: a process still uses the old mount.
            HarnessError: the image cannot be mounted.
        """
        if node_folder / LOG_DIR in mounts_below(node_folder):
            unmount(node_folder / LOG_DIR)
        _mount(node_folder / IMAGE, node_folder / LOG_DIR)

    def limit(self, node_folder: Path, write_bytes_per_s: int | None) -> None:
        """Limit the write rate of the disk's loop device.

        Raises:
            SupervisorError: the kernel offers no write limit to this process.
        """
        for loop in loop_devices_below(node_folder):
            require_write_throttle().set(loop, write_bytes_per_s)

    def remove(self, node_folder: Path) -> None:
        """Unmount the disk, and remove the image and the log folder."""
        release_below(node_folder)
        (node_folder / IMAGE).unlink(missing_ok=True)
        shutil.rmtree(node_folder / LOG_DIR, ignore_errors=True)


def _mount(image: Path, data: Path) -> None:
    run_system_tool("mount", "-t", "ext4", "-o", _OPTIONS, str(image), str(data))
