"""The commit that has a file, for the provenance of what is made from it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

_TIMEOUT_S: Final = 10.0


def commit_with(path: Path) -> str | None:
    """Return the current commit of the git repository of a file, if it has the file as it is.

    Args:
        path: a regular file.

    Returns:
        The commit's id; `None`: the file is in no repository, is not committed or was changed since
        then, or git is not installed or refuses the folder.
    """
    file = path.resolve()
    found = _git(file, "rev-parse", "HEAD", f"HEAD:./{file.name}")
    if found is None:
        return None
    commit, committed = found.split()
    return commit if committed == _git(file, "hash-object", "--", file.name) else None


def _git(file: Path, *arguments: str) -> str | None:
    """Return what a command of git prints in a file's folder; `None`: it failed."""
    outside = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")}
    try:
        ran = subprocess.run(
            ["git", *arguments],
            cwd=file.parent,
            env=outside,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return ran.stdout.strip() if ran.returncode == 0 else None
