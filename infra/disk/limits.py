"""How fast a device may be written to, as the kernel's block controller enforces it on buffered writes too.

- cgroup v1, `blkio.throttle.write_bps_device` of the root group: what the kernel writes back on behalf of anybody is the root group's
  (https://docs.kernel.org/admin-guide/cgroup-v1/blkio-controller.html).
- cgroup v2, `io.max` of this process's own group: written-back pages are charged to the group that made them dirty, where the memory and
  the io controller are both on (https://docs.kernel.org/admin-guide/cgroup-v2.html#io). The root group has no such file.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from infra.errors import SupervisorError

_V1: Final = Path("/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device")
_V2: Final = Path("/sys/fs/cgroup")
_BLOCK_DEVICES: Final = Path("/sys/block")


@dataclass(frozen=True)
class WriteLimit:
    """A file of the kernel's that takes limits of devices."""

    path: Path
    line: Callable[[str, int | None], str]
    """Device number (`7:0`) and bytes per second, `None` for no limit."""

    def set(self, device: str, write_bytes_per_s: int | None) -> None:
        """Limit a block device (`loop0`), or let go of it; one without a limit is left as it is.

        Raises:
            SupervisorError: the kernel refuses.
        """
        number = (_BLOCK_DEVICES / device / "dev").read_text().strip()
        if write_bytes_per_s is None and number not in self.path.read_text().split():
            return
        try:
            self.path.write_text(self.line(number, write_bytes_per_s))
        except OSError as error:
            raise SupervisorError(f"{self.path} does not take a limit for {device}: {error}") from error


def find_write_limit() -> WriteLimit | None:
    """Return where this process's writes can be limited; `None`: nowhere."""
    if os.access(_V1, os.W_OK):
        return _IN_BLKIO
    own = Path("/proc/self/cgroup").read_text().partition("0::/")[2].splitlines()
    path = _V2 / (own[0].lstrip("/") if own else "") / "io.max"
    return _in_io_max(path) if os.access(path, os.W_OK) else None


def write_limit() -> WriteLimit:
    """Return where this process's writes can be limited.

    Raises:
        SupervisorError: nowhere.
    """
    found = find_write_limit()
    if found is None:
        raise SupervisorError("the kernel's block controller is not in reach: no blkio.throttle.write_bps_device, and no io.max in the group of this process")
    return found


def lift(device: str) -> None:
    """Let a block device have no limit any more, whoever set it: it would be there for the device's next user.

    Raises:
        SupervisorError: the kernel refuses.
    """
    for limit in (*([_IN_BLKIO] if _V1.exists() else ()), *map(_in_io_max, _V2.rglob("io.max"))):
        limit.set(device, None)


def _in_io_max(path: Path) -> WriteLimit:
    return WriteLimit(path, lambda number, limit: f"{number} wbps={limit or 'max'}")


_IN_BLKIO: Final = WriteLimit(_V1, lambda number, limit: f"{number} {limit or 0}")
