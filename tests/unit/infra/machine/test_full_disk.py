"""Which disk is full: that of the folder that is written to, and not that of a store."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from ackbench.infra.errors import HarnessError
from ackbench.infra.machine.resources import full_disk

NO_SPACE = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
STORE = "s3://bucket/sweeps/quick cannot be written: [Errno 28] No space left on device"


def caused(text: str, cause: Exception) -> Exception:
    """Return an error with a cause."""
    error = HarnessError(text)
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error",
    [
        NO_SPACE,
        caused("the ledger cannot be written", NO_SPACE),
        HarnessError("sqlite3.OperationalError: database or disk is full"),
        HarnessError(f"verify: {STORE}\nOSError: [Errno 28] No space left on device"),
    ],
)
def test_the_full_disk_of_the_folder_is_named(error: Exception, tmp_path: Path) -> None:
    """Also if a store has run out of space too."""
    assert str(full_disk(error, tmp_path)).startswith(f"the disk of {tmp_path} is full (")


@pytest.mark.parametrize(
    "error",
    [
        caused(STORE, NO_SPACE),
        caused(f"not published: the results ({STORE})", caused(STORE, NO_SPACE)),
        HarnessError(f"{STORE}\nreport: {STORE}"),
    ],
)
def test_the_full_disk_of_a_store_is_not_that_of_the_folder(
    error: Exception, tmp_path: Path
) -> None:
    """The error names the store; to clean the home would free nothing there."""
    assert full_disk(error, tmp_path) is None
