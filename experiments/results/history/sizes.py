"""The space that a home and its sweeps take on the disk.

A home of two thousand sweeps has a million files. Those of a sweep are looked at again only when
one was added, removed or replaced (`folder_stamp`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Final

from ackbench.experiments.results.history.store import SummaryStore
from ackbench.experiments.results.history.summary import folder_stamp
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.infra.machine.files import folder_bytes
from ackbench.infra.machine.home import Home

_NOT_COUNTED: Final = ("cache", "published")
"""Folders of the home that are made or fetched again."""


@dataclass(frozen=True)
class HomeSizes:
    """The space that a home takes, in bytes."""

    total: int
    """Without its caches."""
    sweeps: Mapping[str, int]
    """By id: the sweep with its logs and its clusters' logs."""


def home_sizes(home: Home, sweep_ids: Iterable[str]) -> HomeSizes:
    """Return the sizes of a home and of some of its sweeps."""
    own = _folder_sizes(home, sweep_ids)
    rest = sum(
        _bytes(entry)
        for entry in _entries(home.root)
        if entry.name not in {*_NOT_COUNTED, "sweeps", "logs", "clusters"}
        and not entry.is_symlink()
    )
    rest += sum(_bytes(entry) for entry in _entries(home.sweeps) if entry.name not in own)
    for parent in (home.logs, home.clusters):
        for entry in _entries(parent):
            # The folder of a cluster is named `<sweep>.<number>`.
            owner = entry.name if parent == home.logs else PurePath(entry.name).stem
            if owner in own and entry.is_dir(follow_symlinks=False):
                own[owner] += _bytes(entry)
            else:
                rest += _bytes(entry)
    return HomeSizes(rest + sum(own.values()), own)


def _folder_sizes(home: Home, sweep_ids: Iterable[str]) -> dict[str, int]:
    """Return the size of each sweep's folder."""
    found = {}
    sweeps = [SweepFolder(home.sweeps / sweep_id) for sweep_id in sweep_ids]
    if not sweeps:
        return {}
    with SummaryStore(home) as store:
        kept = store.sizes()
        for sweep in sweeps:
            stamp = folder_stamp(sweep)
            known_stamp, size_bytes = kept.get(sweep.sweep_id, ("", 0))
            if stamp != known_stamp:
                size_bytes = folder_bytes(sweep.root)
                store.keep_size(sweep.sweep_id, stamp, size_bytes)
            found[sweep.sweep_id] = size_bytes
    return found


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except (FileNotFoundError, NotADirectoryError):
        return


def _bytes(entry: os.DirEntry[str]) -> int:
    if entry.is_dir(follow_symlinks=False):
        return folder_bytes(Path(entry.path))
    return entry.stat(follow_symlinks=False).st_blocks * 512
