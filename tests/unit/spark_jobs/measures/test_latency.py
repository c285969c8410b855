"""Latencies and their quantiles, on a few rows."""

from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from experiments.ledger.result_tables import QUANTILES
from spark_jobs.measures.latency import (
    ack_latencies,
    end_to_end_latencies,
    first_reads,
    histogram,
    quantile_slots,
    quantiles,
    to_microseconds,
    to_slots,
    to_slots_except,
    with_measure_names,
    with_slot_bounds,
)
from spark_jobs.measures.reads import suspect_reads

ATTEMPTS = "trial_no int, intended_ns bigint, settled_ns bigint, outcome string"
LATENCIES = "trial_no int, measure int, intended_ns bigint, end_ns bigint"
TRIAL_INFO = "trial_no int, fault_begin_ns bigint, fault_end_ns bigint"
WHOLE = "trial_no int, measure int, phase int, us bigint"
ACK, END_TO_END = 0, 1
ALL, BEFORE, DURING, AFTER = 0, 1, 2, 3
BOUNDED = "trial_no int, measure int, phase int, from_us bigint, to_us bigint, records bigint"
COUNTED = f"{WHOLE}, records bigint"
READS = (
    "trial_no int, consumer int, partition int, offset bigint, producer int, seq bigint, "
    "intended_ns bigint, received_ns bigint"
)
SUSPECTS = "trial_no int, producer int, block bigint"
FIRST = "trial_no int, intended_ns bigint, received_ns bigint"
_QUANTILES = ", ".join(f"{name}_us bigint" for name in QUANTILES)
VALUES = f"records bigint, negative_records bigint, {_QUANTILES}"
QUANTILE_ROWS = f"trial_no int, measure int, phase int, {VALUES}"
SLOTS = "trial_no int, measure int, slot bigint"


def test_only_acked_records_have_an_ack_latency(spark: SparkSession) -> None:
    """It is measured from the intended time."""
    attempts = spark.createDataFrame(
        [(7, 10, 30, "acked"), (7, 20, 90, "rejected"), (7, 30, None, "unknown")], ATTEMPTS
    )
    assertDataFrameEqual(
        ack_latencies(attempts), spark.createDataFrame([(7, ACK, 10, 30)], LATENCIES)
    )


def test_a_record_read_twice_counts_by_its_first_read(spark: SparkSession) -> None:
    """In a block without repeated reads, the read itself counts; external records do not count."""
    rows = [
        (7, 0, 0, 0, 1, 0, 5, 90),
        (7, 0, 0, 0, 1, 0, 5, 70),
        (7, 0, 0, 9, 1, 64, 6, 80),
        (7, 0, 0, 10, None, None, None, 60),
    ]
    reads, suspects = (
        spark.createDataFrame(rows, READS),
        spark.createDataFrame([(7, 1, 0), (7, None, None)], SUSPECTS),
    )
    found = first_reads(reads, suspects, suspect_reads(reads, suspects))
    assertDataFrameEqual(
        found, spark.createDataFrame([(7, 5, 70), (7, 6, 80)], FIRST), ignoreNullable=True
    )


def test_reads_of_external_records_have_no_latency(spark: SparkSession) -> None:
    """Their intended time is null."""
    reads = spark.createDataFrame([(7, 5, 70), (7, None, 80)], FIRST)
    assertDataFrameEqual(
        end_to_end_latencies(reads), spark.createDataFrame([(7, END_TO_END, 5, 70)], LATENCIES)
    )


def test_latencies_are_rounded_down_also_below_zero(spark: SparkSession) -> None:
    """-1 ns is in the microsecond that begins at -1 us."""
    latencies = spark.createDataFrame(
        [(7, ACK, 10_000, 11_999), (7, ACK, 10_000, 9_999)], LATENCIES
    )
    info = spark.createDataFrame([(7, None, None)], TRIAL_INFO)
    assertDataFrameEqual(
        to_microseconds(latencies, info),
        spark.createDataFrame([(7, ACK, None, 1), (7, ACK, None, -1)], WHOLE),
    )


def test_the_phase_is_that_of_the_intended_time(spark: SparkSession) -> None:
    """The begin of the fault is part of it; its end is part of the next phase."""
    latencies = spark.createDataFrame([(7, ACK, at, at) for at in (99, 100, 199, 200)], LATENCIES)
    info = spark.createDataFrame([(7, 100, 200)], TRIAL_INFO)
    expected = [(7, ACK, phase, 0) for phase in (BEFORE, DURING, DURING, AFTER)]
    assertDataFrameEqual(
        to_microseconds(latencies, info),
        spark.createDataFrame(expected, WHOLE),
        ignoreNullable=True,
    )


def test_a_fault_without_an_end_lasts_until_the_trial_ends(spark: SparkSession) -> None:
    """There is no phase after it."""
    latencies, info = (
        spark.createDataFrame([(7, ACK, 10**9, 10**9)], LATENCIES),
        spark.createDataFrame([(7, 100, None)], TRIAL_INFO),
    )
    assertDataFrameEqual(
        to_microseconds(latencies, info),
        spark.createDataFrame([(7, ACK, DURING, 0)], WHOLE),
        ignoreNullable=True,
    )


