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

from spark_jobs.causes.explanations import explanation_tables
from spark_jobs.causes.screening import Screening, screen
from spark_jobs.io.frames import (
    Frames,
    collect_with_trial_ids,
    consumer_endings,
    read_frames,
    trial_info,
    with_trial_numbers,
)
from spark_jobs.io.ledgers import InvalidLedger, Ledger, Ledgers
from spark_jobs.measures import availability, expiry, latency
from spark_jobs.measures.cells import cell_table
from spark_jobs.measures.counts import TrialCounts
from spark_jobs.measures.fates import count_duplicates, count_fates, with_duplicates
from spark_jobs.measures.order import count_reordered_records
from spark_jobs.measures.reads import count_reads, count_redelivered_reads
from spark_jobs.measures.throughput import throughput, timeline
from spark_jobs.measures.transactions import (
    count_hidden_copies,
    count_torn_transactions,
    read_committed_view,
)
from spark_jobs.measures.trials import trial_table
from spark_jobs.workloads import copies as copied
from spark_jobs.workloads import fields
from spark_jobs.workloads import groups as group
from spark_jobs.workloads.assignments import group_rows, assignment_rows
from spark_jobs.workloads.key_measures import KeyMeasures
from spark_jobs.workloads.serving import brokers, serving

_Table = Callable[[], DataFrame]
_AT_ONCE: Final = 4
"""While Spark computes one table, the driver plans the next."""


def measure_ledgers(spark: SparkSession, ledgers: Ledgers) -> dict[str, pa.Table]:
    """Return the tables of `experiments.ledger.result_tables.RESULTS`.

    Raises:
        UnfitLedger: a sum does not hold, or a file's data cannot be read though its footer can; names the trial.
    """
    try:
        return measure_frames(read_frames(spark, ledgers), ledgers.trials)
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


def measure_frames(frames: Frames, ledgers: Sequence[Ledger]) -> dict[str, pa.Table]:
    """Return the tables of `experiments.ledger.result_tables.RESULTS`, wherever the ledgers lie.

    Args:
        frames: the ledgers' rows.
        ledgers: what is known of each trial besides.

    Raises:
        UnfitLedger: a sum does not hold; names the trial.
    """
    ended = consumer_endings(frames.events)
    of_trials = trial_info(frames.attempts.sparkSession, ledgers, ended)
    of_records = with_trial_numbers(frames, of_trials)
    groups = group.groups_by_trial(
        frames.events,
        [ledger.record.trial_id for ledger in ledgers],
        expiry.log_start_offsets(ledgers),
    )
    of_claims = expiry.with_expired_unknown(
        read_committed_view(
            replace(of_records, reads=group.concurrent_reads(of_records.reads, groups)), of_trials
        ),
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
                of_copies["copies"].result() if of_copies else copied.EMPTY,
            )
            table = trial_table(ledgers, ended, found, frames.transactions, groups)
            why = explanation_tables(looked, of_trials, ledgers, table, found.gaps)
        compared = {**fields.EMPTY, **{name: asked.result() for name, asked in of_fields.items()}}
        of_keyed = keyed.results({name: asked.result() for name, asked in of_keys.items()})
    shown = {
        name: getattr(found, name) for name in ("fates", "latency", "histogram", "timeline", "gaps")
    }
    held = assignment_rows(frames.events, ledgers, groups)
    return {
        **shown,
        **why,
        **of_keyed,
        **compared,
        "serving": serving(frames.served, frames.events),
        "brokers": brokers(frames.events),
        "trials": table,
        "cells": cell_table(table, found.latency),
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
        name: beside.submit(lambda table: collect_with_trial_ids(table(), ledgers), table)
        for name, table in tables.items()
    }


def _found(asked: Mapping[str, Future[pa.Table]], copies: pa.Table) -> TrialCounts:
    return TrialCounts(**{name: table.result() for name, table in asked.items()}, copies=copies)


def _apart(frames: Frames, of_trials: DataFrame, log: DataFrame) -> Mapping[str, _Table]:
    """Return what needs no more than the ledgers; `log` is the whole of it."""
    return {
        "hidden": lambda: count_hidden_copies(_if_transactional(frames, log)),
        "timeline": lambda: timeline(frames.attempts, frames.reads, of_trials),
        "throughput": lambda: throughput(frames.attempts, of_trials),
    }


def _of_groups(frames: Frames, of_trials: DataFrame, groups: group.Groups) -> Mapping[str, _Table]:
    """Return what consumer groups made of the log."""
    of_groups = group.member_reads(frames.reads, groups)
    return {
        "group": lambda: group.group_counts(of_groups, frames.log, groups),
        "processed_again": lambda: group.group_redeliveries(of_groups),
        "processing_gaps": lambda: group.processing_gaps(of_groups, of_trials),
    }


def _looked_up(looked: Screening) -> Mapping[str, _Table]:
    """Return what builds on the first look."""
    return {
        "gaps": lambda: looked.gaps.result().transform(availability.with_side_names),
        "latency": lambda: exact_latencies(looked),
        "histogram": lambda: looked.histogram.transform(latency.with_slot_bounds).transform(
            latency.with_measure_names
        ),
        "fates": lambda: all_fates(looked),
        "reading": lambda: count_reads(looked.blocks),
        "reordered": lambda: count_reordered_records(looked.reordered),
        "torn": lambda: count_torn_transactions(
            _if_transactional(looked.frames, looked.frames.attempts), looked.blocks
        ),
        "redelivered": lambda: count_redelivered_reads(looked.redelivered),
    }


def _if_transactional(frames: Frames, rows: DataFrame) -> DataFrame:
    """Return the rows, or none of them where no trial had transactions: then Spark computes nothing of what is asked of them."""
    return rows if frames.transactions.num_rows else rows.where("false")


def all_fates(looked: Screening) -> DataFrame:
    """Return the fates of all records, corrected where a record has several copies."""
    counted = looked.blocks.transform(count_fates)
    return counted.transform(with_duplicates, count_duplicates(looked.copies, looked.crowded))


def exact_latencies(looked: Screening) -> DataFrame:
    """Return both latencies' quantiles, exact to the microsecond: slots that hold a quantile are counted by the microsecond."""
    fine = looked.histogram.transform(latency.quantiles).transform(latency.quantile_slots)
    exact = (
        looked.latencies.transform(latency.to_slots_except, fine)
        .transform(latency.histogram)
        .transform(latency.quantiles)
    )
    return exact.transform(latency.with_measure_names)
