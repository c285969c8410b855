"""What this machine has for faults and clusters that not every machine can do: asked, never guessed, and said why not."""

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

from infra.errors import HarnessError
from infra.network.namespaces import DELAY_PROBE, DROP_PROBE, RATE_PROBE, kernel_refusal

_TRIED_BYTES: Final = 256 << 20


class Capability(StrEnum):
    """What a fault may need of the machine."""

    NAMESPACES = "network namespaces"
    """Each node in one of its own, with rules that cut what goes in and out."""
    DISK_IMAGES = "disk images"
    """Each node's log folder on a loop-mounted ext4 of its own."""
    SHAPING = "traffic shaping"
    """The kernel's htb queue, which holds back what a node sends above a rate."""
    NETEM = "netem"
    """The kernel's queue that sends packets late."""
    SLOW_DEVICES = "throttled devices"
    """The kernel's block controller holds back what is written to one of them."""


@dataclass(frozen=True)
class MissingCapability:
    """Why the machine cannot, and what would enable it."""

    reason: str
    remedy: str


def missing_capability(capability: Capability) -> MissingCapability | None:
    """Return what is lacking; `None`: the machine can."""
    return _PROBES[capability]()


def _programs(*names: str, package: str) -> MissingCapability | None:
    missing_capability = [name for name in names if shutil.which(name) is None]
    return (
        MissingCapability(
            f"{', '.join(missing_capability)}: not on PATH",
            f"install {package}, or put /usr/sbin on PATH",
        )
        if missing_capability
        else None
    )


def _root() -> MissingCapability | None:
    return None if os.geteuid() == 0 else MissingCapability("not root", "run as root")


def _namespaces() -> MissingCapability | None:
    return _tried_network(
        DROP_PROBE,
        "run on a kernel with nftables and veth, as root with CAP_SYS_ADMIN and CAP_NET_ADMIN (in a container: privileged)",
    )


def _shaping() -> MissingCapability | None:
    return _tried_network(RATE_PROBE, "run on a kernel with sch_htb")


def _netem() -> MissingCapability | None:
    return _tried_network(
        DELAY_PROBE,
        "run on a kernel with sch_netem (on many distributions: the package linux-modules-extra or kernel-modules-extra)",
    )


@cache
def _tried_network(tried: str, then: str) -> MissingCapability | None:
    programs = (
        _programs("ip", "tc", package="iproute2")
        or _programs("nft", package="nftables")
        or _programs("unshare", "nsenter", package="util-linux")
    )
    refusal = _root() or programs or kernel_refusal(tried)
    return MissingCapability(refusal, then) if isinstance(refusal, str) else refusal


def _disk_images() -> MissingCapability | None:
    programs = _programs("mkfs.ext4", package="e2fsprogs") or _programs(
        "mount", "umount", "losetup", package="util-linux"
    )
    return _root() or programs or _tried_image()


@cache
def _tried_image() -> MissingCapability | None:
    """Make a small one, take it away and remove it: a container may have root, the programs, and no right to mount."""
    from infra.disk.image import ImageDisk

    with tempfile.TemporaryDirectory(prefix="ackbench-") as folder:
        disk, node = ImageDisk(_TRIED_BYTES), Path(folder, "node")
        try:
            disk.make(node)
            disk.shut_down(node)
        except (HarnessError, OSError) as error:
            return MissingCapability(
                str(error),
                "run on a kernel with loop devices and ext4, as root with the right to mount (in a container: privileged)",
            )
        finally:
            disk.remove(node)
    return None


def _slow_devices() -> MissingCapability | None:
    from infra.disk.mounts import find_write_throttle

    if _root() or find_write_throttle():
        return _root()
    return MissingCapability(
        "the kernel's block controller is not in reach",
        "mount cgroup v1's blkio, or turn on the io controller for this process's own cgroup v2 group",
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
