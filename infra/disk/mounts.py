"""Mounts and loop devices below a folder: found in the kernel's tables, and released.

The kernel's tables are the only state (proc_pid_mountinfo(5), and `loop/backing_file` in sysfs), so
mounts of a crashed process are found too.
"""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from ackbench.infra.disk.write_throttle import BLOCK_DEVICES, remove_write_limits
from ackbench.infra.errors import HarnessError, WaitTimeout
from ackbench.infra.process.waiting import wait_until

_MOUNTS: Final = Path("/proc/self/mountinfo")
_BUSY_TIMEOUT_S: Final = 5.0
"""Within this time a killed process has closed its files; after it another process uses them."""
_DETACH_TIMEOUT_S: Final = 10.0
_EXT4_IOC_SHUTDOWN: Final = 0x8004587D
"""`_IOR('X', 125, __u32)`: fs/ext4/ext4.h of Linux."""
_NO_LOG_FLUSH: Final = b"\x02\x00\x00\x00"
"""`EXT4_GOING_FLAGS_NOLOGFLUSH`: writes neither data nor the journal's open transaction."""


def run_system_tool(*command: str) -> None:
    """Run a system program such as `mount`.

    Raises:
        HarnessError: it failed; the text has its output.
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
    """Shut down a mounted ext4 file system, as a power cut does.

    Unsynced data never reach the device, and every later read or write fails.

    Raises:
        OSError: it is not ext4, or this process may not shut it down.
    """
    descriptor = os.open(mount, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.ioctl(descriptor, _EXT4_IOC_SHUTDOWN, _NO_LOG_FLUSH)
    finally:
        os.close(descriptor)


def unmount(mount: Path) -> None:
    """Unmount a file system, and wait up to 5 s for its users to exit.

    Raises:
        WaitTimeout: it is still in use.
    """
    reason = ""

    def unmounted() -> bool:
        nonlocal reason
        try:
            run_system_tool("umount", str(mount))
        except HarnessError as error:
            reason = str(error)
            return False
        return True

    wait_until(
        unmounted,
        awaiting=f"{mount} to be unmounted",
        timeout_s=_BUSY_TIMEOUT_S,
        seen=lambda: reason,
    )


def release_below(folder: Path) -> tuple[str, ...]:
    """Unmount everything below a folder and detach its loop devices, without keeping any data.

    A file system in use is shut down and unmounted lazily; its device is detached when the last
    user closes it.

    Returns:
        The mounts and loop devices that were found.

    Raises:
        HarnessError: a loop device is still attached; the text names its users.
    """
    mounts, loops = tuple(mounts_below(folder)), tuple(loop_devices_below(folder))
    for loop in loops:
        remove_write_limits(loop)  # a limit would slow down the last writes
    for mount in reversed(mounts):
        _release_mount(mount)
    for loop in loops:
        _release_loop(loop, folder)
    return (*map(str, mounts), *loops)


def mounts_below(folder: Path) -> Iterator[Path]:
    """Yield the mount points below a folder, outer ones before inner ones."""
    root = folder.resolve()
    for line in os.fsdecode(_MOUNTS.read_bytes()).splitlines():
        mount = Path(re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), line.split()[4]))
        if mount.is_relative_to(root):
            yield mount


def loop_devices_below(folder: Path) -> Iterator[str]:
    """Yield the loop devices (`loop0`) whose image is, or was, below a folder."""
    root = folder.resolve()
    for device in sorted(BLOCK_DEVICES.glob("loop*")):
        image = backing_file(device.name)
        if image is not None and image.is_relative_to(root):
            yield device.name


def backing_file(loop: str) -> Path | None:
    """Return the image of a loop device; `None`: it has none."""
    try:
        return Path(
            os.fsdecode((BLOCK_DEVICES / loop / "loop" / "backing_file").read_bytes())
            .rstrip("\n")
            .removesuffix(" (deleted)")
        )
    except OSError:
        return None


def _release_mount(mount: Path) -> None:
    """Shut down and unmount a file system; lazily only while it is in use.

    Nothing is written back: the data are removed anyway.
    """
    with suppress(OSError):  # it is not ext4, or was shut down before
        shut_down_file_system(mount)
    try:
        unmount(mount)
    except WaitTimeout:
        run_system_tool("umount", "--lazy", str(mount))


def _release_loop(loop: str, folder: Path) -> None:
    """Detach a loop device.

    The kernel detaches a device on unmount (autoclear), but not one that was never mounted.
    """

    def is_detached() -> bool:
        image = backing_file(loop)
        return image is None or not image.is_relative_to(folder.resolve())

    if not is_detached():
        with suppress(HarnessError):  # the kernel may detach it meanwhile; checked below
            run_system_tool("losetup", "--detach", f"/dev/{loop}")
    try:
        wait_until(
            is_detached, awaiting=f"loop device {loop} to be detached", timeout_s=_DETACH_TIMEOUT_S
        )
    except WaitTimeout as error:
        users = ", ".join(map(str, _users_of(loop))) or "no visible process"
        raise HarnessError(
            f"loop device {loop} of {folder} is still in use by {users}; "
            "the kernel detaches it when they exit"
        ) from error


def _users_of(loop: str) -> Iterator[int]:
    """Yield the processes with open files or their working directory on a device."""
    major, minor = (BLOCK_DEVICES / loop / "dev").read_text().strip().split(":")
    device = os.makedev(int(major), int(minor))
    return (int(process.name) for process in Path("/proc").glob("[0-9]*") if _uses(process, device))


def _uses(process: Path, device: int) -> bool:
    with suppress(OSError):  # it has ended, or belongs to another user
        return any(_is_on(path, device) for path in (*(process / "fd").iterdir(), process / "cwd"))
    return False


def _is_on(path: Path, device: int) -> bool:
    with suppress(OSError):  # it was closed meanwhile
        return path.stat().st_dev == device
    return False
