"""The screening of a sweep's records: a first pass over blocks, a second over suspect records.

The first pass counts by blocks of 64 records (`spark_jobs.measures.blocks`); only blocks that can
hold an anomaly are searched record by record. What is found stays in memory for the time of the
context, because several measures use it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from spark_jobs.causes.anomalous_records import suspect_records
from spark_jobs.io.frames import Frames
from spark_jobs.measures.availability import (
    COARSE_SLOT_NS,
    PARTITION_SIDE,
    due_acknowledgements,
    due_deliveries,
    longest_gaps,
)
from spark_jobs.measures.blocks import has_duplicates, has_no_ids, has_repeated_reads
from spark_jobs.measures.fates import find_duplicates, record_blocks
from spark_jobs.measures.latency import (
    both_latencies,
    first_reads,
    histogram,
    to_microseconds,
    to_slots,
)
from spark_jobs.measures.order import reordered_rows, rows_out_of_order
from spark_jobs.measures.reads import find_redelivered, suspect_reads

_SUSPICIONS: Final = (has_duplicates, has_repeated_reads, has_no_ids)
BROADCAST_ROWS: Final = 200_000
"""Up to this many suspect rows (about 10 MB) are broadcast, so the ledger is not shuffled."""


@dataclass(frozen=True)
class Screening:
    """The results of the screening, all keyed by `trial_no`.

    A result without rows is known to Spark as empty, so that queries on it cost nothing.
    """

    frames: Frames
    blocks: DataFrame
    """Of `spark_jobs.measures.fates.record_blocks`."""
    blocks_with_duplicates: DataFrame
    """The blocks in which a record may have several copies."""
    duplicates: DataFrame
    """Of `spark_jobs.measures.fates.find_duplicates`."""
    reordered: DataFrame
    """Of `spark_jobs.measures.order.reordered_rows`."""
    latencies: DataFrame
    """Of every record, both measures; of `spark_jobs.measures.latency.to_microseconds`."""
    histogram: DataFrame
    """Of `spark_jobs.measures.latency.histogram`, by slots."""
    redelivered: DataFrame
    """Of `spark_jobs.measures.reads.find_redelivered`."""
    suspect_records: DataFrame
    """Of `spark_jobs.causes.anomalous_records.suspect_records`."""
    gaps: Future[DataFrame]
    """Of `spark_jobs.measures.availability.longest_gaps`, both sides."""
    trials_with_rows_without_id: DataFrame
    """trial_no of the trials whose log has rows without a reliable id."""


@contextmanager
def screen(frames: Frames, trial_info: DataFrame, executor: Executor) -> Iterator[Screening]:
    """Screen the records, and keep the results in memory until the context ends.

    Args:
        frames: the ledgers' rows, with trial_no.
        trial_info: of `spark_jobs.io.frames.trial_info`.
        executor: threads that query Spark in parallel with this one.
    """
    cache = _Cache([])
    try:
        yield _screen(frames, trial_info, cache, executor)
    finally:
        cache.free()


def _screen(frames: Frames, trial_info: DataFrame, cache: _Cache, executor: Executor) -> Screening:
    rows_behind = executor.submit(lambda: cache.if_any(rows_out_of_order(frames.log)))
    longest_gaps = executor.submit(lambda: _gaps(frames, trial_info, cache))
    blocks = cache.always(record_blocks(frames.attempts, frames.log, frames.reads))
    counts = _count_suspect_blocks(blocks)
    blocks_with_duplicates, reread_blocks, blocks_without_id = (
        cache.if_any(blocks.where(suspicion()), count)
        for suspicion, count in zip(_SUSPICIONS, counts, strict=True)
    )
    duplicates = cache.if_any(
        find_duplicates(frames.log, blocks_with_duplicates), _count_if_none(counts[0])
    )
    repeated = cache.if_any(suspect_reads(frames.reads, reread_blocks), _count_if_none(counts[1]))
    latencies = both_latencies(
        frames.attempts, first_reads(frames.reads, reread_blocks, repeated)
    ).transform(to_microseconds, trial_info)
    late = rows_behind.result().transform(reordered_rows, duplicates)
    return Screening(
        frames=frames,
        blocks=blocks,
        blocks_with_duplicates=blocks_with_duplicates,
        duplicates=duplicates,
        reordered=late,
        latencies=latencies,
        histogram=cache.always(latencies.transform(to_slots).transform(histogram)),
        redelivered=repeated.transform(find_redelivered),
        suspect_records=cache.if_any(blocks.transform(suspect_records, late, trial_info)),
        gaps=longest_gaps,
        trials_with_rows_without_id=blocks_without_id.select("trial_no"),
    )


def _gaps(frames: Frames, trial_info: DataFrame, cache: _Cache) -> DataFrame:
    """Return the longest gaps: by wide slots and, where they are too short for those, by narrow."""
    # A partition that stores records is available, whatever becomes of their transactions: the
    # delivery report counts.
    delivered = frames.attempts.withColumn("outcome", sf.col("reported_outcome"))
    due = due_acknowledgements(delivered, trial_info).unionByName(
        due_deliveries(frames.reads, trial_info)
    )
    coarse = cache.always(longest_gaps(due, trial_info, COARSE_SLOT_NS))
    short = cache.if_any(coarse.where(sf.col("gap_ns") < COARSE_SLOT_NS).select(*PARTITION_SIDE))
    return coarse.where(sf.col("gap_ns") >= COARSE_SLOT_NS).unionByName(
        longest_gaps(due.join(short, list(PARTITION_SIDE), "left_semi"), trial_info)
    )


def _count_suspect_blocks(blocks: DataFrame) -> Sequence[int]:
    """Return the number of blocks of each suspicion, counted in one pass."""
    counts = blocks.agg(
        *(sf.count_if(suspicion()).alias(suspicion.__name__) for suspicion in _SUSPICIONS)
    ).toArrow()
    return [counts[suspicion.__name__][0].as_py() for suspicion in _SUSPICIONS]


def _count_if_none(blocks: int) -> int | None:
    """Return the number of anomalous rows in suspect blocks: 0 without any block, else unknown."""
    return None if blocks else 0


@dataclass(frozen=True)
class _Cache:
    """The frames that are held in memory."""

    frames: list[DataFrame]

    def always(self, rows: DataFrame) -> DataFrame:
        """Keep a frame once it is computed, which is when it is first used."""
        self.frames.append(rows.persist())
        return rows

    def if_any(self, rows: DataFrame, count: int | None = None) -> DataFrame:
        """Compute a frame now, and keep it.

        Args:
            rows: the frame.
            count: the number of its rows, if known; then it is not computed.

        Returns:
            The frame; if it has no rows, a frame that Spark knows to be empty, so that queries on
            it compute nothing.
        """
        if count is None:
            count = self.always(rows).count()
        few = sf.broadcast(rows) if count <= BROADCAST_ROWS else rows
        return few if count else rows.where("false")

    def free(self) -> None:
        """Release the frames."""
        for rows in self.frames:
            rows.unpersist()
