"""Where compiled code is kept, so that it is compiled once a machine and not once a process.

Numba looks at a function's own file alone to tell whether what it kept is out of date, and not at what was inlined from others
(numba.readthedocs.io, "Notes on Caching"). The folder's name is therefore a digest of all sources that may take part.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

from experiments.clients.librdkafka.library import version
from infra.machine.home import Home

VARIABLE: Final = "NUMBA_CACHE_DIR"


def cache_folder() -> Path:
    """Return the folder: below the one that `NUMBA_CACHE_DIR` names, or in the home's cache.

    Raises:
        ClientLibraryError: librdkafka was not found, or is of a version not verified.
    """
    digest = hashlib.sha256(version().encode())
    for source in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(source.read_bytes())
    name, named = digest.hexdigest()[:16], os.environ.get(VARIABLE)
    folder = Path(named) if named else Home.from_environment().cache / "numba"
    return folder if folder.name == name else folder / name
