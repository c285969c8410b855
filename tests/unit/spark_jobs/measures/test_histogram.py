"""The slots of latency histograms, on single values."""

from itertools import pairwise

import pytest
from pyspark.sql import SparkSession

from spark_jobs.measures.latency import slot, slot_end


@pytest.mark.parametrize(
    ("us", "bounds"),
    [
        (0, (0, 1)),
        (255, (255, 256)),  # exact up to here
        (256, (256, 258)),
        (257, (256, 258)),
        (511, (510, 512)),
        (512, (512, 516)),
        (1_000_000, (999_424, 1_003_520)),
        (2**62 + 1, (2**62, 2**62 + 2**55)),
        (-1, (-1, 0)),  # the mirror image of 0
        (-256, (-256, -255)),
        (-257, (-258, -256)),
        (-(2**62) - 1, (-(2**62) - 2**55, -(2**62))),
    ],
)
def test_a_value_is_within_its_slot(spark: SparkSession, us: int, bounds: tuple[int, int]) -> None:
    """The lower bound is inclusive, the upper bound exclusive."""
    assert _slots(spark, [us]) == [bounds]


def test_slots_are_contiguous_and_narrow(spark: SparkSession) -> None:
    """Around every power of two, no slot is wider than 1/128 of its values, and none overlap."""
    values = [
        value + near
        for bits in range(3, 62)
        for value in (2**bits, -(2**bits))
        for near in (-1, 0, 1)
    ]
    slots = _slots(spark, values)
    assert all(low <= us < high for us, (low, high) in zip(values, slots, strict=True))
    assert all(high - low <= max(1, min(abs(low), abs(high)) // 128) for low, high in slots)
    ends = sorted(set(slots))
    assert all(high <= low for (_, high), (low, _) in pairwise(ends))


def _slots(spark: SparkSession, values: list[int]) -> list[tuple[int, int]]:
    frame = spark.createDataFrame([(us,) for us in values], "us bigint").select(
        "us", slot("us").alias("low")
    )
    return [
        (row.low, row.high) for row in frame.select("low", slot_end("low").alias("high")).collect()
    ]
