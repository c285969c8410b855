"""Mounts and loop devices below a folder: found in the kernel's own tables, undone in whatever state they are left.

Nothing is remembered, so what a killed process made is found as well: proc_pid_mountinfo(5), and `loop/backing_file` in sysfs.
"""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from infra.errors import HarnessError, SupervisorError, WaitTimeout
from infra.process.waiting import wait_until

# ---------- How fast a device may be written to, as the kernel's block controller enforces it on buffered writes too.
#
# - cgroup v1, `blkio.throttle.write_bps_device` of the root group: what the kernel writes back on behalf of anybody is the root group's
#   (https://docs.kernel.org/admin-guide/cgroup-v1/blkio-controller.html).
# - cgroup v2, `io.max` of this process's own group: written-back pages are charged to the group that made them dirty, where the memory and
#   the io controller are both on (https://docs.kernel.org/admin-guide/cgroup-v2.html#io). The root group has no such file.


_V1: Final = Path("/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device")
_V2: Final = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class WriteThrottle:
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
            raise SupervisorError(
                f"{self.path} does not take a limit for {device}: {error}"
            ) from error


def find_write_throttle() -> WriteThrottle | None:
    """Return where this process's writes can be limited; `None`: nowhere."""
    if os.access(_V1, os.W_OK):
        return _IN_BLKIO
    own = Path("/proc/self/cgroup").read_text().partition("0::/")[2].splitlines()
    path = _V2 / (own[0].lstrip("/") if own else "") / "io.max"
    return _in_io_max(path) if os.access(path, os.W_OK) else None


def require_write_throttle() -> WriteThrottle:
    """Return where this process's writes can be limited.

    Raises:
        SupervisorError: nowhere.
    """
    found = find_write_throttle()
    if found is None:
        raise SupervisorError(
            "the kernel's block controller is not in reach: no blkio.throttle.write_bps_device, and no io.max in the group of this process"
        )
    return found


def remove_write_limits(device: str) -> None:
    """Let a block device have no limit any more, whoever set it: it would be there for the device's next user.

    Raises:
        SupervisorError: the kernel refuses.
    """
    for limit in (*([_IN_BLKIO] if _V1.exists() else ()), *map(_in_io_max, _V2.rglob("io.max"))):
        limit.set(device, None)


def _in_io_max(path: Path) -> WriteThrottle:
    return WriteThrottle(path, lambda number, limit: f"{number} wbps={limit or 'max'}")


_IN_BLKIO: Final = WriteThrottle(_V1, lambda number, limit: f"{number} {limit or 0}")


_MOUNTS: Final = Path("/proc/self/mountinfo")
_BLOCK_DEVICES: Final = Path("/sys/block")
_BUSY_TIMEOUT_S: Final = 5.0
"""A killed process closes its files within this, or somebody else has them open."""
_GONE_TIMEOUT_S: Final = 10.0
_EXT4_IOC_SHUTDOWN: Final = 0x8004587D
"""`_IOR('X', 125, __u32)`: fs/ext4/ext4.h of Linux."""
_NO_LOG_FLUSH: Final = b"\x02\x00\x00\x00"
"""`EXT4_GOING_FLAGS_NOLOGFLUSH`: neither data nor the journal's open transaction is written."""


