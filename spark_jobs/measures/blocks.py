"""Sets of records as bitmaps: 64 consecutive sequence numbers of one producer are the bits of one long.

A shuffle moves a row a block instead of a row a record, and set algebra on records is bit algebra on blocks.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

BLOCK: Final = ("trial_no", "producer", "block")
"""The key of a block; `block` is null for rows that carry no id."""
RECORD: Final = (*BLOCK, "bit")
"""The key of a record."""


def with_block(rows: DataFrame) -> DataFrame:
    """Add `block` and `bit`, the record's place among its 64, to rows with `seq`."""
    return rows.withColumns(
        {"block": sf.shiftright("seq", 6), "bit": sf.expr("shiftleft(1L, CAST(seq & 63 AS INT))")}
    )


def zero() -> Column:
    """Return the empty bitmap, which is also the count of nothing."""
    return sf.lit(0).cast("long")


def bits(column: str) -> Column:
    """Return the aggregate that unites bitmaps; no row, no bits."""
    return sf.coalesce(sf.bit_or(column), zero())


def cardinality(bitmap: Column) -> Column:
    """Return how many records a bitmap holds."""
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
    """Whether the row's `bit` is in a bitmap."""
    return intersection(bitmap, "bit") != 0


def has_duplicates() -> Column:
    """Whether a block has more copies than distinct records: only there can a record have several."""
    return sf.col("block").isNotNull() & (sf.col("copies") > cardinality(sf.col("present")))


def has_repeated_reads() -> Column:
    """Whether a block has more reads than distinct records: only there can anything have been read twice.

    What carries no id is one such block, if anything of it was read.
    """
    return sf.col("reads") > cardinality(sf.col("read"))


def has_no_ids() -> Column:
    """Whether it is the block of the rows in a log that have no id to rely on."""
    return sf.col("block").isNull() & (sf.col("copies") + sf.col("corrupt") > 0)
