"""All of a sweep's results in one Spark session; what is collected is counted rows, and of records those alone that something is wrong with."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Final

import pyarrow as pa
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession

from spark_jobs.causes.explanations import explained
from spark_jobs.causes.screening import Screening, screen
from spark_jobs.io.frames import Frames, endings, marks, named, numbered, stored
from spark_jobs.io.ledgers import InvalidLedger, Ledger, Ledgers
from spark_jobs.measures import availability, expiry, latency
from spark_jobs.measures.cells import cells
from spark_jobs.measures.counts import TrialCounts
from spark_jobs.measures.fates import fates, further_copies, with_further_copies
from spark_jobs.measures.order import reordered_records
from spark_jobs.measures.reads import read_counts, redelivered_reads
from spark_jobs.measures.throughput import throughput, timeline
from spark_jobs.measures.transactions import decided, hidden_copies, torn_transactions
from spark_jobs.measures.trials import trials
from spark_jobs.workloads import copies as copied
from spark_jobs.workloads import fields
from spark_jobs.workloads import groups as group
from spark_jobs.workloads.assignments import group_rows, holdings
from spark_jobs.workloads.keyed import KeyMeasures
from spark_jobs.workloads.serving import brokers, serving

_Table = Callable[[], DataFrame]
_AT_ONCE: Final = 4
"""While Spark computes one table, the driver plans the next."""


def results(spark: SparkSession, ledgers: Ledgers) -> dict[str, pa.Table]:
    """Return the tables of `experiments.ledger.result_tables.RESULTS`.

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
        return InvalidLedger(
            f"trial {broken[1]}: {broken[2]} cannot be read: its footer is whole, and its data are not"
        )
    return RuntimeError(text)


def results_of(frames: Frames, ledgers: Sequence[Ledger]) -> dict[str, pa.Table]:
    """Return the tables of `experiments.ledger.result_tables.RESULTS`, wherever the ledgers lie.

    Args:
        frames: the ledgers' rows.
        ledgers: what is known of each trial besides.

    Raises:
        UnfitLedger: a sum does not hold; names the trial.
    """
    ended = endings(frames.events)
    of_trials = marks(frames.attempts.sparkSession, ledgers, ended)
    of_records = numbered(frames, of_trials)
    groups = group.groups_of(
        frames.events, [ledger.record.trial_id for ledger in ledgers], expiry.begins_of(ledgers)
    )
    of_claims = expiry.witnessed(
        decided(replace(of_records, reads=group.along(of_records.reads, groups)), of_trials),
        ledgers,
    )
    with _threads() as beside:
        ask = partial(_asked, beside, ledgers)
        keyed = KeyMeasures(replace(of_claims, reads=of_records.reads), ledgers, groups)
        of_keys = ask(keyed.tables())
        apart = {
            **ask(_apart(of_claims, of_trials, of_records.log)),
            **ask(_of_groups(of_records, of_trials, groups)),
        }
        of_copies = ask(copied.tables(of_records, ledgers))
        of_fields = ask(fields.tables(of_records, ledgers))
        with screen(of_claims, of_trials, beside) as looked:
            found = _found(
                {**apart, **ask(_looked_up(looked))},
                of_copies["copies"].result() if of_copies else copied.NOTHING,
            )
            table = trials(ledgers, ended, found, frames.transactions, groups)
            why = explained(looked, of_trials, ledgers, table, found.gaps)
        compared = {**fields.NOTHING, **{name: asked.result() for name, asked in of_fields.items()}}
        of_keyed = keyed.results({name: asked.result() for name, asked in of_keys.items()})
    shown = {
        name: getattr(found, name) for name in ("fates", "latency", "histogram", "timeline", "gaps")
    }
    held = holdings(frames.events, ledgers, groups)
    return {
        **shown,
        **why,
        **of_keyed,
        **compared,
        "serving": serving(frames.served, frames.events),
        "brokers": brokers(frames.events),
        "trials": table,
        "cells": cells(table, found.latency),
        "assignments": held,
        "copies": found.copies,
        "groups": group_rows(ledgers, groups, found, frames.events),
    }


@contextmanager
def _threads() -> Iterator[Executor]:
    """Yield threads that ask Spark; what was not asked yet when the context ends is not asked any more."""
    beside = ThreadPoolExecutor(_AT_ONCE)
    try:
        yield beside
    finally:
        beside.shutdown(cancel_futures=True)


def _asked(
    beside: Executor, ledgers: Sequence[Ledger], tables: Mapping[str, _Table]
) -> Mapping[str, Future[pa.Table]]:
    """Have tables computed in other threads, and planned there too."""
    return {
        name: beside.submit(lambda table: named(table(), ledgers), table)
        for name, table in tables.items()
    }


def _found(asked: Mapping[str, Future[pa.Table]], copies: pa.Table) -> TrialCounts:
    return TrialCounts(**{name: table.result() for name, table in asked.items()}, copies=copies)


def _apart(frames: Frames, of_trials: DataFrame, log: DataFrame) -> Mapping[str, _Table]:
    """Return what needs no more than the ledgers; `log` is the whole of it."""
    return {
        "hidden": lambda: hidden_copies(_if_transactional(frames, log)),
        "timeline": lambda: timeline(frames.attempts, frames.reads, of_trials),
        "throughput": lambda: throughput(frames.attempts, of_trials),
    }


def _of_groups(frames: Frames, of_trials: DataFrame, groups: group.Groups) -> Mapping[str, _Table]:
    """Return what consumer groups made of the log."""
    of_groups = group.processed(frames.reads, groups)
    return {
        "group": lambda: group.group_counts(of_groups, frames.log, groups),
        "processed_again": lambda: group.processed_again(of_groups),
        "processing_gaps": lambda: group.processing_gaps(of_groups, of_trials),
    }


def _looked_up(looked: Screening) -> Mapping[str, _Table]:
    """Return what builds on the first look."""
    return {
        "gaps": lambda: looked.gaps.result().transform(availability.in_words),
        "latency": lambda: exact_latencies(looked),
        "histogram": lambda: looked.histogram.transform(latency.bounded).transform(
            latency.in_words
        ),
        "fates": lambda: all_fates(looked),
        "reading": lambda: read_counts(looked.blocks),
        "reordered": lambda: reordered_records(looked.reordered),
        "torn": lambda: torn_transactions(
            _if_transactional(looked.frames, looked.frames.attempts), looked.blocks
        ),
        "redelivered": lambda: redelivered_reads(looked.redelivered),
    }


def _if_transactional(frames: Frames, rows: DataFrame) -> DataFrame:
    """Return the rows, or none of them where no trial had transactions: then Spark computes nothing of what is asked of them."""
    return rows if frames.transactions.num_rows else rows.where("false")


def all_fates(looked: Screening) -> DataFrame:
    """Return the fates of all records, corrected where a record has several copies."""
    counted = looked.blocks.transform(fates)
    return counted.transform(with_further_copies, further_copies(looked.copies, looked.crowded))


def exact_latencies(looked: Screening) -> DataFrame:
    """Return both latencies' quantiles, exact to the microsecond: slots that hold a quantile are counted by the microsecond."""
    fine = looked.histogram.transform(latency.quantiles).transform(latency.slots_of)
    exact = (
        looked.latencies.transform(latency.coarse_but, fine)
        .transform(latency.histogram)
        .transform(latency.quantiles)
    )
    return exact.transform(latency.in_words)
