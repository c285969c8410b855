"""Files of a replica: batches, checkpoints, truncation to the recovery point, and a flipped bit."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from ackbench.experiments.trial.log_capture import StoredBatches, count_by_second
from ackbench.infra.disk.damage import flip_bit
from ackbench.infra.errors import HarnessError
from ackbench.infra.kafka.replica_files import (
    LEADER_EPOCH_CHECKPOINT,
    METADATA_LOG,
    RECOVERY_POINT_CHECKPOINT,
    crc32c,
    has_valid_crc,
    parse_leader_epochs,
    read_batches,
    read_batches_of_file,
    read_leader_epochs,
    read_recovery_points,
    read_replica_log,
    truncate_to_recovery_points,
)
from ackbench.infra.kafka.spec import LeaderEpoch

RECORDS = 10
"""Per batch."""


def batch(
    base_offset: int,
    value: bytes = b"v" * 60,
    attributes: int = 0,
    max_timestamp_ms: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> bytes:
    """Return a batch in the format of https://kafka.apache.org/documentation/#recordbatch."""
    checked = (
        struct.pack(">hiqqqhii", attributes, RECORDS - 1, 0, max_timestamp_ms, *producer, RECORDS)
        + value
    )
    return (
        struct.pack(">qiibI", base_offset, 4 + 1 + 4 + len(checked), 0, 2, crc32c(checked))
        + checked
    )


def replica(data: Path, name: str, *segments: tuple[int, int]) -> Path:
    """Create a replica with its index files; each segment is a base offset and a batch count."""
    folder = data / name
    folder.mkdir(parents=True)
    for base_offset, batches in segments:
        stem = folder / f"{base_offset:020d}"
        stem.with_suffix(".log").write_bytes(
            b"".join(batch(base_offset + number * RECORDS) for number in range(batches))
        )
        for suffix in (".index", ".timeindex", ".snapshot"):
            stem.with_suffix(suffix).write_bytes(b"x")
    return folder


def write_recovery_points(data: Path, points: dict[str, int]) -> None:
    """Write the recovery points in the broker's format."""
    lines = [
        f"{name.rpartition('-')[0]} {name.rpartition('-')[2]} {offset}"
        for name, offset in points.items()
    ]
    (data / RECOVERY_POINT_CHECKPOINT).write_text("\n".join(["0", str(len(lines)), *lines]) + "\n")


def test_the_checksum_is_crc_32c() -> None:
    """The check value of "123456789" in the catalogue of CRCs."""
    assert crc32c(b"123456789") == 0xE3069283


def test_a_batch_has_the_identity_of_its_producer() -> None:
    """Producer id, producer epoch and base sequence; all -1 without idempotence (KIP-98)."""
    of_none, of_one = read_batches(batch(0) + batch(10, producer=(2**40, 7, 2**31 - 1)))
    assert (of_none.producer_id, of_none.producer_epoch, of_none.base_sequence) == (-1, -1, -1)
    assert (of_one.producer_id, of_one.producer_epoch, of_one.base_sequence) == (
        2**40,
        7,
        2**31 - 1,
    )


def test_the_batches_of_a_file_are_those_of_its_content(tmp_path: Path) -> None:
    """Also of an empty file, which a new segment is."""
    segment = tmp_path / "0.log"
    segment.write_bytes(content := batch(0) + batch(10))
    assert list(read_batches_of_file(segment)) == list(read_batches(content))
    segment.write_bytes(b"")
    assert not list(read_batches_of_file(segment))


def test_batches_have_positions_and_offsets() -> None:
    """The second batch begins where the first ends."""
    first, second = read_batches(batch(0) + batch(10))
    assert (first.position, first.base_offset, first.last_offset) == (0, 0, 9)
    assert (second.position, second.base_offset, second.last_offset) == (first.end, 10, 19)


def test_batches_are_counted_by_the_second_of_their_last_record() -> None:
    """Batches from before the load are left out."""
    counts = count_by_second(
        read_batches(
            b"".join(
                batch(10 * index, max_timestamp_ms=at_ms)
                for index, at_ms in enumerate((999, 1_000, 1_999, 3_000))
            )
        ),
        begin_ms=1_000,
    )
    assert counts == StoredBatches(
        batches={0: 2, 2: 1}, bytes={0: 2 * len(batch(0)), 2: len(batch(0))}
    )


@pytest.mark.parametrize("rest", [b"\0" * 200, batch(10)[:-1], batch(10)[:20]])
def test_reading_stops_at_the_first_incomplete_batch(rest: bytes) -> None:
    """A power cut leaves blocks of zeros or a truncated batch."""
    assert [one.base_offset for one in read_batches(batch(0) + rest)] == [0]


def test_a_log_has_a_size_an_end_offset_and_a_recovery_point(tmp_path: Path) -> None:
    """The size is that of all segments; the end offset follows the last complete batch."""
    replica(tmp_path, "trial-0", (0, 3), (30, 2))
    write_recovery_points(tmp_path, {"trial-0": 30})
    log = read_replica_log(tmp_path, 2, "trial", 0)
    assert (log.node_id, log.size_bytes, log.end_offset, log.recovery_point) == (
        2,
        5 * len(batch(0)),
        50,
        30,
    )


def test_an_empty_last_segment_begins_at_the_log_end_offset(tmp_path: Path) -> None:
    """As just after a new segment was rolled."""
    replica(tmp_path, "trial-0", (0, 3), (30, 0))
    assert read_replica_log(tmp_path, 1, "trial", 0).end_offset == 30


