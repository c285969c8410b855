"""The file of librdkafka that a process loads: the installed one, or that of another version."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Final

from ackbench.experiments.messages.errors import ClientLibraryError
from ackbench.infra.machine.home import INSTALL

LIBRARY_VARIABLE: Final = "ACKBENCH_LIBRDKAFKA"
"""The path of a library that `versions` has fetched; ackbench sets it for the processes of clients
of another version than the installed one."""


def is_installed() -> bool:
    """Return whether confluent-kafka is installed, which ships librdkafka."""
    return importlib.util.find_spec("confluent_kafka") is not None


def library_path() -> Path:
    """Return the path of this process's shared library.

    Raises:
        ClientLibraryError: confluent-kafka is not installed, or it uses the system's librdkafka.
    """
    if other := os.environ.get(LIBRARY_VARIABLE):
        return Path(other)
    return installed_library_path()


def installed_library_path() -> Path:
    """Return the path of the shared library in the installed confluent-kafka.

    Raises:
        ClientLibraryError: as `library_path`.
    """
    spec = importlib.util.find_spec("confluent_kafka")
    if spec is None or spec.origin is None:
        raise ClientLibraryError(f"confluent-kafka is not installed: `{INSTALL}` installs it")
    folder = Path(spec.origin).parent.parent / "confluent_kafka.libs"
    found = sorted(folder.glob("librdkafka*.so*"))
    if not found:
        raise ClientLibraryError(
            f"no librdkafka in {folder}: install confluent-kafka from a wheel, which ships one"
        )
    return found[0]
