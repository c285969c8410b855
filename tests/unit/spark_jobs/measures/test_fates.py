"""Fates from bitmaps, on ledgers of a few rows."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual

from spark_jobs.measures.blocks import has_duplicates
from spark_jobs.measures.fates import (
    count_duplicates,
    count_fates,
    find_duplicates,
    record_blocks,
    with_duplicates,
)

ATTEMPTS = "trial_no int, producer int, seq bigint, outcome string"
LOG = "trial_no int, producer int, seq bigint, intact boolean, partition int, offset bigint"
READS = "trial_no int, producer int, seq bigint"
BITMAPS = (
    "acked bigint, rejected bigint, unknown bigint, aborted bigint, present bigint, read bigint"
)
BLOCKS = (
    f"trial_no int, producer int, block bigint, {BITMAPS}, copies bigint, corrupt bigint, "
    "reads bigint"
)
FATES = (
    "trial_no int, outcome string, fate string, records bigint, duplicated_records bigint, "
    "copies bigint"
)
DUPLICATES = "trial_no int, outcome string, records bigint, copies bigint"


def test_the_records_of_a_block_are_its_bits(spark: SparkSession) -> None:
    """64 sequence numbers share a row; the last one is the sign bit."""
    attempts = spark.createDataFrame(
        [(7, 1, 0, "acked"), (7, 1, 63, "rejected"), (7, 1, 64, "unknown"), (7, 1, 65, "aborted")],
        ATTEMPTS,
    )
    log = _log(spark, [(7, 1, 0, True), (7, 1, 0, True), (7, 1, 64, True)])
    reads = spark.createDataFrame([(7, 1, 63), (7, 1, 64), (7, 1, 64)], READS)
    expected = [
        (7, 1, 0, 1, -(2**63), 0, 0, 1, -(2**63), 2, 0, 1),
        (7, 1, 1, 0, 0, 1, 2, 1, 1, 1, 0, 2),
    ]
    assertDataFrameEqual(
        record_blocks(attempts, log, reads),
        spark.createDataFrame(expected, BLOCKS),
        ignoreNullable=True,
    )


def test_rows_without_a_reliable_id_have_no_block(spark: SparkSession) -> None:
    """External and corrupt records are counted, but are no copy of any record."""
    attempts = spark.createDataFrame([(7, 1, 0, "acked")], ATTEMPTS)
    log = _log(spark, [(7, None, None, True), (7, 1, 0, False)])
    reads = spark.createDataFrame([(7, None, None)], READS)
    expected = [(7, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0), (7, None, None, 0, 0, 0, 0, 0, 0, 1, 1, 1)]
    assertDataFrameEqual(
        record_blocks(attempts, log, reads),
        spark.createDataFrame(expected, BLOCKS),
        ignoreNullable=True,
    )


def test_each_pair_of_outcome_and_presence_is_a_fate(spark: SparkSession) -> None:
    """Bits 0 to 7 are the outcomes, each in the log and not; bit 8 was never attempted."""
    full = (7, 1, 0, 0b11, 0b1100, 0b110000, 0b11000000, 0b101010101, 0, 5, 0, 0)
    blocks = spark.createDataFrame([full, (7, None, None, 0, 0, 0, 0, 0, 0, 2, 3, 0)], BLOCKS)
    counts = {
        (row.outcome, row.fate): (row.records, row.copies) for row in count_fates(blocks).collect()
    }
    assert counts == {
        ("acked", "DELIVERED_ONCE"): (1, 1),
        ("acked", "DUPLICATED"): (0, 0),
        ("acked", "LOST"): (1, 0),
        ("rejected", "REJECTED_PRESENT"): (1, 1),
        ("rejected", "REJECTED"): (1, 0),
        ("unknown", "UNKNOWN_PRESENT"): (1, 1),
        ("unknown", "UNKNOWN_ABSENT"): (1, 0),
        ("aborted", "ABORTED_VISIBLE"): (1, 1),
        ("aborted", "ABORTED"): (1, 0),
        (None, "PHANTOM"): (3, 3),
        (None, "CORRUPT"): (3, 3),
    }


def test_only_blocks_with_more_copies_than_records_have_duplicates(spark: SparkSession) -> None:
    """External records are many rows without an id, and no duplicates."""
    distinct, duplicated, external = (
        (7, 1, 0, 3, 0, 0, 0, 3, 0, 2, 0, 0),
        (7, 1, 1, 3, 0, 0, 0, 3, 0, 3, 0, 0),
        (7, None, None, 0, 0, 0, 0, 0, 0, 9, 0, 0),
    )
    blocks = spark.createDataFrame([distinct, duplicated, external], BLOCKS)
    assertDataFrameEqual(
        blocks.where(has_duplicates()), spark.createDataFrame([duplicated], BLOCKS)
    )


def test_duplicates_are_counted_by_outcome(spark: SparkSession) -> None:
    """Here of an acknowledged, an unknown, an aborted record and one that was never attempted."""
    blocks = spark.createDataFrame(
        [(7, 1, 0, 0b011, 0, 0b100, 0b10000, 0b11111, 0, 10, 0, 0)], BLOCKS
    )
    log = _log(
        spark, [(7, 1, seq, True) for seq in (0, 0, 0, 1, 2, 2, 3, 3, 4, 4)] + [(7, 1, 1, False)]
    )
    expected = [(7, "acked", 1, 2), (7, "unknown", 1, 1), (7, "aborted", 1, 1), (7, None, 1, 1)]
    assertDataFrameEqual(
        count_duplicates(find_duplicates(log, blocks), blocks),
        spark.createDataFrame(expected, DUPLICATES),
        ignoreNullable=True,
    )


def test_only_acked_records_move_to_duplicated(spark: SparkSession) -> None:
    """Others keep their fate, with the number of their copies; copies of a phantom are phantoms."""
    counted = [
        ("acked", "DELIVERED_ONCE", 5, 0, 5),
        ("acked", "DUPLICATED", 0, 0, 0),
        ("unknown", "UNKNOWN_PRESENT", 2, 0, 2),
        (None, "PHANTOM", 1, 0, 1),
    ]
    duplicates = spark.createDataFrame(
        [(7, "acked", 2, 3), (7, "unknown", 1, 4), (7, None, 1, 1)], DUPLICATES
    )
    expected = [
        ("acked", "DELIVERED_ONCE", 3, 0, 3),
        ("acked", "DUPLICATED", 2, 2, 5),
        ("unknown", "UNKNOWN_PRESENT", 2, 1, 6),
        (None, "PHANTOM", 2, 0, 2),
    ]
    corrected = with_duplicates(_fates(spark, counted), duplicates)
    assertDataFrameEqual(corrected, _fates(spark, expected), ignoreNullable=True)


def _log(
    spark: SparkSession, rows: Sequence[tuple[int, int | None, int | None, bool]]
) -> DataFrame:
    """Return a log with each row at the next offset of partition 0."""
    return spark.createDataFrame([(*row, 0, offset) for offset, row in enumerate(rows)], LOG)


def _fates(spark: SparkSession, rows: list[tuple[str | None, str, int, int, int]]) -> DataFrame:
    return spark.createDataFrame([(7, *row) for row in rows], FATES)
