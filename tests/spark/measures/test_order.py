"""Records behind later ones, on logs of a few rows."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual

from spark_jobs.measures.fates import find_duplicates
from spark_jobs.measures.order import count_reordered_records, reordered_rows, rows_out_of_order

LOG = "trial_no int, partition int, offset bigint, producer int, seq bigint, intact boolean"
BEHIND = "trial_no int, partition int, producer int, seq bigint, offset bigint"
BLOCKS = "trial_no int, producer int, block bigint"


def test_a_record_behind_a_later_one_is_behind(spark: SparkSession) -> None:
    """However far ahead the later one is: 3 came first, so 1 and 2 are late, and 4 is not."""
    _is_behind(_log(spark, [(0, 3), (0, 1), (0, 2), (0, 4)]), (7, 0, 0, 1, 1), (7, 0, 0, 2, 2))


def test_there_is_no_order_between_producers_or_partitions(spark: SparkSession) -> None:
    """Kafka promises none."""
    log = spark.createDataFrame(
        [
            (7, 0, 0, 0, 5, True),
            (7, 0, 1, 1, 3, True),
            (7, 1, 2, 0, 4, True),
            (8, 0, 3, 0, 2, True),
        ],
        LOG,
    )
    _is_behind(log)


def test_rows_without_an_id_to_rely_on_are_in_no_order(spark: SparkSession) -> None:
    """A corrupt row is behind nothing, and nothing is behind it; the same of a stranger's."""
    _is_behind(
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


def test_a_further_copy_reorders_nothing(spark: SparkSession) -> None:
    """0, 1 and 0 again is a duplicate in good order; of 2, which comes late and twice, only the first copy is out of order."""
    log = _log(spark, [(0, 0), (0, 1), (0, 0), (0, 3), (0, 2), (0, 2)])
    _are(_reordered(log), (7, 0, 0, 2, 4))


def test_a_copy_in_another_partition_is_the_first_one_there(spark: SparkSession) -> None:
    """1 is in good order in partition 0, and late in partition 1."""
    _are(_reordered(_log(spark, [(0, 1), (1, 2), (1, 1)])), (7, 1, 0, 1, 2))


def test_a_record_that_is_late_in_two_partitions_counts_once(spark: SparkSession) -> None:
    """It is one record."""
    rows = spark.createDataFrame([(7, 0, 0, 1, 5), (7, 1, 0, 1, 6), (7, 0, 0, 2, 7)], BEHIND)
    assertDataFrameEqual(
        count_reordered_records(rows),
        spark.createDataFrame([(7, 2)], "trial_no int, reordered_records bigint"),
        ignoreNullable=True,
    )


def _log(spark: SparkSession, rows: list[tuple[int, int]]) -> DataFrame:
    """Partition and seq, each at the next offset; all of one producer."""
    return spark.createDataFrame(
        [(7, partition, offset, 0, seq, True) for offset, (partition, seq) in enumerate(rows)], LOG
    )


def _reordered(log: DataFrame) -> DataFrame:
    return reordered_rows(
        rows_out_of_order(log),
        find_duplicates(log, log.sparkSession.createDataFrame([(7, 0, 0)], BLOCKS)),
    )


def _is_behind(log: DataFrame, *expected: tuple[int, ...]) -> None:
    _are(rows_out_of_order(log), *expected)


def _are(found: DataFrame, *expected: tuple[int, ...]) -> None:
    assertDataFrameEqual(
        found, found.sparkSession.createDataFrame(list(expected), BEHIND), ignoreNullable=True
    )
