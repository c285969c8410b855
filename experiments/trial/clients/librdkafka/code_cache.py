"""The folder of the compiled code, which is compiled once per machine, not once per process.

Numba checks only a function's own file to see whether its cached code is stale, not the files of
what was inlined (numba.readthedocs.io, "Notes on Caching"). The folder's name is therefore a digest
of all sources that can take part. This module does not import Numba: `setup` needs only the path.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

from ackbench.infra.machine.home import Home

CACHE_VARIABLE: Final = "NUMBA_CACHE_DIR"


def cache_folder() -> Path:
    """Return the cache folder, below `NUMBA_CACHE_DIR` if that is set, else in the home's cache.

    All versions of librdkafka share it: compiled code calls functions by their names, and no
    version with another layout of messages is loaded. A process that inherits the variable with
    this folder already in it gets the same folder.
    """
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(source.read_bytes())
    name, configured = digest.hexdigest()[:16], os.environ.get(CACHE_VARIABLE)
    folder = Path(configured) if configured else Home.from_environment().cache / "numba"
    return folder if folder.name == name else folder / name
