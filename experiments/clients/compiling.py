"""Compiles what the clients run, once a machine: importing it is enough."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from experiments.clients.code_cache import cache_folder

_DONE: Final = "compiled"


def ensure_compiled(say: Callable[[str], None]) -> None:
    """Compile what the clients run, unless it lies in the cache already; that costs next to nothing to find out.

    Args:
        say: tells a person what takes long.

    Raises:
        ClientLibraryError: librdkafka was not found, or is of a version not verified.
        OSError: the cache cannot be written.
    """
    done = cache_folder() / _DONE
    if done.exists():
        return
    say("compiling the clients (once; about 10 seconds)")
    from experiments.clients import producing, reading  # noqa: F401 - importing compiles

    done.parent.mkdir(parents=True, exist_ok=True)
    done.touch()
