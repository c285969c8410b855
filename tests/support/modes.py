"""The permission bits of the files in a folder."""

from __future__ import annotations

import stat
from pathlib import Path


def accessible_to_others(root: Path) -> dict[str, str]:
    """Return what is neither 0700 nor (a file) 0600 in a folder, with its mode."""
    found = {}
    for path in (root, *root.rglob("*")):
        mode = path.lstat().st_mode
        allowed = (0o700,) if stat.S_ISDIR(mode) else (0o600, 0o700)
        if not stat.S_ISLNK(mode) and stat.S_IMODE(mode) not in allowed:
            found[str(path.relative_to(root))] = f"{stat.S_IMODE(mode):04o}"
    return found
