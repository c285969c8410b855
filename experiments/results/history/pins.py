"""Pins: which sweeps `ackbench prune` keeps whatever their age and size.

A pin is a file in the sweep's folder, so that it moves with the sweep and is never published.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from ackbench.experiments.messages.phrases import one_line
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.infra.machine.files import replace_file
from ackbench.infra.machine.home import Home

PIN: Final = ".pinned"
"""Its content is the reason; names with a dot are not published."""


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


def unpin(sweep: SweepFolder) -> bool:
    """Remove the pin of a sweep; return whether there was one."""
    file = _file(sweep)
    if not file.exists():
        return False
    file.unlink()
    return True


def _file(sweep: SweepFolder) -> Path:
    return sweep.root / PIN
