"""Rows in a file mapping: what a client notes there survives it."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from infra.errors import HarnessError

Column = np.ndarray[tuple[int], np.dtype[np.int64]]
Records = np.ndarray[tuple[int], np.dtype[np.void]]


def reserve(path: Path, layout: np.dtype[np.void], rows: int) -> None:
    """Make the file: rows of zeros, all of their disk space reserved, so that a full disk is an error now and no signal later.

    Raises:
        OSError: the disk is full, or the folder cannot be written.
    """
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, rows * layout.itemsize)


def attach(path: Path, layout: np.dtype[np.void]) -> Records:
    """Map the file, to read and to write.

    Raises:
        HarnessError: there is none.
    """
    try:
        return np.memmap(path, layout, "r+")
    except (OSError, ValueError) as error:
        raise HarnessError(f"the client left nothing at {path}: {error}") from error
