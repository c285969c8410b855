"""Where a sweep's folder is: on this machine, or in any storage that `pyarrow.fs` opens."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow.fs as pafs


@dataclass(frozen=True)
class Location:
    """A folder in a file system."""

    uri: str
    """A path or a URI that opens the same folder on another machine with the same storage."""
    files: pafs.FileSystem
    path: str
    """In `files`."""


def open_location(named: str) -> Location:
    """Open a folder: a path of this machine, or a URI of `pyarrow.fs.FileSystem.from_uri`."""
    if not urlsplit(named).scheme:
        path = str(Path(named).resolve())
        return Location(path, pafs.LocalFileSystem(), path)
    files, path = pafs.FileSystem.from_uri(named)
    return Location(named, files, path.rstrip("/"))
