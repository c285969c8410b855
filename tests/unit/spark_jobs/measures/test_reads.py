"""Missed records and redelivered reads, on a few rows."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual

from spark_jobs.measures.reads import (
    READS,
    count_reads,
    count_redelivered_reads,
    find_redelivered,
    suspect_reads,
)

ROWS = (
    "trial_no int, consumer int, partition int, offset bigint, producer int, seq bigint, "
    "intended_ns bigint, received_ns bigint"
)
SUSPECTS = "trial_no int, producer int, block bigint"
Read = tuple[int, int, int, int, int | None, int | None, int | None, int]


def test_a_record_in_the_log_that_was_not_received_is_missed(spark: SparkSession) -> None:
    """Bit 0 was received, 1 was not, 2 was received but is missing from the log."""
    blocks = spark.createDataFrame(
        [(7, 0b011, 0b101, 3), (7, 0, 0, 1)],
        "trial_no int, present bigint, read bigint, reads bigint",
    )
    expected = spark.createDataFrame(
        [(7, 1, 2, 4)], "trial_no int, missed_records bigint, read_records bigint, reads bigint"
    )
    assertDataFrameEqual(count_reads(blocks), expected, ignoreNullable=True)


def test_a_record_received_again_at_its_offset_is_redelivered(spark: SparkSession) -> None:
    """The earliest read is no redelivery; every other one is."""
    first, second, third = (_read(at_ns=at) for at in (10, 20, 30))
    _assert_redelivered(spark, [third, first, second], [second, third])


def test_another_copy_of_a_record_is_no_redelivery(spark: SparkSession) -> None:
    """It is at another offset: the log holds the record twice."""
    _assert_redelivered(spark, [_read(offset=5), _read(offset=6)], [])


def test_another_record_at_a_reused_offset_is_no_redelivery(spark: SparkSession) -> None:
    """The log was truncated, and the offset was used again."""
    _assert_redelivered(spark, [_read(seq=1), _read(seq=2)], [])


def test_consumers_are_counted_independently(spark: SparkSession) -> None:
    """Each of two consumers receives the record once."""
    _assert_redelivered(spark, [_read(consumer=0), _read(consumer=1)], [])


def test_an_external_record_can_be_redelivered(spark: SparkSession) -> None:
    """It has an offset, but no id."""
    one, other = (_read(producer=None, seq=None, at_ns=at) for at in (10, 20))
    _assert_redelivered(spark, [one, other, _read(producer=None, seq=None, offset=9)], [other])


def test_redelivered_reads_are_counted(spark: SparkSession) -> None:
    """They are counted by trial."""
    rows = spark.createDataFrame([_read(at_ns=at) for at in (1, 2)], ROWS)
    assertDataFrameEqual(
        count_redelivered_reads(rows),
        spark.createDataFrame([(7, 2)], "trial_no int, redelivered_reads bigint"),
        ignoreNullable=True,
    )


def test_only_reads_of_suspect_blocks_are_returned(spark: SparkSession) -> None:
    """These are block 0 of producer 0 and the reads without an id."""
    suspects = spark.createDataFrame([(7, 0, 0), (7, None, None)], SUSPECTS)
    inside = [_read(seq=63), _read(producer=None, seq=None)]
    outside = [_read(seq=64), _read(producer=1), (8, *_read()[1:])]
    found = suspect_reads(spark.createDataFrame([*inside, *outside], ROWS), suspects)
    assertDataFrameEqual(
        found, spark.createDataFrame(inside, ROWS).select(*READS), ignoreNullable=True
    )


def _read(
    *,
    consumer: int = 0,
    offset: int = 5,
    producer: int | None = 0,
    seq: int | None = 0,
    at_ns: int = 10,
) -> Read:
    return (7, consumer, 0, offset, producer, seq, None if seq is None else 0, at_ns)


def _assert_redelivered(spark: SparkSession, reads: list[Read], expected: list[Read]) -> None:
    found: DataFrame = find_redelivered(spark.createDataFrame(reads, ROWS))
    assertDataFrameEqual(
        found, spark.createDataFrame(expected, ROWS).select(*READS), ignoreNullable=True
    )
