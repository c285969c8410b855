"""Each replica's `leader-epoch-checkpoint`: at which offset each leader's epoch begins in the log that it has.

Kafka writes the file whole under another name and renames it (`CheckpointFile`): a version, how many entries follow, and an entry a line.
https://cwiki.apache.org/confluence/display/KAFKA/KIP-101+-+Alter+Replication+Protocol+to+use+Leader+Epoch+rather+than+High+Watermark+for+Truncation
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from infra.errors import HarnessError
from infra.kafka.spec import LeaderEpoch

LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
_VERSION: Final = 0


def read_leader_epochs(data: Path, node_id: int, topic: str) -> Iterator[LeaderEpoch]:
    """Give the epochs of the topic's replicas in a node's data folder, by partition and epoch; a replica without the file tells none.

    Raises:
        HarnessError: a file is not of the known form; the text names it.
    """
    for partition, folder in sorted(_replicas(data, topic)):
        path = folder / LEADER_EPOCH_CHECKPOINT
        if path.is_file():
            yield from (
                LeaderEpoch(node_id, partition, epoch, offset)
                for epoch, offset in parse_leader_epochs(path.read_text(), path)
            )


def parse_leader_epochs(text: str, path: Path) -> tuple[tuple[int, int], ...]:
    """Return leader epochs and their first offsets; Kafka makes the file with nothing in it, and writes it whole with the first epoch.

    Raises:
        HarnessError: that is no such file, or it is cut short.
    """
    if not text:
        return ()
    try:
        version, count, *entries = text.splitlines()
        epochs = tuple(
            (int(epoch), int(offset)) for epoch, offset in (entry.split() for entry in entries)
        )
        known = int(version) == _VERSION and int(count) == len(epochs)
    except ValueError as error:
        raise HarnessError(f"{path} is no leader-epoch checkpoint: {error}") from error
    if not known:
        raise HarnessError(
            f"{path} is of version {version} with {count} entries and holds {len(epochs)}; known is version {_VERSION}, whole"
        )
    return epochs


def _replicas(data: Path, topic: str) -> Iterator[tuple[int, Path]]:
    """A replica's folder is `<topic>-<partition>`; what is being deleted has another ending."""
    for folder in data.glob(f"{topic}-*"):
        number = folder.name.removeprefix(f"{topic}-")
        if number.isdecimal():
            yield int(number), folder


# ---------- One replica's log as its files tell: how much there is, up to which offset, and how much of it is known to be synced.


# ---------- Record batches as they lie in a segment: https://kafka.apache.org/documentation/#recordbatch. Pure.


_HEAD: Final = struct.Struct(">qiibIhiqq")
"""Base offset, length of what follows, partition leader epoch, magic, CRC, attributes, last offset delta, base timestamp, max timestamp."""
_LENGTH_ENDS: Final = 12
"""Where the length field ends and what it counts begins."""
_CHECKED_FROM: Final = 21
"""The CRC covers all from the attributes on."""
HEADER_BYTES: Final = 61
MAGIC: Final = 2
_POLYNOMIAL: Final = 0x82F6_3B78
"""CRC-32C, reflected (RFC 3720, B.4)."""
_BYTE: Final = 0xFF


@dataclass(frozen=True)
class RecordBatch:
    """One batch; positions are bytes from the segment's start."""

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int
    crc: int
    """As its header says."""
    max_timestamp_ms: int
    """Of its records the latest, since the epoch."""

    @property
    def end(self) -> int:
        """Where the next one begins."""
        return self.position + self.size_bytes


def read_batches(segment: bytes) -> Iterator[RecordBatch]:
    """Give the batches of a segment, up to its end or to what is no whole batch."""
    at = 0
    while at + HEADER_BYTES <= len(segment):
        base, length, _, magic, crc, _, last_delta, _, latest_ms = _HEAD.unpack_from(segment, at)
        size = _LENGTH_ENDS + length
        if magic != MAGIC or size < HEADER_BYTES or at + size > len(segment):
            return
        yield RecordBatch(at, size, base, base + last_delta, crc, latest_ms)
        at += size


def has_valid_crc(segment: bytes, batch: RecordBatch) -> bool:
    """Whether a batch's bytes are those that its CRC was made of."""
    return crc32c(segment[batch.position + _CHECKED_FROM : batch.end]) == batch.crc


def crc32c(data: bytes) -> int:
    """Return the CRC-32C of some bytes; for single batches, it is slow."""
    crc = 0xFFFF_FFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & _BYTE] ^ (crc >> 8)
    return crc ^ 0xFFFF_FFFF


def _table() -> Sequence[int]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (_POLYNOMIAL if crc & 1 else 0)
        table.append(crc)
    return table


_TABLE: Final = _table()


RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"


