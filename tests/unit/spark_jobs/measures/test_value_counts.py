"""How often each value occurs: exact, whatever the range of the values."""

from __future__ import annotations

from collections import Counter
from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackbench.experiments.ledger.result_terms import QUANTILES
from ackbench.spark_jobs.measures.value_counts import ValueCounts, add_equal

MIN, MAX = (int(limit) for limit in (np.iinfo(np.int64).min, np.iinfo(np.int64).max))
MIN_32, MAX_32 = (int(limit) for limit in (np.iinfo(np.int32).min, np.iinfo(np.int32).max))
DENSE = st.integers(-5, 5)
"""Values whose range is short: they are counted by index."""
SPARSE_32 = st.integers(MIN_32, MAX_32) | st.sampled_from([MIN_32, -1, 0, MAX_32])
"""Values that are sorted with 32 bits."""
SPARSE_64 = st.integers(MIN, MAX) | st.sampled_from([MIN, MIN_32 - 1, 0, MAX_32 + 1, MAX])
"""Values that are sorted with 64 bits."""
VALUES = st.one_of(
    *(st.lists(values, max_size=40) for values in (DENSE, SPARSE_32, SPARSE_64)),
    # Far from 0, and dense.
    st.lists(st.integers(MAX - 9, MAX), max_size=40),
    st.lists(st.integers(MIN, MIN + 9), max_size=40),
)


def distribution(values: list[int]) -> ValueCounts:
    """Return the distribution of some values."""
    return ValueCounts.of(np.array(values, np.int64))


def counts(found: ValueCounts) -> dict[int, int]:
    """Return the number of records by value, after a check of the values' order."""
    values = found.values.tolist()
    assert values == sorted(set(values))
    assert found.values.dtype == found.records.dtype == np.int64
    return dict(zip(values, found.records.tolist(), strict=True))


@pytest.mark.filterwarnings("error")
@given(VALUES)
def test_every_value_is_counted(values: list[int]) -> None:
    """In a dense range by index, in a sparse one by sorting, up to both ends of 64 bits."""
    assert counts(distribution(values)) == Counter(values)


@pytest.mark.parametrize(
    "values",
    [
        [7],
        [0, 4, 0],  # a range of twice the number of values or less is counted by index
        [0, 6, 0],
        [0, 7, 0],
        [MIN_32, MAX_32],
        [MIN_32 - 1, MAX_32],
        [MIN, MAX],
        [MAX, MAX - 1],
    ],
)
def test_the_range_decides_how_values_are_counted_and_not_the_counts(values: list[int]) -> None:
    """The edges of each way to count."""
    assert counts(distribution(values)) == Counter(values)


def test_values_of_32_bits_are_counted_too() -> None:
    """As the columns of partitions and nodes are."""
    found = ValueCounts.of(np.array([MIN_32, 5, MAX_32, 5], np.int32))
    assert counts(found) == {MIN_32: 1, 5: 2, MAX_32: 1}


def test_without_values_there_is_nothing() -> None:
    """And merging it changes nothing."""
    nothing, some = ValueCounts(), distribution([3, 3])
    assert counts(distribution([])) == counts(nothing.merge(nothing)) == {}
    assert counts(nothing.merge(some)) == counts(some.merge(nothing)) == {3: 2}


@pytest.mark.filterwarnings("error")
@given(VALUES, VALUES, VALUES)
def test_distributions_of_parts_merge_to_that_of_all_values(
    one: list[int], other: list[int], third: list[int]
) -> None:
    """In any order and association."""
    parts = [distribution(values) for values in (one, other, third)]
    expected = Counter([*one, *other, *third])
    assert counts(parts[0].merge(parts[1]).merge(parts[2])) == expected
    assert counts(parts[2].merge(parts[1].merge(parts[0]))) == expected


@given(VALUES.filter(bool), st.sampled_from(sorted(QUANTILES.values())) | st.integers(1, 1000))
def test_a_quantile_is_the_nearest_rank_of_the_sorted_values(
    values: list[int], thousandths: int
) -> None:
    """The smallest value that at least so many thousandths of all values do not exceed."""
    rank = ceil(len(values) * thousandths / 1000)
    assert distribution(values).quantile(thousandths) == sorted(values)[rank - 1]


@given(st.lists(st.tuples(DENSE | SPARSE_64, st.integers(1, 2**40)), max_size=20))
def test_equal_values_are_added_up(counted: list[tuple[int, int]]) -> None:
    """They are next to each other."""
    counted.sort()
    expected: Counter[int] = Counter()
    for value, records in counted:
        expected[value] += records
    found = add_equal(
        np.array([value for value, _ in counted], np.int64),
        np.array([records for _, records in counted], np.int64),
    )
    assert counts(found) == expected
