"""Programs of Debian's that some tests cannot do without, and the packages that bring them.

    python3 tests/support/needed_programs.py

prints the packages that are missing on this machine. It needs the standard library only.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from typing import Final

PACKAGES: Final = {
    "cc": "gcc libc6-dev",
    "chromedriver": "chromium-driver fonts-dejavu-core",
    "chromium": "chromium",
    "ip": "iproute2",
    "losetup": "mount",
    "mkfs.ext4": "e2fsprogs",
    "mount": "mount",
    "nft": "nftables",
    "nsenter": "util-linux",
    "prometheus": "prometheus",
    "promtool": "prometheus",
    "setpriv": "util-linux",
    "tc": "iproute2",
    "umount": "mount",
    "unshare": "util-linux",
}
"""The package, or packages, by program."""
_FURTHER_PACKAGES: Final = {"go": "golang-go", "node": "nodejs", "npm": "npm"}
"""The same of programs that only `make test-all` needs."""
_PACKAGE_OF: Final = {**PACKAGES, **_FURTHER_PACKAGES}
_REASON = re.compile(r"([\w., -]+): not on PATH")


def missing(programs: Iterable[str]) -> str | None:
    """Return why a test without these programs is skipped; `None`: the machine has them."""
    absent = [program for program in programs if shutil.which(program) is None]
    return f"{', '.join(absent)}: not on PATH" if absent else None


def skip_without(*programs: str) -> None:
    """Skip the test that calls it where the machine lacks one of the programs."""
    import pytest

    if reason := missing(programs):
        pytest.skip(reason)


def packages_for(reasons: Iterable[str]) -> tuple[str, ...]:
    """Return the packages that would end the skips with these reasons, in the alphabet's order."""
    programs = {
        program.strip()
        for reason in reasons
        if (found := _REASON.search(reason))
        for program in found[1].split(",")
    }
    return tuple(
        sorted({package for name in programs for package in _PACKAGE_OF.get(name, name).split()})
    )


if __name__ == "__main__":
    print(*packages_for([missing(PACKAGES) or ""]))  # noqa: T201 - its output is for a shell
