"""One process at a time: two set-ups at once make a thing once, and the second finds it made."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def exclusively(target: Path) -> Iterator[None]:
    """Hold the lock of what is to be made; waits for whoever holds it. The kernel frees it when its holder ends (flock(2))."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_name(f".{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
