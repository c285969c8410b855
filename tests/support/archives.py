"""Archives of this repository, unpacked by every Python that the project supports."""

from __future__ import annotations

import tarfile
from pathlib import Path


def unpack_archive(archive: Path, folder: Path) -> list[str]:
    """Unpack a tar archive into a folder; return the names of its members.

    Python has filters from 3.11.4 on, and Debian 12 has Python 3.11.2.
    """
    with tarfile.open(archive) as tar:
        if data_filter := getattr(tarfile, "data_filter", None):
            tar.extraction_filter = data_filter
        tar.extractall(folder)  # noqa: S202 - the archives are this repository's
        return tar.getnames()
