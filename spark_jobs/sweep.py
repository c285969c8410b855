"""All of a sweep's results in one Spark session; what is collected is counted rows, and of records those alone that something is wrong with."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession

from spark_jobs import availability, latency
from spark_jobs.cells import cells
from spark_jobs.counted import Found
from spark_jobs.explaining import explained
from spark_jobs.fates import fates, further_copies, with_further_copies
from spark_jobs.frames import Frames, endings, marks, named, numbered, stored
from spark_jobs.ledgers import Ledger, Ledgers, UnfitLedger
from spark_jobs.looking import Looked, first_look
from spark_jobs.order import reordered_records
from spark_jobs.reading import read_counts, redelivered_reads
from spark_jobs.throughput import throughput
from spark_jobs.timeline import timeline
from spark_jobs.trials import trials


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
    ended = endings(frames.events)
    of_trials = marks(frames.attempts.sparkSession, ledgers, ended)
    with first_look(numbered(frames, of_trials), of_trials) as looked:
        found = _found(looked, of_trials)
        table = trials(ledgers, ended, found)
        why = explained(looked, of_trials, ledgers, table, found.gaps)
    shown = {name: getattr(found, name) for name in ("fates", "latency", "histogram", "timeline", "gaps")}
    return {**shown, **why, "trials": table, "cells": cells(table, found.latency)}


def _found(looked: Looked, of_trials: DataFrame) -> Found:
    frames = looked.frames
    due = availability.acknowledgements(frames.attempts, of_trials).unionByName(availability.receipts(frames.reads, of_trials))
    measured = {
        "fates": all_fates(looked),
        "timeline": timeline(frames.attempts, frames.reads, of_trials),
        "gaps": availability.gaps(due, of_trials).transform(availability.in_words),
        "throughput": throughput(frames.attempts, of_trials),
        "reading": read_counts(looked.blocks),
        "reordered": reordered_records(looked.reordered),
        "redelivered": redelivered_reads(looked.redelivered),
        **all_latencies(looked),
    }
    return Found(**{name: named(table, of_trials).toArrow() for name, table in measured.items()})


def all_fates(looked: Looked) -> DataFrame:
    """Return the fates of all records, corrected where a record has several copies."""
    counted = looked.blocks.transform(fates)
    return counted.transform(with_further_copies, further_copies(looked.copies, looked.crowded))


def all_latencies(looked: Looked) -> dict[str, DataFrame]:
    """Return both latencies' quantiles, exact to the microsecond, and histograms, by slots: those that hold a quantile are counted by the microsecond."""
    fine = looked.histogram.transform(latency.quantiles).transform(latency.slots_of)
    exact = looked.latencies.transform(latency.coarse_but, fine).transform(latency.histogram).transform(latency.quantiles)
    return {"latency": exact.transform(latency.in_words), "histogram": looked.histogram.transform(latency.bounded).transform(latency.in_words)}