def test_a_missing_log_is_empty_and_has_no_recovery_point(tmp_path: Path) -> None:
    """A power cut can remove the folder. The recovery point is unknown, not 0."""
    log = read_replica_log(tmp_path, 1, "trial", 0)
    assert (log.size_bytes, log.end_offset, log.recovery_point) == (0, 0, None)


@pytest.mark.parametrize(
    "content",
    [b"1\n0\n", b"0\n2\ntrial 0 5\n", b"0\n1\ntrial zero 5\n", b"0\n", b"0\n1\ntrial \xff 5\n"],
)
def test_recovery_points_in_an_unknown_format_are_refused(tmp_path: Path, content: bytes) -> None:
    """Another version, too few entries, no number, truncated, no text."""
    (tmp_path / RECOVERY_POINT_CHECKPOINT).write_bytes(content)
    with pytest.raises(HarnessError, match=RECOVERY_POINT_CHECKPOINT):
        read_recovery_points(tmp_path)


def write_leader_epochs(data: Path, name: str, text: str) -> None:
    """Create a replica's folder with a leader-epoch checkpoint."""
    (data / name).mkdir()
    (data / name / LEADER_EPOCH_CHECKPOINT).write_text(text)


def test_leader_epochs_of_every_replica_of_the_topic_are_read(tmp_path: Path) -> None:
    """Other topics, also with the same prefix, and deleted replicas are not."""
    write_leader_epochs(tmp_path, "orders-1", "0\n1\n0 0\n")
    write_leader_epochs(tmp_path, "orders-0", "0\n2\n0 0\n3 88120\n")
    for other in ("orders-old-0", "order-0", "orders-2.b7c3-delete"):
        write_leader_epochs(tmp_path, other, "0\n1\n9 9\n")
    assert list(read_leader_epochs(tmp_path, 2, "orders")) == [
        LeaderEpoch(2, 0, 0, 0),
        LeaderEpoch(2, 0, 3, 88120),
        LeaderEpoch(2, 1, 0, 0),
    ]


def test_a_replica_without_a_leader_so_far_has_no_leader_epochs(tmp_path: Path) -> None:
    """Its checkpoint has no entries, is empty, or does not exist yet."""
    write_leader_epochs(tmp_path, "orders-0", "0\n0\n")
    write_leader_epochs(tmp_path, "orders-1", "")
    (tmp_path / "orders-2").mkdir()
    assert list(read_leader_epochs(tmp_path, 2, "orders")) == []


@pytest.mark.parametrize(
    "text", ["0\n", "0\n2\n0 0\n", "1\n1\n0 0\n", "0\n1\n0\n", "0\n1\nzero 0\n"]
)
def test_a_truncated_or_unknown_leader_epoch_checkpoint_is_refused(text: str) -> None:
    """It is not read as a log with fewer epochs."""
    with pytest.raises(HarnessError, match="leader-epoch-checkpoint"):
        parse_leader_epochs(text, Path(LEADER_EPOCH_CHECKPOINT))


def test_a_log_is_truncated_to_its_recovery_point(tmp_path: Path) -> None:
    """Later batches, segments, indexes and producer snapshots are removed."""
    folder = replica(tmp_path, "trial-0", (0, 3), (30, 3), (60, 2))
    write_recovery_points(tmp_path, {"trial-0": 40})
    assert truncate_to_recovery_points(tmp_path) == 4 * len(batch(0))
    assert read_replica_log(tmp_path, 1, "trial", 0).end_offset == 40
    assert sorted(path.name.lstrip("0") for path in folder.iterdir()) == [
        ".index",
        ".log",
        ".snapshot",
        ".timeindex",
        "30.log",
        "30.snapshot",
    ]


def test_a_log_without_a_recovery_point_becomes_empty(tmp_path: Path) -> None:
    """The broker has not recorded any sync. The first segment stays, empty."""
    folder = replica(tmp_path, "trial-0", (0, 3))
    truncate_to_recovery_points(tmp_path)
    assert (folder / f"{0:020d}.log").read_bytes() == b""


def test_the_metadata_log_is_not_truncated(tmp_path: Path) -> None:
    """Raft syncs it: a real power cut leaves it complete."""
    replica(tmp_path, METADATA_LOG, (0, 3))
    assert truncate_to_recovery_points(tmp_path) == 0


def test_truncation_removes_the_mark_of_a_clean_shutdown(tmp_path: Path) -> None:
    """With the mark, the broker would not recover its logs."""
    (tmp_path / ".kafka_cleanshutdown").touch()
    truncate_to_recovery_points(tmp_path)
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


def test_a_flipped_bit_invalidates_the_crc_of_one_batch(tmp_path: Path) -> None:
    """Of the middle batch below the offset; one bit of the file differs."""
    folder = replica(tmp_path, "trial-0", (0, 5))
    segment = folder / f"{0:020d}.log"
    before = segment.read_bytes()
    flip = flip_bit(folder, below_offset=30)
    assert flip is not None
    assert (flip.base_offset, flip.last_offset, flip.invalidated_crc) == (10, 19, True)
    after = segment.read_bytes()
    assert [one.base_offset for one in read_batches(after) if not has_valid_crc(after, one)] == [10]
    assert [
        (position, one ^ other)
        for position, (one, other) in enumerate(zip(before, after, strict=True))
        if one != other
    ] == [(flip.position, 1 << flip.bit)]


def test_no_bit_is_flipped_without_an_uncompressed_batch_below_the_offset(tmp_path: Path) -> None:
    """In a compressed batch the effect is unpredictable; later batches are not on all replicas."""
    folder = replica(tmp_path, "trial-0", (0, 2))
    (folder / f"{0:020d}.log").write_bytes(batch(0, attributes=1) + batch(10))
    assert flip_bit(folder, below_offset=10) is None
