"""The first look at a sweep's records, by blocks, and the second one at what that found suspicious: kept, because several measures ask for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from spark_jobs.causes.anomalous_records import wanted
from spark_jobs.io.frames import Frames
from spark_jobs.measures.availability import COARSE_NS, WAY, acknowledgements, gaps, receipts
from spark_jobs.measures.blocks import crowded, nameless, read_again
from spark_jobs.measures.fates import copies, record_blocks
from spark_jobs.measures.latency import both_latencies, coarse, first_reads, histogram, whole_us
from spark_jobs.measures.order import behind, reordered
from spark_jobs.measures.reads import redelivered, repeated_reads

_SUSPICIONS: Final = (crowded, read_again, nameless)
BROADCAST_ROWS: Final = 200_000
"""Up to here what is suspect goes to every executor (some 10 MB), and the ledger is not shuffled to meet it."""


@dataclass(frozen=True)
class Screening:
    """What was found so far; all keyed by `trial_no`. What there is nothing of is empty, and costs nothing to ask for."""

    frames: Frames
    blocks: DataFrame
    """Of `spark_jobs.measures.fates.record_blocks`."""
    crowded: DataFrame
    """The blocks in which a record may have several copies."""
    copies: DataFrame
    """Of `spark_jobs.measures.fates.copies`."""
    reordered: DataFrame
    """Of `spark_jobs.measures.order.reordered`."""
    latencies: DataFrame
    """Of every record, both measures; of `spark_jobs.measures.latency.whole_us`."""
    histogram: DataFrame
    """Of `spark_jobs.measures.latency.histogram`, by slots."""
    redelivered: DataFrame
    """Of `spark_jobs.measures.reads.redelivered`."""
    wanted: DataFrame
    """Which records something may be wrong with; of `spark_jobs.causes.anomalous_records.wanted`."""
    gaps: Future[DataFrame]
    """Of `spark_jobs.measures.availability.gaps`, both sides."""
    nameless: DataFrame
    """trial_no of the trials whose log has rows without an id to rely on."""


@contextmanager
def screen(frames: Frames, marks: DataFrame, beside: Executor) -> Iterator[Screening]:
    """Look, and keep what was found in memory until the context ends.

    Args:
        frames: the ledgers' rows, with trial_no.
        marks: of `spark_jobs.io.frames.marks`.
        beside: threads that ask Spark while this one does.
    """
    kept = _Cached([])
    try:
        yield _screened(frames, marks, kept, beside)
    finally:
        kept.free()


def _screened(frames: Frames, marks: DataFrame, kept: _Cached, beside: Executor) -> Screening:
    rows_behind = beside.submit(lambda: kept.if_any(behind(frames.log)))
    longest_gaps = beside.submit(lambda: _gaps(frames, marks, kept))
    blocks = kept.always(record_blocks(frames.attempts, frames.log, frames.reads))
    odd = _odd(blocks)
    crowds, again, strange = (
        kept.if_any(blocks.where(suspicion()), count)
        for suspicion, count in zip(_SUSPICIONS, odd, strict=True)
    )
    several = kept.if_any(copies(frames.log, crowds), _in_them(odd[0]))
    repeated = kept.if_any(repeated_reads(frames.reads, again), _in_them(odd[1]))
    latencies = both_latencies(
        frames.attempts, first_reads(frames.reads, again, repeated)
    ).transform(whole_us, marks)
    late = rows_behind.result().transform(reordered, several)
    return Screening(
        frames=frames,
        blocks=blocks,
        crowded=crowds,
        copies=several,
        reordered=late,
        latencies=latencies,
        histogram=kept.always(latencies.transform(coarse).transform(histogram)),
        redelivered=repeated.transform(redelivered),
        wanted=kept.if_any(blocks.transform(wanted, late, marks)),
        gaps=longest_gaps,
        nameless=strange.select("trial_no"),
    )


def _gaps(frames: Frames, marks: DataFrame, kept: _Cached) -> DataFrame:
    """Find gaps by wide slots, and once more, by narrow ones, where they are too short for those."""
    stored = frames.attempts.withColumn(
        "outcome", sf.col("told")
    )  # a partition that takes records is there, whatever becomes of their transaction
    due = acknowledgements(stored, marks).unionByName(receipts(frames.reads, marks))
    coarse = kept.always(gaps(due, marks, COARSE_NS))
    short = kept.if_any(coarse.where(sf.col("gap_ns") < COARSE_NS).select(*WAY))
    return coarse.where(sf.col("gap_ns") >= COARSE_NS).unionByName(
        gaps(due.join(short, list(WAY), "left_semi"), marks)
    )


def _odd(blocks: DataFrame) -> Sequence[int]:
    """Count the blocks of each suspicion, all in one pass."""
    counts = blocks.agg(
        *(sf.count_if(suspicion()).alias(suspicion.__name__) for suspicion in _SUSPICIONS)
    ).toArrow()
    return [counts[suspicion.__name__][0].as_py() for suspicion in _SUSPICIONS]


def _in_them(blocks: int) -> int | None:
    """Return how many records are found in so many suspicious blocks: in none, none; in some, it is not known."""
    return None if blocks else 0


@dataclass(frozen=True)
class _Cached:
    """What is held in memory."""

    frames: list[DataFrame]

    def always(self, rows: DataFrame) -> DataFrame:
        """Compute it once, when it is first asked for."""
        self.frames.append(rows.persist())
        return rows

    def if_any(self, rows: DataFrame, count: int | None = None) -> DataFrame:
        """Compute it now, unless the count is known. Of no rows, return what Spark knows to be empty, so that nothing is computed of what is asked of it."""
        if count is None:
            count = self.always(rows).count()
        few = sf.broadcast(rows) if count <= BROADCAST_ROWS else rows
        return few if count else rows.where("false")

    def free(self) -> None:
        """Hold it no longer."""
        for rows in self.frames:
            rows.unpersist()
