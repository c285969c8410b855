"""The files of a replica: record batches, checkpoints, and truncation to the recovery point.

A replica's folder is `<topic>-<partition>` in the node's log folder. It holds segments, which are
sequences of record batches (https://kafka.apache.org/documentation/#recordbatch), and a
`leader-epoch-checkpoint` with the first offset of each leader epoch (KIP-101). The log folder
itself holds `recovery-point-offset-checkpoint`: up to which offset the broker has recorded that it
synced each replica.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ackbench.infra.errors import HarnessError
from ackbench.infra.kafka.spec import LeaderEpoch

LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
METADATA_LOG: Final = "__cluster_metadata-0"
"""Raft syncs each record before it counts (KIP-595): a power cut leaves it complete."""
_CHECKPOINT_VERSION: Final = 0
_CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"

HEADER_BYTES: Final = 61
"""Size of a record batch's header."""
MAGIC: Final = 2
"""The format version of record batches since Kafka 0.11."""
_HEADER: Final = struct.Struct(">qiibIhiqqqhi")
"""The header's first fields: base offset, length of what follows, partition leader epoch, magic,
CRC, attributes, last offset delta, base timestamp, max timestamp, producer id, producer epoch, base
sequence."""
_LENGTH_FIELD_END: Final = 12
"""The length field counts the bytes from here on."""
_CRC_START: Final = 21
"""The CRC covers everything from the attributes on."""
_CRC32C_POLYNOMIAL: Final = 0x82F6_3B78
"""Reflected (RFC 3720, B.4)."""
_BYTE: Final = 0xFF


# Record batches


@dataclass(frozen=True)
class RecordBatch:
    """One record batch of a segment."""

    position: int
    """Bytes from the start of the segment."""
    size_bytes: int
    base_offset: int
    last_offset: int
    crc: int
    """The CRC that the header states."""
    max_timestamp_ms: int
    """The latest timestamp of its records, in milliseconds since the epoch."""
    producer_id: int = -1
    """-1: its producer is not idempotent (KIP-98)."""
    producer_epoch: int = -1
    base_sequence: int = -1

    @property
    def end(self) -> int:
        """Where the next batch begins, in bytes from the start of the segment."""
        return self.position + self.size_bytes


def read_batches(segment: bytes | mmap.mmap) -> Iterator[RecordBatch]:
    """Yield the batches of a segment, up to its end or to the first incomplete batch."""
    at = 0
    while at + HEADER_BYTES <= len(segment):
        (base, length, _, magic, crc, _, last_delta, _, max_timestamp_ms, *producer) = (
            _HEADER.unpack_from(segment, at)
        )
        size = _LENGTH_FIELD_END + length
        if magic != MAGIC or size < HEADER_BYTES or at + size > len(segment):
            return
        yield RecordBatch(at, size, base, base + last_delta, crc, max_timestamp_ms, *producer)
        at += size


def read_batches_of_file(segment: Path) -> Iterator[RecordBatch]:
    """Yield the batches of a segment file, whose headers alone are read from disk."""
    with segment.open("rb") as file:
        if os.fstat(file.fileno()).st_size:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                yield from read_batches(content)


def has_valid_crc(segment: bytes, batch: RecordBatch) -> bool:
    """Return whether the CRC in a batch's header matches its bytes."""
    return crc32c(segment[batch.position + _CRC_START : batch.end]) == batch.crc


def crc32c(data: bytes) -> int:
    """Return the CRC-32C of some bytes. It is slow: meant for single batches."""
    crc = 0xFFFF_FFFF
    for byte in data:
        crc = _CRC32C_TABLE[(crc ^ byte) & _BYTE] ^ (crc >> 8)
    return crc ^ 0xFFFF_FFFF


def crc32c_table() -> Sequence[int]:
    """Return the CRC-32C of each byte, for calculations byte by byte."""
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (_CRC32C_POLYNOMIAL if crc & 1 else 0)
        table.append(crc)
    return table


_CRC32C_TABLE: Final = crc32c_table()


# Checkpoints


def read_leader_epochs(data: Path, node_id: int, topic: str) -> Iterator[LeaderEpoch]:
    """Yield the leader epochs of a topic's replicas on one node, by partition and epoch.

    A replica without a checkpoint has no leader epoch yet.

    Args:
        data: the node's log folder.
        node_id: the node's id.
        topic: the topic's name.

    Raises:
        HarnessError: a checkpoint has an unknown format.
    """
    for partition, replica in sorted(_replicas_of_topic(data, topic)):
        path = replica / LEADER_EPOCH_CHECKPOINT
        if path.is_file():
            yield from (
                LeaderEpoch(node_id, partition, epoch, offset)
                for epoch, offset in parse_leader_epochs(path.read_text(errors="replace"), path)
            )


