"""The buckets of latency histograms, on single values."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackbench.spark_jobs.measures.latency import histogram
from ackbench.spark_jobs.measures.value_counts import ValueCounts


def buckets(values: list[int]) -> list[tuple[int, int, int]]:
    """Return the lower bound, the upper bound and the records of each bucket."""
    columns = histogram(ValueCounts.of(np.array(values, np.int64)))
    return list(zip(*(column.tolist() for column in columns), strict=True))


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
def test_a_value_is_within_its_bucket(us: int, bounds: tuple[int, int]) -> None:
    """The lower bound is inclusive, the upper bound exclusive."""
    assert buckets([us]) == [(*bounds, 1)]


def test_buckets_are_contiguous_and_narrow() -> None:
    """Around every power of two, none is wider than 1/128 of its values, and none overlap."""
    values = [
        value + near
        for bits in range(3, 62)
        for value in (2**bits, -(2**bits))
        for near in (-1, 0, 1)
    ]
    bounds = [(low, high) for us in values for low, high, _ in buckets([us])]
    assert all(low <= us < high for us, (low, high) in zip(values, bounds, strict=True))
    assert all(high - low <= max(1, min(abs(low), abs(high)) // 128) for low, high in bounds)
    ends = sorted(set(bounds))
    assert all(high <= low for (_, high), (low, _) in pairwise(ends))


@given(st.lists(st.integers(-(2**62), 2**62) | st.integers(-600, 600), max_size=30))
def test_a_histogram_counts_every_value_in_the_bucket_of_its_own(values: list[int]) -> None:
    """Whatever other values there are; buckets are in ascending order and none is empty."""
    expected: dict[tuple[int, int], int] = {}
    for us in values:
        ((low, high, _),) = buckets([us])
        expected[low, high] = expected.get((low, high), 0) + 1
    assert buckets(values) == [(*bounds, expected[bounds]) for bounds in sorted(expected)]
