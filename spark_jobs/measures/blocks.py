"""Sets of records as bitmaps: a block is 64 consecutive sequence numbers of one producer.

Each record of a block is one bit of a 64-bit integer. A shuffle moves one row per block instead of
one per record, and set operations on records are bit operations on blocks.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

BLOCK: Final = ("trial_no", "producer", "block")
"""The key of a block; `block` is null for rows without an id."""
RECORD: Final = (*BLOCK, "bit")
"""The key of a record."""


def with_block(rows: DataFrame) -> DataFrame:
    """Add `block` and `bit`, the record's position in its block, to rows with `seq`."""
    return rows.withColumns(
        {"block": sf.shiftright("seq", 6), "bit": sf.expr("shiftleft(1L, CAST(seq & 63 AS INT))")}
    )


def zero() -> Column:
    """Return the empty bitmap, which is also the count 0."""
    return sf.lit(0).cast("long")


def bitmap_union(column: str) -> Column:
    """Return the aggregate that unites bitmaps; of no rows, the empty bitmap."""
    return sf.coalesce(sf.bit_or(column), zero())


def cardinality(bitmap: Column) -> Column:
    """Return the number of records in a bitmap."""
    return sf.bit_count(bitmap).cast("long")


def intersection(one: str, other: str) -> Column:
    """Return the records that are in both bitmaps."""
    return sf.col(one).bitwiseAND(sf.col(other))


def difference(one: str, *others: str) -> Column:
    """Return the records of a bitmap that are in none of the others."""
    left = sf.col(one)
    for other in others:
        left = left.bitwiseAND(sf.bitwise_not(other))
    return left


def contains_bit(bitmap: str) -> Column:
    """Return whether the row's `bit` is in a bitmap."""
    return intersection(bitmap, "bit") != 0


def has_duplicates() -> Column:
    """Return whether a block has more copies than distinct records.

    Only in such a block can a record have several copies.
    """
    return sf.col("block").isNotNull() & (sf.col("copies") > cardinality(sf.col("present")))


def has_repeated_reads() -> Column:
    """Return whether a block has more reads than distinct records.

    Only in such a block can anything have been read twice. The rows without an id are one such
    block, if any of them was read.
    """
    return sf.col("reads") > cardinality(sf.col("read"))


def has_no_ids() -> Column:
    """Return whether this is the block of the log's rows without a reliable id."""
    return sf.col("block").isNull() & (sf.col("copies") + sf.col("corrupt") > 0)
