"""Arrays in memory-mapped files: what a client process writes there survives a crash (SIGKILL).

The client writes to memory; the kernel keeps the pages when the process dies, and the parent reads
the file. Nothing is flushed to the disk: only a crash of the machine would lose the rows, and then
the trial is lost too.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from ackbench.infra.errors import HarnessError

Column = np.ndarray[tuple[int], np.dtype[np.int64]]
Records = np.ndarray[tuple[int], np.dtype[np.void]]


def reserve(path: Path, layout: np.dtype[np.void], rows: int) -> None:
    """Create a file of zeroed rows with all disk space allocated.

    Without the allocation a full disk would raise SIGBUS in the middle of the load; with it, the
    error comes here.

    Raises:
        OSError: the disk is full, or the folder is not writable.
    """
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, rows * layout.itemsize)


def attach(path: Path, layout: np.dtype[np.void]) -> Records:
    """Map an existing file, readable and writable.

    Raises:
        HarnessError: the file does not exist or is empty.
    """
    try:
        return np.memmap(path, layout, "r+")
    except (OSError, ValueError) as error:
        raise HarnessError(f"the client left no file at {path}: {error}") from error
