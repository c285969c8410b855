"""Records of transactions: what a client may claim of them, and whether each transaction is shown whole or not at all.

A transactional record is acknowledged when its transaction is committed, and not before. What follows of that for fates is in `docs/metrics.md`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from experiments.ledger.schema import ABANDONED, ABORTED, FENCED, REJECTED, UNKNOWN
from spark_jobs.io.frames import Frames
from spark_jobs.measures.blocks import BLOCK, bits, cardinality, intersection, with_block

NOT_COMMITTED: Final = (ABORTED, FENCED, ABANDONED)
"""How a transaction ends of which nobody asked for the commit, or was told that there is none."""
_TRANSACTION: Final = ("trial_no", "producer", "transaction")


def read_committed_view(frames: Frames, marks: DataFrame) -> Frames:
    """Return the ledgers as a `read_committed` application has them: what its client may claim of each record, and the log that it is shown.

    Args:
        frames: the ledgers' rows, with trial_no.
        marks: trial_id, trial_no, a row a trial.

    Returns:
        `attempts` has the claim as its `outcome`, and what the delivery report said as `told`; `log` has the shown rows alone.
    """
    attempts = frames.attempts.withColumn("reported_outcome", sf.col("outcome"))
    if frames.transactions.num_rows:
        attempts = with_transaction_outcomes(attempts, _ended(frames.transactions, marks))
    return replace(frames, attempts=attempts, log=frames.log.where("visible"))


def _ended(transactions: pa.Table, marks: DataFrame) -> DataFrame:
    """Return how each transaction ended; they are few."""
    told = transactions.select(["trial_id", "producer", "transaction", "outcome"])
    told = told.set_column(3, "ending", told["outcome"].cast(pa.string())).combine_chunks()
    ended = marks.sparkSession.createDataFrame(told).join(
        sf.broadcast(marks.select("trial_id", "trial_no")), "trial_id"
    )
    return ended.select(*_TRANSACTION, "ending")


def with_transaction_outcomes(attempts: DataFrame, ended: DataFrame) -> DataFrame:
    """Replace each record's outcome by what may be claimed of it, once it is known how its transaction ended.

    Args:
        attempts: trial_no, producer, transaction, outcome.
        ended: trial_no, producer, transaction, ending.
    """
    return (
        attempts.join(sf.broadcast(ended), list(_TRANSACTION), "left")
        .withColumn("outcome", _claim())
        .drop("ending")
    )


def _claim() -> Column:
    """A record that was refused is in no transaction of unknown end; of one that is not to be shown, it is nothing else either."""
    aborted, unknown = (
        sf.col("ending").isin(*NOT_COMMITTED),
        (sf.col("ending") == UNKNOWN) & (sf.col("outcome") != REJECTED),
    )
    return sf.when(aborted, ABORTED).when(unknown, UNKNOWN).otherwise(sf.col("outcome"))


def count_torn_transactions(attempts: DataFrame, blocks: DataFrame) -> DataFrame:
    """Count the transactions of which some records are shown and others are not; what was refused is in none.

    Args:
        attempts: trial_no, producer, seq, transaction (null: none), told.
        blocks: of `spark_jobs.measures.fates.record_blocks`, over the shown log.

    Returns:
        trial_no, torn_transactions; no row for a trial without any.
    """
    sent = with_block(
        attempts.where((sf.col("reported_outcome") != REJECTED) & sf.col("transaction").isNotNull())
    )
    asked = sent.groupBy(*BLOCK, "transaction").agg(bits("bit").alias("asked"))
    parts = asked.join(blocks.select(*BLOCK, "present"), list(BLOCK))
    whole = parts.groupBy(*_TRANSACTION).agg(
        sf.sum(cardinality(sf.col("asked"))).alias("records"),
        sf.sum(cardinality(intersection("asked", "present"))).alias("shown"),
    )
    torn = whole.where((sf.col("shown") > 0) & (sf.col("shown") < sf.col("records")))
    return torn.groupBy("trial_no").agg(sf.count("*").alias("torn_transactions"))


def count_hidden_copies(log: DataFrame) -> DataFrame:
    """Count the rows of the log that a `read_committed` consumer is not shown.

    Args:
        log: trial_no, visible.

    Returns:
        trial_no, hidden_copies; no row for a trial without any.
    """
    return log.where("NOT visible").groupBy("trial_no").agg(sf.count("*").alias("hidden_copies"))