def parse_leader_epochs(text: str, path: Path) -> tuple[tuple[int, int], ...]:
    """Return the leader epochs of a `leader-epoch-checkpoint`, each with its first offset.

    Args:
        text: the file's content. Kafka creates the file empty.
        path: the file, for the error message.

    Raises:
        HarnessError: the text has an unknown format, or is incomplete.
    """
    entries = _checkpoint_entries(text, path)
    try:
        return tuple((int(epoch), int(offset)) for epoch, offset in entries)
    except ValueError as error:
        raise HarnessError(f"{path} is not a leader-epoch checkpoint: {error}") from error


def read_recovery_points(data: Path) -> Mapping[str, int]:
    """Return the recovery point of each replica (`topic-0`) of a log folder that has one.

    Raises:
        HarnessError: the checkpoint has an unknown format, or is incomplete.
    """
    path = data / RECOVERY_POINT_CHECKPOINT
    if not path.is_file():
        return {}
    entries = _checkpoint_entries(path.read_text(errors="replace"), path)
    try:
        return {f"{topic}-{int(partition)}": int(offset) for topic, partition, offset in entries}
    except ValueError as error:
        raise HarnessError(f"{path} is not a checkpoint of offsets: {error}") from error


def _checkpoint_entries(text: str, path: Path) -> Sequence[Sequence[str]]:
    """Return the fields of each entry of a checkpoint.

    Kafka replaces the file atomically (`CheckpointFile`). It holds a version, the number of
    entries, and one entry per line.

    Raises:
        HarnessError: another version, or another number of entries than the file states.
    """
    if not text:
        return ()
    lines = text.splitlines()
    try:
        version, count = map(int, lines[:2])
    except ValueError as error:
        raise HarnessError(f"{path} is not a checkpoint of Kafka: {error}") from error
    entries = [line.split() for line in lines[2:]]
    if version != _CHECKPOINT_VERSION or count != len(entries):
        raise HarnessError(
            f"{path} has version {version} and {len(entries)} of {count} entries; "
            f"expected version {_CHECKPOINT_VERSION} and all entries"
        )
    return entries


def _replicas_of_topic(data: Path, topic: str) -> Iterator[tuple[int, Path]]:
    """Yield partition and folder of each replica; a deleted one has another suffix."""
    for replica in data.glob(f"{topic}-*"):
        number = replica.name.removeprefix(f"{topic}-")
        if number.isdecimal():
            yield int(number), replica


# The log of one replica


@dataclass(frozen=True)
class ReplicaLog:
    """How much of a partition a node has stored."""

    node_id: int
    size_bytes: int
    end_offset: int
    """The offset after the last complete batch."""
    recovery_point: int | None
    """Up to which offset the broker has recorded that it synced the log; `None`: not recorded yet.
    Brokers record it once a minute and at a clean shutdown."""


def read_replica_log(data: Path, node_id: int, topic: str, partition: int) -> ReplicaLog:
    """Return what a node's log folder holds of a partition now; a missing replica is empty.

    Raises:
        HarnessError: the recovery-point checkpoint has an unknown format.
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
    """Return a replica's segments by base offset, which is their file name."""
    return tuple(sorted(path for path in replica.glob("*.log") if path.stem.isdecimal()))


def _end_offset(segments: tuple[Path, ...]) -> int:
    """Return the log end offset; an empty last segment begins there, and is named so."""
    if not segments:
        return 0
    last = segments[-1]
    ends = (batch.last_offset + 1 for batch in read_batches(last.read_bytes()))
    return max((int(last.stem), *ends))


# Truncation to the recovery points


def truncate_to_recovery_points(data: Path) -> int:
    """Truncate each replica of a stopped node to its recovery point.

    This is the worst that a power cut can leave: only what the broker had recorded as synced. It
    needs no root. Real power cuts keep more: the kernel writes unsynced data back within about
    half a minute, and the recorded recovery point is up to a minute old.

    A replica without a recovery point becomes empty. Indexes and producer snapshots beyond the
    recovery point are removed too; the broker rebuilds them when it starts.

    Args:
        data: the node's log folder.

    Returns:
        How many bytes of records were removed, over all replicas.

    Raises:
        HarnessError: the recovery-point checkpoint has an unknown format.
    """
    points = read_recovery_points(data)
    (data / _CLEAN_SHUTDOWN_FILE).unlink(missing_ok=True)
    return sum(
        _truncate_replica(replica, points.get(replica.name, 0))
        for replica in sorted(data.iterdir())
        if replica.is_dir() and segment_files(replica) and replica.name != METADATA_LOG
    )


def _truncate_replica(replica: Path, recovery_point: int) -> int:
    """Remove what lies beyond the recovery point; return how many bytes of records that was."""
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
    """Return how many bytes of a segment are complete batches below an offset."""
    return max(
        (batch.end for batch in read_batches(segment.read_bytes()) if batch.last_offset < offset),
        default=0,
    )
