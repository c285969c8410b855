"""The worst that a power cut may leave, made by hand: nothing but what the broker had noted down as synced. For machines without root.

Real power cuts keep more: the kernel writes back within about half a minute what nobody synced, and the note is up to a minute old.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from infra.disk.batches import batches_in
from infra.disk.replica import recovery_points, segments_of

METADATA: Final = "__cluster_metadata-0"
"""Raft syncs each record before it counts (KIP-595): a power cut leaves it whole."""
_CLEAN: Final = ".kafka_cleanshutdown"


def cut_to_recovery_points(data: Path) -> int:
    """Cut each replica's log in a stopped node's log folder to its recovery point; return how many bytes of records that took, of all of them.

    A replica that has no recovery point is left with nothing.

    Indexes and snapshots of producers beyond it go too. The broker makes them again where they are missing.

    Raises:
        HarnessError: the checkpoint is not of the known form.
    """
    points = recovery_points(data)
    (data / _CLEAN).unlink(missing_ok=True)
    return sum(_cut(replica, points.get(replica.name, 0)) for replica in _replicas(data))


def _replicas(data: Path) -> Iterator[Path]:
    return (path for path in sorted(data.iterdir()) if path.is_dir() and segments_of(path) and path.name != METADATA)


def _cut(replica: Path, recovery_point: int) -> int:
    before_bytes = _size_bytes(replica)
    for segment in segments_of(replica):
        keep_bytes = _bytes_below(segment, recovery_point)
        if keep_bytes == segment.stat().st_size:
            continue
        os.truncate(segment, keep_bytes)
        for suffix in (".index", ".timeindex", ".txnindex"):
            segment.with_suffix(suffix).unlink(missing_ok=True)
        if keep_bytes == 0 and segment != segments_of(replica)[0]:
            segment.unlink()
    for snapshot in replica.glob("*.snapshot"):
        if snapshot.stem.isdecimal() and int(snapshot.stem) > recovery_point:
            snapshot.unlink()
    return before_bytes - _size_bytes(replica)


def _size_bytes(replica: Path) -> int:
    return sum(segment.stat().st_size for segment in segments_of(replica))


def _bytes_below(segment: Path, offset: int) -> int:
    """How much of a segment holds records below an offset; what is no whole batch is not held for synced."""
    return max((batch.end for batch in batches_in(segment.read_bytes()) if batch.last_offset < offset), default=0)