def run_system_tool(*command: str) -> None:
    """Run a program of the system's.

    Raises:
        HarnessError: it failed; the text has what it said.
    """
    path = os.environ.get("PATH", "") + os.pathsep + "/usr/sbin:/sbin"
    ran = subprocess.run(
        command,
        env={**os.environ, "PATH": path, "LC_ALL": "C"},
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode != 0:
        raise HarnessError(f"{command[0]} failed: {(ran.stderr or ran.stdout).strip()}")


def shut_down_file_system(mount: Path) -> None:
    """End an ext4 where it is mounted, as a power cut does: what was not synced never reaches its device, and nothing can be read or written.

    Raises:
        OSError: it is no ext4, or not ours to end.
    """
    descriptor = os.open(mount, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.ioctl(descriptor, _EXT4_IOC_SHUTDOWN, _NO_LOG_FLUSH)
    finally:
        os.close(descriptor)


def unmount(mount: Path) -> None:
    """Unmount; a process that is about to end is waited for.

    Raises:
        WaitTimeout: it is still in use.
    """
    said = ""

    def unmounted() -> bool:
        nonlocal said
        try:
            run_system_tool("umount", str(mount))
        except HarnessError as error:
            said = str(error)
            return False
        return True

    wait_until(
        unmounted,
        awaiting=f"{mount} to be free to unmount",
        timeout_s=_BUSY_TIMEOUT_S,
        seen=lambda: said,
    )


def release_below(folder: Path) -> tuple[str, ...]:
    """Unmount everything below a folder and let go of the loop devices behind it; return what was found. Nothing of it is kept.

    What somebody still uses is taken away from them: the file system ends, is unmounted from the tree, and its device goes once they close it.

    Raises:
        HarnessError: a loop device is still there; names who holds it.
    """
    mounts, loops = tuple(mounts_below(folder)), tuple(loop_devices_below(folder))
    for loop in loops:
        remove_write_limits(loop)  # or the last writes would take their time
    for mount in reversed(mounts):
        _release_mount(mount)
    for loop in loops:
        _release_loop(loop, folder)
    return (*map(str, mounts), *loops)


def mounts_below(folder: Path) -> Iterator[Path]:
    """Give what is mounted below a folder, the outer before the inner."""
    root = folder.resolve()
    for line in os.fsdecode(_MOUNTS.read_bytes()).splitlines():
        mount = Path(re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), line.split()[4]))
        if mount.is_relative_to(root):
            yield mount


def loop_devices_below(folder: Path) -> Iterator[str]:
    """Give the loop devices (`loop0`) whose image lies below a folder, or lay there."""
    root = folder.resolve()
    for device in sorted(_BLOCK_DEVICES.glob("loop*")):
        image = backing_file(device.name)
        if image is not None and image.is_relative_to(root):
            yield device.name


def backing_file(loop: str) -> Path | None:
    """Return the image behind a loop device; `None` where there is none."""
    try:
        return Path(
            os.fsdecode((_BLOCK_DEVICES / loop / "loop" / "backing_file").read_bytes())
            .rstrip("\n")
            .removesuffix(" (deleted)")
        )
    except OSError:
        return None


def _release_mount(mount: Path) -> None:
    """The data goes with the file system, so none of it is written back; lazily only where it stays in use."""
    with suppress(OSError):  # no ext4, or ended before: then nothing is left to be written
        shut_down_file_system(mount)
    try:
        unmount(mount)
    except WaitTimeout:
        run_system_tool("umount", "--lazy", str(mount))


def _release_loop(loop: str, folder: Path) -> None:
    """A device that was mounted goes by itself (autoclear); one that never was, or whose mounting failed, has to be told."""

    def gone() -> bool:
        image = backing_file(loop)
        return image is None or not image.is_relative_to(folder.resolve())

    if not gone():
        with suppress(HarnessError):  # it may go in this moment; whether it went is asked below
            run_system_tool("losetup", "--detach", f"/dev/{loop}")
    try:
        wait_until(gone, awaiting=f"loop device {loop} to go", timeout_s=_GONE_TIMEOUT_S)
    except WaitTimeout as error:
        users = ", ".join(map(str, _users_of(loop))) or "nobody that can be seen"
        raise HarnessError(
            f"loop device {loop} of {folder} is still in use, by {users}; it goes when they end"
        ) from error


def _users_of(loop: str) -> Iterator[int]:
    """Give the processes that have files of the device open, or work in it, mounted or not."""
    major, minor = (_BLOCK_DEVICES / loop / "dev").read_text().strip().split(":")
    device = os.makedev(int(major), int(minor))
    return (int(process.name) for process in Path("/proc").glob("[0-9]*") if _uses(process, device))


def _uses(process: Path, device: int) -> bool:
    try:
        return any(
            path.stat().st_dev == device for path in (*(process / "fd").iterdir(), process / "cwd")
        )
    except OSError:
        return False
