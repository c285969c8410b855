"""All of a sweep's results in one Spark session; what is collected is a few rows a trial, never records."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark_jobs.availability import gaps
from spark_jobs.blocks import crowded
from spark_jobs.cells import cells
from spark_jobs.fates import fates, further_copies, record_blocks, with_further_copies
from spark_jobs.frames import Frames, phases, stored
from spark_jobs.latency import (
    ack_latencies,
    coarse,
    coarse_but,
    end_to_end_latencies,
    first_reads,
    histogram,
    named,
    quantiles,
    read_blocks,
    slots_of,
    whole_us,
)
from spark_jobs.ledgers import Ledger, Ledgers, UnfitLedger
from spark_jobs.throughput import throughput
from spark_jobs.trials import Found, trials

_BROADCAST_BLOCKS: Final = 200_000
"""Up to here the crowded blocks go to every executor (some 10 MB) and the ledger is not shuffled to meet them."""


def results(spark: SparkSession, ledgers: Ledgers) -> dict[str, pa.Table]:
    """Return the tables of `experiments.ledger.measured.RESULTS`.

    Raises:
        UnfitLedger: a sum does not hold, or a file's data cannot be read though its footer can; names the trial.
    """
    try:
        return results_of(stored(spark, ledgers), ledgers.trials)
    except Py4JJavaError as error:  # it can only be told while the JVM is there
        raise _told(str(error)) from None


def _told(text: str) -> Exception:
    """Return the error for what Spark said."""
    broken = re.search(r"FAILED_READ_FILE.*?/([^/\s]+)/(\w+\.parquet)", text)
    if broken:
        return UnfitLedger(f"trial {broken[1]}: {broken[2]} cannot be read: its footer is whole, and its data are not")
    return RuntimeError(text)


def results_of(frames: Frames, ledgers: Sequence[Ledger]) -> dict[str, pa.Table]:
    """Return the tables of `experiments.ledger.measured.RESULTS`, wherever the ledgers lie.

    Args:
        frames: the ledgers' rows.
        ledgers: what is known of each trial besides.

    Raises:
        UnfitLedger: a sum does not hold; names the trial.
    """
    attempts, log, reads = frames.attempts, frames.log, frames.reads
    marks = phases(attempts.sparkSession, ledgers)
    found = Found(
        fates=all_fates(attempts, log).toArrow(),
        latency=all_latencies(attempts, reads, marks).toArrow(),
        gaps=gaps(attempts, marks).toArrow(),
        throughput=throughput(attempts, marks).toArrow(),
    )
    of_trials = trials(ledgers, found)
    return {"trials": of_trials, "fates": found.fates, "latency": found.latency, "gaps": found.gaps, "cells": cells(of_trials, found.latency)}


def all_fates(attempts: DataFrame, log: DataFrame) -> DataFrame:
    """Return the fates of all records, with a second pass over the log only where a block holds more copies than records."""
    blocks = record_blocks(attempts, log).persist()
    counted, suspects = blocks.transform(fates), blocks.transform(crowded)
    count = suspects.count()
    return counted.transform(with_further_copies, further_copies(log, _spread(suspects, count))) if count else counted


def all_latencies(attempts: DataFrame, reads: DataFrame, marks: DataFrame) -> DataFrame:
    """Return the quantiles of both latencies; reads are freed of repetitions only where there are any."""
    blocks = read_blocks(reads).persist()
    suspects = blocks.transform(crowded)
    count = suspects.count()
    first = reads.transform(first_reads, _spread(suspects, count)) if count else reads
    latencies = ack_latencies(attempts).unionByName(end_to_end_latencies(first)).transform(whole_us, marks)
    slots = latencies.transform(coarse).transform(histogram).transform(quantiles).transform(slots_of)
    return latencies.transform(coarse_but, slots).transform(histogram).transform(quantiles).transform(named, marks)


def _spread(suspects: DataFrame, count: int) -> DataFrame:
    return sf.broadcast(suspects) if count <= _BROADCAST_BLOCKS else suspects
