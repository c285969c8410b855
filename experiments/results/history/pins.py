"""Pins: which sweeps `ackbench prune` keeps whatever their age and size.

A pin is a file in the sweep's folder, so that it moves with the sweep and is never published. A
store has pins of its own, which count on all hosts.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ackbench.experiments.messages.phrases import one_line
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.infra.machine.files import replace_file
from ackbench.infra.machine.home import Home

if TYPE_CHECKING:
    from ackbench.experiments.ledger.location import Location

PIN: Final = ".pinned"
"""Its content is the reason; names with a dot are not published."""
_PINS: Final = "pins"
"""The folder of a store with a file for each pinned sweep."""
_SUFFIX: Final = ".txt"


def pinned_sweeps(home: Home, names: Iterable[str]) -> frozenset[str]:
    """Return which of these sweeps are pinned."""
    return frozenset(name for name in names if (home.sweeps / name / PIN).exists())


def pin(sweep: SweepFolder, reason: str = "") -> None:
    """Pin a sweep.

    Args:
        sweep: the sweep.
        reason: why, for people.
    """
    replace_file(_file(sweep), f"{one_line(reason)}\n" if reason else "")


def unpin(sweep: SweepFolder) -> None:
    """Remove the pin of a sweep, if there is one."""
    _file(sweep).unlink(missing_ok=True)


def is_pinned(sweep: SweepFolder) -> bool:
    """Return whether a sweep is pinned in its home."""
    return _file(sweep).exists()


def pin_in_store(store: Location, sweep_id: str, reason: str = "") -> None:
    """Pin a sweep in a store, for all hosts.

    Args:
        store: the store.
        sweep_id: the sweep.
        reason: why, for people.

    Raises:
        LocationError: the store cannot be written.
    """
    content = f"{one_line(reason)}\n" if reason else "\n"
    store.at(_PINS).write(f"{sweep_id}{_SUFFIX}", content.encode())


def unpin_in_store(store: Location, sweep_id: str) -> None:
    """Remove the pin of a sweep in a store, if there is one.

    Raises:
        LocationError: the store cannot be written.
    """
    store.at(_PINS).delete(f"{sweep_id}{_SUFFIX}")


def pins_of_store(store: Location) -> frozenset[str]:
    """Return the sweeps that are pinned in a store.

    Raises:
        LocationError: the store cannot be read.
    """
    return frozenset(
        name.removesuffix(_SUFFIX)
        for name in store.at(_PINS).list_files()
        if name.endswith(_SUFFIX)
    )


def _file(sweep: SweepFolder) -> Path:
    return sweep.root / PIN
