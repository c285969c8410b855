"""Sets of records as bitmaps: 64 consecutive sequence numbers of one producer are the bits of one long.

A shuffle moves a row a block instead of a row a record, and set algebra on records is bit algebra on blocks.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

BLOCK: Final = ("trial_id", "producer", "block")
"""The key of a block; `block` is null for rows that carry no id."""


def with_block(rows: DataFrame) -> DataFrame:
    """Add `block` and `bit`, the record's place among its 64, to rows with `seq`."""
    return rows.withColumns({"block": sf.shiftright("seq", 6), "bit": sf.expr("shiftleft(1L, CAST(seq & 63 AS INT))")})


def none() -> Column:
    """Return the empty bitmap, which is also the count of nothing."""
    return sf.lit(0).cast("long")


def bits(column: str) -> Column:
    """Return the aggregate that unites bitmaps; no row, no bits."""
    return sf.coalesce(sf.bit_or(column), none())


def size(bitmap: Column) -> Column:
    """Return how many records a bitmap holds."""
    return sf.bit_count(bitmap).cast("long")


def crowded(blocks: DataFrame) -> DataFrame:
    """Return the blocks with more copies than distinct records: only there can a record have several.

    Args:
        blocks: at least the key, `present` (bitmap) and `copies` (rows).
    """
    return blocks.where(sf.col("block").isNotNull() & (sf.col("copies") > size(sf.col("present"))))
