"""Records out of order, on logs of a few rows."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual

from spark_jobs.measures.fates import find_duplicates
from spark_jobs.measures.order import count_reordered_records, reordered_rows, rows_out_of_order

LOG = "trial_no int, partition int, offset bigint, producer int, seq bigint, intact boolean"
ROWS = "trial_no int, partition int, producer int, seq bigint, offset bigint"
BLOCKS = "trial_no int, producer int, block bigint"


def test_a_record_after_a_later_one_is_out_of_order(spark: SparkSession) -> None:
    """3 is first in the log, so 1 and 2 are out of order, and 4 is not."""
    _assert_out_of_order(
        _log(spark, [(0, 3), (0, 1), (0, 2), (0, 4)]), (7, 0, 0, 1, 1), (7, 0, 0, 2, 2)
    )


def test_there_is_no_order_between_producers_or_partitions(spark: SparkSession) -> None:
    """Kafka does not guarantee one."""
    log = spark.createDataFrame(
        [
            (7, 0, 0, 0, 5, True),
            (7, 0, 1, 1, 3, True),
            (7, 1, 2, 0, 4, True),
            (8, 0, 3, 0, 2, True),
        ],
        LOG,
    )
    _assert_out_of_order(log)


def test_rows_without_a_reliable_id_have_no_order(spark: SparkSession) -> None:
    """This holds for corrupt rows and for external records."""
    _assert_out_of_order(
        spark.createDataFrame(
            [
                (7, 0, 0, 0, 9, False),
                (7, 0, 1, None, None, True),
                (7, 0, 2, 0, 5, True),
                (7, 0, 3, 0, 4, False),
            ],
            LOG,
        )
    )


def test_a_duplicate_is_not_reordered(spark: SparkSession) -> None:
    """0, 1, 0 has a duplicate, but is in order; of 2, late and twice, only one counts."""
    log = _log(spark, [(0, 0), (0, 1), (0, 0), (0, 3), (0, 2), (0, 2)])
    _assert_rows(_reordered(log), (7, 0, 0, 2, 4))


def test_a_copy_in_another_partition_is_the_first_one_there(spark: SparkSession) -> None:
    """1 is in order in partition 0, and out of order in partition 1."""
    _assert_rows(_reordered(_log(spark, [(0, 1), (1, 2), (1, 1)])), (7, 1, 0, 1, 2))


def test_a_record_out_of_order_in_two_partitions_counts_once(spark: SparkSession) -> None:
    """Records are counted, not rows."""
    rows = spark.createDataFrame([(7, 0, 0, 1, 5), (7, 1, 0, 1, 6), (7, 0, 0, 2, 7)], ROWS)
    assertDataFrameEqual(
        count_reordered_records(rows),
        spark.createDataFrame([(7, 2)], "trial_no int, reordered_records bigint"),
        ignoreNullable=True,
    )


def _log(spark: SparkSession, rows: list[tuple[int, int]]) -> DataFrame:
    """Return a log of one producer: partition and seq, each row at the next offset."""
    return spark.createDataFrame(
        [(7, partition, offset, 0, seq, True) for offset, (partition, seq) in enumerate(rows)], LOG
    )


def _reordered(log: DataFrame) -> DataFrame:
    return reordered_rows(
        rows_out_of_order(log),
        find_duplicates(log, log.sparkSession.createDataFrame([(7, 0, 0)], BLOCKS)),
    )


def _assert_out_of_order(log: DataFrame, *expected: tuple[int, ...]) -> None:
    _assert_rows(rows_out_of_order(log), *expected)


def _assert_rows(found: DataFrame, *expected: tuple[int, ...]) -> None:
    assertDataFrameEqual(
        found, found.sparkSession.createDataFrame(list(expected), ROWS), ignoreNullable=True
    )
