"""Transactions: the outcome of their records, and whether each is visible as a unit or not at all.

A transactional record is acknowledged when its transaction is committed, and not before.
`docs/metrics.md` says what follows for fates.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from experiments.ledger.schema import ABANDONED, ABORTED, FENCED, REJECTED, UNKNOWN
from spark_jobs.io.frames import Frames
from spark_jobs.measures.blocks import BLOCK, bitmap_union, cardinality, intersection, with_block

NOT_COMMITTED: Final = (ABORTED, FENCED, ABANDONED)
"""The outcomes of a transaction whose commit was never requested, or was refused."""
_TRANSACTION: Final = ("trial_no", "producer", "transaction")


def read_committed_view(frames: Frames, trial_info: DataFrame) -> Frames:
    """Return the ledgers as a `read_committed` application sees them.

    Args:
        frames: the ledgers' rows, with trial_no.
        trial_info: trial_id, trial_no; one row per trial.

    Returns:
        In `attempts`, `outcome` is the outcome with its transaction's, and `reported_outcome` that
        of the delivery report. `log` has the visible rows only.
    """
    attempts = frames.attempts.withColumn("reported_outcome", sf.col("outcome"))
    if frames.transactions.num_rows:
        attempts = with_transaction_outcomes(attempts, _endings(frames.transactions, trial_info))
    return replace(frames, attempts=attempts, log=frames.log.where("visible"))


def _endings(transactions: pa.Table, trial_info: DataFrame) -> DataFrame:
    """Return how each transaction ended: trial_no, producer, transaction, ending."""
    rows = transactions.select(["trial_id", "producer", "transaction", "outcome"])
    rows = rows.set_column(3, "ending", rows["outcome"].cast(pa.string())).combine_chunks()
    endings = trial_info.sparkSession.createDataFrame(rows).join(
        sf.broadcast(trial_info.select("trial_id", "trial_no")), "trial_id"
    )
    return endings.select(*_TRANSACTION, "ending")


def with_transaction_outcomes(attempts: DataFrame, endings: DataFrame) -> DataFrame:
    """Replace each record's outcome by the one that follows from its transaction.

    Args:
        attempts: trial_no, producer, transaction, outcome.
        endings: trial_no, producer, transaction, ending.
    """
    return (
        attempts.join(sf.broadcast(endings), list(_TRANSACTION), "left")
        .withColumn("outcome", _outcome())
        .drop("ending")
    )


def _outcome() -> Column:
    """Return the outcome of a record, given its own and its transaction's.

    All records of a transaction that was not committed are aborted. A rejected record is in no
    transaction, so an unknown outcome of the transaction does not change it.
    """
    aborted, unknown = (
        sf.col("ending").isin(*NOT_COMMITTED),
        (sf.col("ending") == UNKNOWN) & (sf.col("outcome") != REJECTED),
    )
    return sf.when(aborted, ABORTED).when(unknown, UNKNOWN).otherwise(sf.col("outcome"))


def count_torn_transactions(attempts: DataFrame, blocks: DataFrame) -> DataFrame:
    """Count the transactions of which some records are visible and others are not.

    A rejected record is in no transaction.

    Args:
        attempts: trial_no, producer, seq, transaction (null: none), reported_outcome.
        blocks: of `spark_jobs.measures.fates.record_blocks`, over the visible log.

    Returns:
        trial_no, torn_transactions; no row for a trial without any.
    """
    sent = with_block(
        attempts.where((sf.col("reported_outcome") != REJECTED) & sf.col("transaction").isNotNull())
    )
    by_block = sent.groupBy(*BLOCK, "transaction").agg(bitmap_union("bit").alias("sent"))
    parts = by_block.join(blocks.select(*BLOCK, "present"), list(BLOCK))
    transactions = parts.groupBy(*_TRANSACTION).agg(
        sf.sum(cardinality(sf.col("sent"))).alias("records"),
        sf.sum(cardinality(intersection("sent", "present"))).alias("visible"),
    )
    torn = transactions.where((sf.col("visible") > 0) & (sf.col("visible") < sf.col("records")))
    return torn.groupBy("trial_no").agg(sf.count("*").alias("torn_transactions"))


def count_hidden_copies(log: DataFrame) -> DataFrame:
    """Count the rows of the log that are not visible to a `read_committed` consumer.

    Args:
        log: trial_no, visible.

    Returns:
        trial_no, hidden_copies; no row for a trial without any.
    """
    return log.where("NOT visible").groupBy("trial_no").agg(sf.count("*").alias("hidden_copies"))
