"""The two clients' formulas, as Spark has them: beside plain Python, and that beside Kafka's own vectors."""

import random

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from support.reference.hashing import bytes_of, crc32_partition, murmur2, murmur2_partition

from spark_jobs.workloads import keys as hashing

KAFKA_VECTORS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
"""`UtilsTest.testMurmur2` of Kafka's own tests."""


@pytest.mark.parametrize("data", KAFKA_VECTORS)
def test_the_plain_murmur2_is_kafkas_own(data: bytes) -> None:
    """By the vectors that Kafka tests itself with."""
    assert murmur2(data) == KAFKA_VECTORS[data]


def test_the_plain_crc32_is_the_one_of_the_standard() -> None:
    """The check value of CRC-32/ISO-HDLC; librdkafka's `rd_crc32` is that one."""
    assert crc32_partition(b"123456789", 1 << 32) == 0xCBF43926


def test_spark_puts_each_key_where_the_plain_formulas_do(spark: SparkSession) -> None:
    """As text of one to ten digits, and as eight bytes; over any number of partitions."""
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
            murmur2_partition(data := bytes_of(key, text=text), n),
            crc32_partition(data, n),
        )
        for key, text, n in rows
    }
    assert {(row[0], row[1], row[2]): (row[3], row[4]) for row in found} == expected
