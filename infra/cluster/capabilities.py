"""What this machine can do for faults and clusters: each capability is probed, never assumed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

from ackbench.infra.errors import HarnessError
from ackbench.infra.network.namespaces import DELAY_PROBE, DROP_PROBE, RATE_PROBE, kernel_refusal

_PROBE_IMAGE_BYTES: Final = 256 << 20


class Capability(StrEnum):
    """What a fault or a cluster may need of the machine."""

    NAMESPACES = "network namespaces"
    """Each node in its own network namespace, with rules that drop its packets."""
    DISK_IMAGES = "disk images"
    """Each node's log folder on its own loop-mounted ext4 file system."""
    SHAPING = "traffic shaping"
    """The kernel's htb queue, which delays what a node sends above a rate."""
    NETEM = "netem"
    """The kernel's queue that delays packets."""
    SLOW_DEVICES = "throttled devices"
    """The kernel's block controller, which limits the write rate of one device."""


@dataclass(frozen=True)
class MissingCapability:
    """Why the machine lacks a capability."""

    reason: str
    remedy: str
    """What would provide it."""


def missing_capability(capability: Capability) -> MissingCapability | None:
    """Return why the machine lacks the capability; `None`: the machine has it."""
    return _PROBES[capability]()


def _programs(*names: str, package: str) -> MissingCapability | None:
    absent = [name for name in names if shutil.which(name) is None]
    if not absent:
        return None
    return MissingCapability(
        f"{', '.join(absent)}: not on PATH", f"install {package}, or put /usr/sbin on PATH"
    )


def _root() -> MissingCapability | None:
    return None if os.geteuid() == 0 else MissingCapability("not root", "run as root")


def _namespaces() -> MissingCapability | None:
    return _probe_network(
        DROP_PROBE,
        "run on a kernel with nftables and veth, as root with CAP_SYS_ADMIN and CAP_NET_ADMIN "
        "(in a container: privileged)",
    )


def _shaping() -> MissingCapability | None:
    return _probe_network(RATE_PROBE, "run on a kernel with sch_htb")


def _netem() -> MissingCapability | None:
    return _probe_network(
        DELAY_PROBE,
        "run on a kernel with sch_netem (on many distributions: the package linux-modules-extra "
        "or kernel-modules-extra)",
    )


@cache
def _probe_network(probe: str, remedy: str) -> MissingCapability | None:
    missing = (
        _root()
        or _programs("ip", "tc", package="iproute2")
        or _programs("nft", package="nftables")
        or _programs("unshare", "nsenter", package="util-linux")
    )
    if missing:
        return missing
    refusal = kernel_refusal(probe)
    return MissingCapability(refusal, remedy) if refusal else None


def _disk_images() -> MissingCapability | None:
    return (
        _root()
        or _programs("mkfs.ext4", package="e2fsprogs")
        or _programs("mount", "umount", "losetup", package="util-linux")
        or _probe_image()
    )


@cache
def _probe_image() -> MissingCapability | None:
    """Make, shut down and remove a small disk image.

    A container may have root and the programs, and no right to mount.
    """
    from ackbench.infra.disk.image import ImageDisk

    with tempfile.TemporaryDirectory(prefix="ackbench-") as folder:
        disk, node = ImageDisk(_PROBE_IMAGE_BYTES), Path(folder, "node")
        try:
            disk.make(node)
            disk.shut_down(node)
        except (HarnessError, OSError) as error:
            return MissingCapability(
                str(error),
                "run on a kernel with loop devices and ext4, as root with the right to mount "
                "(in a container: privileged)",
            )
        finally:
            disk.remove(node)
    return None


def _slow_devices() -> MissingCapability | None:
    from ackbench.infra.disk.write_throttle import find_write_throttle

    if _root() or find_write_throttle():
        return _root()
    return MissingCapability(
        "the kernel's block controller is not available",
        "mount cgroup v1's blkio, or enable the io controller for this process's own cgroup v2 "
        "group",
    )


_PROBES: Final[Mapping[Capability, Callable[[], MissingCapability | None]]] = MappingProxyType(
    {
        Capability.NAMESPACES: _namespaces,
        Capability.SHAPING: _shaping,
        Capability.NETEM: _netem,
        Capability.DISK_IMAGES: _disk_images,
        Capability.SLOW_DEVICES: _slow_devices,
    }
)