@dataclass(frozen=True)
class ReplicaLog:
    """What a node has of a partition."""

    node_id: int
    size_bytes: int
    end_offset: int
    """Behind the last whole batch."""
    recovery_point: int | None
    """Up to where the broker has noted down that it synced; `None`: nowhere yet. Noted once a minute, and when it ends in good order."""


def read_replica_log(data: Path, node_id: int, topic: str, partition: int) -> ReplicaLog:
    """Return what a node's log folder holds of a partition now; nothing, where it has no such folder.

    Raises:
        HarnessError: the checkpoint is not of the known form.
    """
    segments = segment_files(data / f"{topic}-{partition}")
    size_bytes = sum(segment.stat().st_size for segment in segments)
    return ReplicaLog(
        node_id,
        size_bytes,
        _end_offset(segments),
        read_recovery_points(data).get(f"{topic}-{partition}"),
    )


def segment_files(replica: Path) -> tuple[Path, ...]:
    """Return a replica's segments, by base offset, which is their name."""
    return tuple(sorted(path for path in replica.glob("*.log") if path.stem.isdecimal()))


def read_recovery_points(data: Path) -> Mapping[str, int]:
    """Return the recovery point of each replica (`topic-0`) that has one.

    Raises:
        HarnessError: the checkpoint is not of the known form.
    """
    path = data / RECOVERY_POINT_CHECKPOINT
    if not path.is_file() or not (text := path.read_text()):
        return {}
    try:
        version, count, *entries = text.splitlines()
        points = {
            f"{topic}-{int(partition)}": int(offset)
            for topic, partition, offset in map(str.split, entries)
        }
        known = int(version) == _VERSION and int(count) == len(points)
    except ValueError as error:
        raise HarnessError(f"{path} is no checkpoint of offsets: {error}") from error
    if not known:
        raise HarnessError(
            f"{path} is of version {version} with {count} entries and holds {len(points)}; known is version {_VERSION}, whole"
        )
    return points


def _end_offset(segments: tuple[Path, ...]) -> int:
    """The last segment may hold nothing: then its name says where it begins."""
    ends = (*(int(segment.stem) for segment in segments[-1:]), *_ends(segments[-1:]))
    return max(ends, default=0)


def _ends(segments: tuple[Path, ...]) -> Iterator[int]:
    return (
        batch.last_offset + 1
        for segment in segments
        for batch in read_batches(segment.read_bytes())
    )


# ---------- The worst that a power cut may leave, made by hand: nothing but what the broker had noted down as synced. For machines without root.
#
# Real power cuts keep more: the kernel writes back within about half a minute what nobody synced, and the note is up to a minute old.


METADATA_LOG: Final = "__cluster_metadata-0"
"""Raft syncs each record before it counts (KIP-595): a power cut leaves it whole."""
_CLEAN: Final = ".kafka_cleanshutdown"


def truncate_to_recovery_points(data: Path) -> int:
    """Cut each replica's log in a stopped node's log folder to its recovery point; return how many bytes of records that took, of all of them.

    A replica that has no recovery point is left with nothing.

    Indexes and snapshots of producers beyond it go too. The broker makes them again where they are missing.

    Raises:
        HarnessError: the checkpoint is not of the known form.
    """
    points = read_recovery_points(data)
    (data / _CLEAN).unlink(missing_ok=True)
    return sum(_cut(replica, points.get(replica.name, 0)) for replica in _replicas_log_files(data))


def _replicas_log_files(data: Path) -> Iterator[Path]:
    return (
        path
        for path in sorted(data.iterdir())
        if path.is_dir() and segment_files(path) and path.name != METADATA_LOG
    )


def _cut(replica: Path, recovery_point: int) -> int:
    before_bytes = _size_bytes(replica)
    for segment in segment_files(replica):
        keep_bytes = _bytes_below(segment, recovery_point)
        if keep_bytes == segment.stat().st_size:
            continue
        os.truncate(segment, keep_bytes)
        for suffix in (".index", ".timeindex", ".txnindex"):
            segment.with_suffix(suffix).unlink(missing_ok=True)
        if keep_bytes == 0 and segment != segment_files(replica)[0]:
            segment.unlink()
    for snapshot in replica.glob("*.snapshot"):
        if snapshot.stem.isdecimal() and int(snapshot.stem) > recovery_point:
            snapshot.unlink()
    return before_bytes - _size_bytes(replica)


def _size_bytes(replica: Path) -> int:
    return sum(segment.stat().st_size for segment in segment_files(replica))


def _bytes_below(segment: Path, offset: int) -> int:
    """How much of a segment holds records below an offset; what is no whole batch is not held for synced."""
    return max(
        (batch.end for batch in read_batches(segment.read_bytes()) if batch.last_offset < offset),
        default=0,
    )
