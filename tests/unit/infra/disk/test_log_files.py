"""What is read off a replica's files, and what is done to them: batches, recovery points, the cut, and the flipped bit. On files made here."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from experiments.trial.log_capture import StoredBatches, count_by_second
from infra.disk.damage import flip_bit
from infra.errors import HarnessError
from infra.kafka.replica_files import (
    METADATA_LOG,
    RECOVERY_POINT_CHECKPOINT,
    crc32c,
    has_valid_crc,
    read_batches,
    read_recovery_points,
    read_replica_log,
    truncate_to_recovery_points,
)

RECORDS = 10
"""Of each batch."""


def batch(
    base_offset: int, value: bytes = b"v" * 60, attributes: int = 0, latest_ms: int = 0
) -> bytes:
    """Return a batch as https://kafka.apache.org/documentation/#recordbatch has it."""
    checked = (
        struct.pack(">hiqqqhii", attributes, RECORDS - 1, 0, latest_ms, -1, -1, -1, RECORDS) + value
    )
    return (
        struct.pack(">qiibI", base_offset, 4 + 1 + 4 + len(checked), 0, 2, crc32c(checked))
        + checked
    )


def replica(data: Path, name: str, *segments: tuple[int, int]) -> Path:
    """Make a replica whose segments begin at these offsets and hold so many batches; with the files that lie beside each."""
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


def note_down(data: Path, points: dict[str, int]) -> None:
    """Write the recovery points as the broker does."""
    lines = [
        f"{name.rpartition('-')[0]} {name.rpartition('-')[2]} {offset}"
        for name, offset in points.items()
    ]
    (data / RECOVERY_POINT_CHECKPOINT).write_text("\n".join(["0", str(len(lines)), *lines]) + "\n")


def test_the_checksum_is_the_one_that_kafka_uses() -> None:
    """CRC-32C of "123456789", as the catalogue of CRCs has it."""
    assert crc32c(b"123456789") == 0xE3069283


def test_batches_are_told_with_their_places_and_offsets() -> None:
    """One behind the other."""
    first, second = read_batches(batch(0) + batch(10))
    assert (first.position, first.base_offset, first.last_offset) == (0, 0, 9)
    assert (second.position, second.base_offset, second.last_offset) == (first.end, 10, 19)


def test_batches_are_counted_by_the_second_of_their_last_record() -> None:
    """What is older than the load is left out."""
    found = count_by_second(
        read_batches(
            b"".join(
                batch(10 * place, latest_ms=at_ms)
                for place, at_ms in enumerate((999, 1_000, 1_999, 3_000))
            )
        ),
        begin_ms=1_000,
    )
    assert found == StoredBatches(
        batches={0: 2, 2: 1}, bytes={0: 2 * len(batch(0)), 2: len(batch(0))}
    )


@pytest.mark.parametrize("rest", [b"\0" * 200, batch(10)[:-1], batch(10)[:20]])
def test_what_is_no_whole_batch_ends_a_segment(rest: bytes) -> None:
    """Blocks of zeros and a batch cut short, as power cuts leave them."""
    assert [found.base_offset for found in read_batches(batch(0) + rest)] == [0]


def test_a_replica_s_log_has_a_size_an_end_and_a_recovery_point(tmp_path: Path) -> None:
    """Of all its segments; the end is behind the last whole batch."""
    replica(tmp_path, "trial-0", (0, 3), (30, 2))
    note_down(tmp_path, {"trial-0": 30})
    log = read_replica_log(tmp_path, 2, "trial", 0)
    assert (log.node_id, log.size_bytes, log.end_offset, log.recovery_point) == (
        2,
        5 * len(batch(0)),
        50,
        30,
    )


def test_a_last_segment_without_records_begins_where_the_log_ends(tmp_path: Path) -> None:
    """As just after a roll: nothing of the log before it is missing."""
    replica(tmp_path, "trial-0", (0, 3), (30, 0))
    assert read_replica_log(tmp_path, 1, "trial", 0).end_offset == 30


def test_a_log_that_is_not_there_is_told_as_empty(tmp_path: Path) -> None:
    """A power cut may take a whole folder; and there is no recovery point then, not one of 0."""
    log = read_replica_log(tmp_path, 1, "trial", 0)
    assert (log.size_bytes, log.end_offset, log.recovery_point) == (0, 0, None)


@pytest.mark.parametrize("text", ["1\n0\n", "0\n2\ntrial 0 5\n", "0\n1\ntrial zero 5\n", "0\n"])
def test_recovery_points_of_an_unknown_form_are_refused(tmp_path: Path, text: str) -> None:
    """Another version, too few lines, no numbers, cut short."""
    (tmp_path / RECOVERY_POINT_CHECKPOINT).write_text(text)
    with pytest.raises(HarnessError, match=RECOVERY_POINT_CHECKPOINT):
        read_recovery_points(tmp_path)


def test_a_log_is_cut_to_its_recovery_point(tmp_path: Path) -> None:
    """The segment that holds the point keeps what is below it; those beyond go, and what was made of what is gone goes too."""
    folder = replica(tmp_path, "trial-0", (0, 3), (30, 3), (60, 2))
    note_down(tmp_path, {"trial-0": 40})
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


def test_a_log_without_a_recovery_point_is_left_with_nothing(tmp_path: Path) -> None:
    """Nobody has noted down that anything of it was synced; its first segment stays, empty."""
    folder = replica(tmp_path, "trial-0", (0, 3))
    truncate_to_recovery_points(tmp_path)
    assert (folder / f"{0:020d}.log").read_bytes() == b""


def test_the_metadata_log_is_not_cut(tmp_path: Path) -> None:
    """Raft syncs it: a real power loss leaves it whole."""
    replica(tmp_path, METADATA_LOG, (0, 3))
    assert truncate_to_recovery_points(tmp_path) == 0


def test_a_cut_node_did_not_end_in_good_order(tmp_path: Path) -> None:
    """With the mark of a clean end, the broker would not look at its logs."""
    (tmp_path / ".kafka_cleanshutdown").touch()
    truncate_to_recovery_points(tmp_path)
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


def test_a_flipped_bit_breaks_one_batch_s_checksum_and_no_other(tmp_path: Path) -> None:
    """The middle one of those below the offset; one bit of the file differs."""
    folder = replica(tmp_path, "trial-0", (0, 5))
    segment = folder / f"{0:020d}.log"
    before = segment.read_bytes()
    flip = flip_bit(folder, below_offset=30)
    assert flip is not None
    assert (flip.base_offset, flip.last_offset, flip.broke) == (10, 19, True)
    after = segment.read_bytes()
    assert [
        found.base_offset for found in read_batches(after) if not has_valid_crc(after, found)
    ] == [10]
    assert [
        (place, one ^ other)
        for place, (one, other) in enumerate(zip(before, after, strict=True))
        if one != other
    ] == [(flip.position, 1 << flip.bit)]


def test_no_bit_is_flipped_where_no_plain_batch_is(tmp_path: Path) -> None:
    """In a compressed batch nobody could say what a bit changes; beyond the offset not every replica has the batch."""
    folder = replica(tmp_path, "trial-0", (0, 2))
    (folder / f"{0:020d}.log").write_bytes(batch(0, attributes=1) + batch(10))
    assert flip_bit(folder, below_offset=10) is None
