"""The partitioning formulas over arrays equal plain Python, and that equals Kafka's vectors."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.reference.hashing import crc32_partition, key_bytes, murmur2, murmur2_partition

from ackbench.spark_jobs.workloads import keys as hashing

KAFKA_VECTORS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
"""From `UtilsTest.testMurmur2` in Kafka's tests."""


@pytest.mark.parametrize("data", KAFKA_VECTORS)
def test_the_plain_murmur2_is_kafkas(data: bytes) -> None:
    """It reproduces the vectors of Kafka's own tests."""
    assert murmur2(data) == KAFKA_VECTORS[data]


def test_the_plain_crc32_is_the_standard_one() -> None:
    """It reproduces the check value of CRC-32/ISO-HDLC, which librdkafka's `rd_crc32` computes."""
    assert crc32_partition(b"123456789", 1 << 32) == 0xCBF43926


def test_arrays_give_the_partitions_of_the_plain_formulas() -> None:
    """Keys are text of one to ten digits or eight bytes, over any number of partitions."""
    chance = random.Random(42)  # noqa: S311 - not for secrets
    keys = [chance.randrange(10**digits) for digits in range(1, 10) for _ in range(60)] + [
        0,
        9,
        10,
        2**31 - 1,
    ]
    partitions = [chance.randrange(1, 50) for _ in keys]
    for text in (True, False):
        values = hashing.key_bytes(np.array(keys, np.int64), text=text)
        assert values == [key_bytes(key, text=text) for key in keys]
        assert (hashing.murmur2(values) % partitions).tolist() == [
            murmur2_partition(value, count) for value, count in zip(values, partitions, strict=True)
        ]
        assert (hashing.crc32(values) % partitions).tolist() == [
            crc32_partition(value, count) for value, count in zip(values, partitions, strict=True)
        ]


@given(st.lists(st.binary(max_size=23), max_size=12))
def test_values_of_any_length_are_hashed_side_by_side(values: list[bytes]) -> None:
    """A short value next to a long one has the hash that it has alone."""
    assert hashing.murmur2(values).tolist() == [murmur2(value) & 0x7FFF_FFFF for value in values]
    assert hashing.crc32(values).tolist() == [crc32_partition(value, 1 << 32) for value in values]
