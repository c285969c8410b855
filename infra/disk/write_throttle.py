"""Limits of a block device's write rate, enforced by the kernel's block controller.

The limits apply to buffered writes too:

- cgroup v1, `blkio.throttle.write_bps_device` of the root group: the kernel's writeback belongs to
  the root group (https://docs.kernel.org/admin-guide/cgroup-v1/blkio-controller.html).
- cgroup v2, `io.max` of this process's own group: writeback is charged to the group that dirtied
  the pages if both the memory and the io controller are enabled
  (https://docs.kernel.org/admin-guide/cgroup-v2.html#io). The root group has no such file.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ackbench.infra.errors import SupervisorError

BLOCK_DEVICES: Final = Path("/sys/block")
_V1: Final = Path("/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device")
_V2: Final = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class WriteThrottle:
    """A control file of the kernel that limits devices."""

    path: Path
    line: Callable[[str, int | None], str]
    """Formats a device number (`7:0`) and bytes per second (`None`: no limit) as a line."""

    def set(self, device: str, write_bytes_per_s: int | None) -> None:
        """Limit a block device (`loop0`), or remove its limit.

        Args:
            device: the name of the device.
            write_bytes_per_s: the limit; `None` removes it, and has no effect without a limit.

        Raises:
            SupervisorError: the kernel refuses.
        """
        number = (BLOCK_DEVICES / device / "dev").read_text().strip()
        if write_bytes_per_s is None and number not in self.path.read_text().split():
            return
        try:
            self.path.write_text(self.line(number, write_bytes_per_s))
        except OSError as error:
            raise SupervisorError(
                f"{self.path} does not accept a write limit for {device}: {error}"
            ) from error


def find_write_throttle() -> WriteThrottle | None:
    """Return the control file for this process's writes; `None`: it has none."""
    if os.access(_V1, os.W_OK):
        return _IN_BLKIO
    own = Path("/proc/self/cgroup").read_text().partition("0::/")[2].splitlines()
    path = _V2 / (own[0].lstrip("/") if own else "") / "io.max"
    return _in_io_max(path) if os.access(path, os.W_OK) else None


def require_write_throttle() -> WriteThrottle:
    """Return the control file for this process's writes.

    Raises:
        SupervisorError: it has none.
    """
    throttle = find_write_throttle()
    if throttle is None:
        raise SupervisorError(
            "writes cannot be limited: no writable blkio.throttle.write_bps_device (cgroup v1) "
            "and no writable io.max in the cgroup of this process (cgroup v2)"
        )
    return throttle


def remove_write_limits(device: str) -> None:
    """Remove every limit of a block device, because the device's next user would inherit it.

    Raises:
        SupervisorError: the kernel refuses.
    """
    for throttle in (*([_IN_BLKIO] if _V1.exists() else ()), *map(_in_io_max, _V2.rglob("io.max"))):
        throttle.set(device, None)


def _in_io_max(path: Path) -> WriteThrottle:
    return WriteThrottle(path, lambda number, limit: f"{number} wbps={limit or 'max'}")


_IN_BLKIO: Final = WriteThrottle(_V1, lambda number, limit: f"{number} {limit or 0}")