def test_equal_latencies_are_counted_together(spark: SparkSession) -> None:
    """They are counted by trial and measure."""
    latencies = spark.createDataFrame(
        [(7, ACK, None, 7), (7, ACK, None, 7), (7, END_TO_END, None, 7)], WHOLE
    )
    expected = [(7, ACK, ALL, 7, 2), (7, END_TO_END, ALL, 7, 1)]
    assertDataFrameEqual(
        histogram(latencies), spark.createDataFrame(expected, COUNTED), ignoreNullable=True
    )


def test_the_phase_all_counts_the_records_of_every_phase(spark: SparkSession) -> None:
    """Each phase also has its own counts."""
    latencies = spark.createDataFrame(
        [(7, ACK, BEFORE, 7), (7, ACK, DURING, 7), (7, ACK, DURING, 9)], WHOLE
    )
    expected = [
        (7, ACK, BEFORE, 7, 1),
        (7, ACK, DURING, 7, 1),
        (7, ACK, DURING, 9, 1),
        (7, ACK, ALL, 7, 2),
        (7, ACK, ALL, 9, 1),
    ]
    assertDataFrameEqual(
        histogram(latencies), spark.createDataFrame(expected, COUNTED), ignoreNullable=True
    )


def test_a_quantile_is_the_nearest_rank(spark: SparkSession) -> None:
    """Of 1 to 1000, the p50 is the 500th value and the p99.9 the 999th, without interpolation."""
    counted = spark.createDataFrame([(7, ACK, ALL, us, 1) for us in range(1, 1001)], COUNTED)
    assertDataFrameEqual(
        quantiles(counted),
        spark.createDataFrame([(7, ACK, ALL, 1000, 0, 500, 900, 990, 999, 1000)], QUANTILE_ROWS),
        ignoreNullable=True,
    )


def test_each_phase_has_quantiles_of_its_own(spark: SparkSession) -> None:
    """Records with a negative latency are counted."""
    counted = spark.createDataFrame([(7, ACK, BEFORE, -1, 3), (7, ACK, DURING, 5, 2)], COUNTED)
    expected = [(BEFORE, 3, 3, -1, -1, -1, -1, -1), (DURING, 2, 0, 5, 5, 5, 5, 5)]
    assertDataFrameEqual(
        quantiles(counted),
        spark.createDataFrame([(7, ACK, *row) for row in expected], QUANTILE_ROWS),
        ignoreNullable=True,
    )


def test_a_latency_is_rounded_to_the_lower_bound_of_its_slot(spark: SparkSession) -> None:
    """1030 us is in a slot of 8 us, and -1030 us in its mirror image."""
    latencies = spark.createDataFrame([(7, ACK, None, us) for us in (1030, -1030)], WHOLE)
    assertDataFrameEqual(
        to_slots(latencies),
        spark.createDataFrame([(7, ACK, None, us) for us in (1024, -1032)], WHOLE),
        ignoreNullable=True,
    )


def test_a_histogram_has_both_bounds_of_each_slot(spark: SparkSession) -> None:
    """The upper bound is the next slot's lower bound."""
    counted = spark.createDataFrame(
        [(7, ACK, ALL, 255, 1), (7, ACK, ALL, 1024, 2), (7, ACK, ALL, -1032, 3)], COUNTED
    )
    expected = [
        (7, ACK, ALL, 255, 256, 1),
        (7, ACK, ALL, 1024, 1032, 2),
        (7, ACK, ALL, -1032, -1024, 3),
    ]
    assertDataFrameEqual(
        with_slot_bounds(counted), spark.createDataFrame(expected, BOUNDED), ignoreNullable=True
    )


def test_slots_that_hold_a_quantile_stay_fine(spark: SparkSession) -> None:
    """All others are rounded to their slot, which changes no quantile."""
    latencies = spark.createDataFrame([(7, ACK, None, us) for us in (1030, 2050)], WHOLE)
    fine = spark.createDataFrame([(7, ACK, 2048)], SLOTS)
    assertDataFrameEqual(
        to_slots_except(latencies, fine),
        spark.createDataFrame([(7, ACK, None, 1024), (7, ACK, None, 2050)], WHOLE),
        ignoreNullable=True,
    )


def test_every_slot_with_a_quantile_is_returned_once(spark: SparkSession) -> None:
    """The p50 of one phase and the maximum of another may share a slot."""
    found = spark.createDataFrame(
        [
            (7, ACK, ALL, 9, 0, 0, 0, 1024, 1024, 1024),
            (7, ACK, DURING, 2, 0, 1024, 1024, 1024, 1024, 1024),
        ],
        QUANTILE_ROWS,
    )
    slots = spark.createDataFrame([(7, ACK, 0), (7, ACK, 1024)], SLOTS)
    assertDataFrameEqual(quantile_slots(found), slots, ignoreNullable=True)


def test_numbers_are_replaced_by_names(spark: SparkSession) -> None:
    """Measures and phases are numbers only while Spark computes."""
    found = spark.createDataFrame([(7, END_TO_END, AFTER, 1, 0, 5, 5, 5, 5, 5)], QUANTILE_ROWS)
    expected = spark.createDataFrame(
        [(7, "end_to_end", "after", 1, 0, 5, 5, 5, 5, 5)],
        f"trial_no int, measure string, phase string, {VALUES}",
    )
    assertDataFrameEqual(with_measure_names(found), expected, ignoreNullable=True)
