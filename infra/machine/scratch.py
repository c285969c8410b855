"""Scratch folders in the cache of a home: removed by their owner, or after it was killed.

Its owner locks a file in the folder. So that nobody uses an unlocked folder is known without pids,
which other containers reuse. A lock of the cache makes creating and locking one step.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ackbench.infra.machine.files import exclusive_lock, is_locked, try_lock

CLIENT_CHECK: Final = ".client-check-"
FORMATTING: Final = ".formatting-"
JARS: Final = ".jars-"
LIBRARIES: Final = ".libraries-"
SELFTEST: Final = ".selftest-"
SPARK: Final = ".spark-"
TRAINING: Final = "training-"
PREFIXES: Final = (CLIENT_CHECK, FORMATTING, JARS, LIBRARIES, SELFTEST, SPARK, TRAINING)
"""How the names of scratch folders begin, by their purpose."""
OWNER_FILE: Final = ".owner"


@contextmanager
def scratch_folder(cache: Path, prefix: str) -> Iterator[Path]:
    """Yield a new folder in the cache, which is removed with the context.

    Args:
        cache: the home's cache folder; it is created if it does not exist.
        prefix: one of `PREFIXES`.
    """
    with exclusive_lock(cache / "scratch"):
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=cache))
        owner = try_lock(folder / OWNER_FILE)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if owner:
            owner.close()


def remove_abandoned(
    cache: Path, prefix: str, prepare: Callable[[Path], object] | None = None
) -> tuple[str, ...]:
    """Remove the scratch folders whose owners have ended; return their names.

    Args:
        cache: the home's cache folder.
        prefix: one of `PREFIXES`.
        prepare: called with each folder before it is removed.
    """
    if not cache.is_dir():
        return ()
    removed: list[str] = []
    with exclusive_lock(cache / "scratch"):
        for folder in sorted(cache.glob(f"{prefix}*")):
            if not _is_scratch(folder) or is_locked(folder / OWNER_FILE):
                continue
            if prepare:
                prepare(folder)
            shutil.rmtree(folder, ignore_errors=True)  # its owner may be removing it
            removed.append(folder.name)
    return tuple(removed)


def _is_scratch(folder: Path) -> bool:
    """Return whether a folder with a prefix is a scratch folder, also one of an earlier version.

    Those had no owner file, and those of a training, whose names are not hidden, one cluster.
    """
    if folder.is_symlink() or not folder.is_dir():
        return False
    names = {path.name for path in folder.iterdir()}
    return folder.name.startswith(".") or OWNER_FILE in names or names <= {"smallest"}
