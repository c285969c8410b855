"""One replica's log as its files tell: how much there is, up to which offset, and how much of it is known to be synced."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from infra.disk.batches import batches_in
from infra.errors import HarnessError

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
_VERSION: Final = 0


@dataclass(frozen=True)
class ReplicaLog:
    """What a node has of a partition."""

    node_id: int
    size_bytes: int
    end_offset: int
    """Behind the last whole batch."""
    recovery_point: int | None
    """Up to where the broker has noted down that it synced; `None`: nowhere yet. Noted once a minute, and when it ends in good order."""


def replica_log(data: Path, node_id: int, topic: str, partition: int) -> ReplicaLog:
    """Return what a node's log folder holds of a partition now; nothing, where it has no such folder.

    Raises:
        HarnessError: the checkpoint is not of the known form.
    """
    segments = segments_of(data / f"{topic}-{partition}")
    size_bytes = sum(segment.stat().st_size for segment in segments)
    return ReplicaLog(node_id, size_bytes, _end_offset(segments), recovery_points(data).get(f"{topic}-{partition}"))


def segments_of(replica: Path) -> tuple[Path, ...]:
    """Return a replica's segments, by base offset, which is their name."""
    return tuple(sorted(path for path in replica.glob("*.log") if path.stem.isdecimal()))


def recovery_points(data: Path) -> Mapping[str, int]:
    """Return the recovery point of each replica (`topic-0`) that has one.

    Raises:
        HarnessError: the checkpoint is not of the known form.
    """
    path = data / RECOVERY_POINTS
    if not path.is_file() or not (text := path.read_text()):
        return {}
    try:
        version, count, *entries = text.splitlines()
        points = {f"{topic}-{int(partition)}": int(offset) for topic, partition, offset in map(str.split, entries)}
        known = int(version) == _VERSION and int(count) == len(points)
    except ValueError as error:
        raise HarnessError(f"{path} is no checkpoint of offsets: {error}") from error
    if not known:
        raise HarnessError(f"{path} is of version {version} with {count} entries and holds {len(points)}; known is version {_VERSION}, whole")
    return points


def _end_offset(segments: tuple[Path, ...]) -> int:
    """The last segment may hold nothing: then its name says where it begins."""
    ends = (*(int(segment.stem) for segment in segments[-1:]), *_ends(segments[-1:]))
    return max(ends, default=0)


def _ends(segments: tuple[Path, ...]) -> Iterator[int]:
    return (batch.last_offset + 1 for segment in segments for batch in batches_in(segment.read_bytes()))
