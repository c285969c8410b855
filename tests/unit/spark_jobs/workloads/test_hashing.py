"""The partitioning formulas in Spark equal plain Python, and that equals Kafka's test vectors."""

import random

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from support.reference.hashing import crc32_partition, key_bytes, murmur2, murmur2_partition

from spark_jobs.workloads import keys as hashing

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


def test_spark_computes_the_partitions_of_the_plain_formulas(spark: SparkSession) -> None:
    """Keys are text of one to ten digits or eight bytes, over any number of partitions."""
    chance = random.Random(42)  # noqa: S311 - not for secrets
    keys = [chance.randrange(10**digits) for digits in range(1, 10) for _ in range(60)] + [
        0,
        9,
        10,
        2**31 - 1,
    ]
    rows = [(key, text, chance.randrange(1, 50)) for key in keys for text in (True, False)]
    frame = spark.createDataFrame(rows, "key bigint, text boolean, partitions int").repartition(1)
    found = (
        hashing.with_hashes(frame)
        .select(
            "key",
            "text",
            "partitions",
            sf.expr("murmur2 % partitions"),
            sf.expr("crc32 % partitions"),
        )
        .collect()
    )
    expected = {
        (key, text, n): (
            murmur2_partition(data := key_bytes(key, text=text), n),
            crc32_partition(data, n),
        )
        for key, text, n in rows
    }
    assert {(row[0], row[1], row[2]): (row[3], row[4]) for row in found} == expected
