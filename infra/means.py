"""What this machine has for faults and clusters that not every machine can do: asked, never guessed, and said why not."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Means(StrEnum):
    """What a fault may need of the machine."""

    NAMESPACES = "network namespaces"
    """Each node in one of its own, with rules that cut what goes in and out."""
    DISK_IMAGES = "disk images"
    """Each node's log folder on a loop-mounted ext4 of its own."""


@dataclass(frozen=True)
class Lack:
    """Why the machine cannot, and what would enable it."""

    reason: str
    then: str


def lack_of(means: Means) -> Lack | None:
    """Return what is lacking; `None`: the machine can."""
    return _PROBES[means]()


def _programs(*names: str, package: str) -> Lack | None:
    missing = [name for name in names if shutil.which(name, path=os.environ.get("PATH", "") + os.pathsep + "/usr/sbin:/sbin") is None]
    return Lack(f"{', '.join(missing)}: not found", f"install {package}") if missing else None


def _root() -> Lack | None:
    return None if os.geteuid() == 0 else Lack("not root", "run as root")


def _namespaces() -> Lack | None:
    return _root() or _programs("ip", package="iproute2") or _programs("nft", package="nftables")


def _disk_images() -> Lack | None:
    return _root() or _programs("mkfs.ext4", package="e2fsprogs") or _programs("mount", "umount", "losetup", package="util-linux")


_PROBES: Final[Mapping[Means, Callable[[], Lack | None]]] = MappingProxyType({Means.NAMESPACES: _namespaces, Means.DISK_IMAGES: _disk_images})
