"""The first look at a sweep's records, by blocks, and the second one at what that found suspicious: kept, because several measures ask for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from spark_jobs.blocks import crowded, read_again
from spark_jobs.copies import copies
from spark_jobs.fates import record_blocks
from spark_jobs.finding import wanted
from spark_jobs.frames import Frames
from spark_jobs.latency import both_latencies, coarse, first_reads, histogram, whole_us
from spark_jobs.order import behind, reordered
from spark_jobs.reading import redelivered, repeated_reads

BROADCAST_ROWS: Final = 200_000
"""Up to here what is suspect goes to every executor (some 10 MB), and the ledger is not shuffled to meet it."""


@dataclass(frozen=True)
class Looked:
    """What was found so far; all keyed by `trial_no`. What there is nothing of is empty, and costs nothing to ask for."""

    frames: Frames
    blocks: DataFrame
    """Of `spark_jobs.fates.record_blocks`."""
    crowded: DataFrame
    """The blocks in which a record may have several copies."""
    copies: DataFrame
    """Of `spark_jobs.copies.copies`."""
    reordered: DataFrame
    """Of `spark_jobs.order.reordered`."""
    latencies: DataFrame
    """Of every record, both measures; of `spark_jobs.latency.whole_us`."""
    histogram: DataFrame
    """Of `spark_jobs.latency.histogram`, by slots."""
    redelivered: DataFrame
    """Of `spark_jobs.reading.redelivered`."""
    wanted: DataFrame
    """Which records something may be wrong with; of `spark_jobs.finding.wanted`."""
    nameless: DataFrame
    """trial_no of the trials whose log has rows without an id to rely on."""


@contextmanager
def first_look(frames: Frames, marks: DataFrame) -> Iterator[Looked]:
    """Look, and keep what was found in memory until the context ends.

    Args:
        frames: the ledgers' rows, with trial_no.
        marks: of `spark_jobs.frames.marks`.
    """
    kept = _Kept([])
    try:
        yield _looked(frames, marks, kept)
    finally:
        kept.free()


def _looked(frames: Frames, marks: DataFrame, kept: _Kept) -> Looked:
    blocks = kept.always(record_blocks(frames.attempts, frames.log, frames.reads))
    crowds, again = kept.if_any(blocks.transform(crowded)), kept.if_any(blocks.transform(read_again))
    several = kept.if_any(copies(frames.log, crowds))
    repeated = kept.if_any(repeated_reads(frames.reads, again))
    late = kept.if_any(behind(frames.log)).transform(reordered, several)
    latencies = both_latencies(frames.attempts, first_reads(frames.reads, again, repeated)).transform(whole_us, marks)
    return Looked(
        frames=frames,
        blocks=blocks,
        crowded=crowds,
        copies=several,
        reordered=late,
        latencies=latencies,
        histogram=kept.always(latencies.transform(coarse).transform(histogram)),
        redelivered=repeated.transform(redelivered),
        wanted=kept.if_any(blocks.transform(wanted, late, marks)),
        nameless=kept.if_any(blocks.where("block IS NULL AND copies + corrupt > 0").select("trial_no")),
    )


@dataclass(frozen=True)
class _Kept:
    """What is held in memory."""

    frames: list[DataFrame]

    def always(self, rows: DataFrame) -> DataFrame:
        """Compute it once, when it is first asked for."""
        self.frames.append(rows.persist())
        return rows

    def if_any(self, rows: DataFrame) -> DataFrame:
        """Compute it now. Of no rows, return what Spark knows to be empty, so that nothing is computed of what is asked of it."""
        count = self.always(rows).count()
        few = sf.broadcast(rows) if count <= BROADCAST_ROWS else rows
        return few if count else rows.where("false")

    def free(self) -> None:
        """Hold it no longer."""
        for rows in self.frames:
            rows.unpersist()
