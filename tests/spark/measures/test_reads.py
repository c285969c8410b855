"""What was missed and what came again, on a few rows."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual

from spark_jobs.measures.reads import (
    READS,
    count_reads,
    count_redelivered_reads,
    find_redelivered,
    suspect_reads,
)

ROWS = "trial_no int, consumer int, partition int, offset bigint, producer int, seq bigint, intended_ns bigint, received_ns bigint"
SUSPECTS = "trial_no int, producer int, block bigint"
Read = tuple[int, int, int, int, int | None, int | None, int | None, int]


def test_what_is_in_the_log_and_was_not_received_is_missed(spark: SparkSession) -> None:
    """Bit 0 was received, 1 was not, 2 was received and is gone from the log; three reads brought two records, and one a stranger's."""
    blocks = spark.createDataFrame(
        [(7, 0b011, 0b101, 3), (7, 0, 0, 1)],
        "trial_no int, present bigint, read bigint, reads bigint",
    )
    expected = spark.createDataFrame(
        [(7, 1, 2, 4)], "trial_no int, missed_records bigint, read_records bigint, reads bigint"
    )
    assertDataFrameEqual(count_reads(blocks), expected, ignoreNullable=True)


def test_a_record_received_again_at_its_place_is_redelivered(spark: SparkSession) -> None:
    """The earliest read is none; every other one is."""
    first, second, third = (_read(at_ns=at) for at in (10, 20, 30))
    _are_redelivered(spark, [third, first, second], [second, third])


def test_another_copy_of_a_record_is_no_redelivery(spark: SparkSession) -> None:
    """It lies at another place: the log holds it twice."""
    _are_redelivered(spark, [_read(offset=5), _read(offset=6)], [])


def test_another_record_at_a_used_offset_is_no_redelivery(spark: SparkSession) -> None:
    """The log was cut, and the offset was used again."""
    _are_redelivered(spark, [_read(seq=1), _read(seq=2)], [])


def test_consumers_do_not_see_each_other(spark: SparkSession) -> None:
    """Each of two receives the record once."""
    _are_redelivered(spark, [_read(consumer=0), _read(consumer=1)], [])


def test_a_strangers_record_can_be_redelivered_too(spark: SparkSession) -> None:
    """It has a place, though no id."""
    one, other = (_read(producer=None, seq=None, at_ns=at) for at in (10, 20))
    _are_redelivered(spark, [one, other, _read(producer=None, seq=None, offset=9)], [other])


def test_reads_are_counted(spark: SparkSession) -> None:
    """By trial."""
    rows = spark.createDataFrame([_read(at_ns=at) for at in (1, 2)], ROWS)
    assertDataFrameEqual(
        count_redelivered_reads(rows),
        spark.createDataFrame([(7, 2)], "trial_no int, redelivered_reads bigint"),
        ignoreNullable=True,
    )


def test_only_reads_of_suspect_blocks_are_looked_at(spark: SparkSession) -> None:
    """Block 0 of producer 0, and what has no id; not block 1, nor another producer or trial."""
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


def _are_redelivered(spark: SparkSession, reads: list[Read], expected: list[Read]) -> None:
    found: DataFrame = find_redelivered(spark.createDataFrame(reads, ROWS))
    assertDataFrameEqual(
        found, spark.createDataFrame(expected, ROWS).select(*READS), ignoreNullable=True
    )
