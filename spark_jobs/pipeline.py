"""The measuring job, from the ledgers of a sweep to its result tables.

`measure_frames` is the job: it calls the stages in their order. Before it, without a JVM,
`spark_jobs.io.ledgers.open_ledgers` finds the sealed trials and validates their files.

| stage | what it does | module |
|---|---|---|
| prepare | number the trials, find the groups, apply `read_committed` | `io.frames`, `measures` |
| screen | find the few blocks of records that need a second pass | `causes.screening` |
| fates | compare attempts with the log; count duplicates exactly | `measures.fates` |
| order | count records that a later one overtook in the log | `measures.order` |
| reads | count records that a consumer missed or received again | `measures.reads` |
| latency | exact quantiles and histograms | `measures.latency` |
| availability | each partition's longest gap without an answer | `measures.availability` |
| throughput | rates, and what happened in each tenth of a second | `measures.throughput` |
| transactions | hidden records; transactions that are visible in part | `measures.transactions` |
| groups, copies, keys, fields | of the trials that request them | `workloads` |
| check | compare sums that were counted in different ways | `trial_table` |
| trials | one row per trial | `trial_table` |
| explain | the cause of each anomaly and outage | `causes.explanations` |
| tables | everything that `experiments.ledger.result_tables.RESULTS` lists | here |

A stage submits its tables to a few threads and returns them as futures: while Spark computes one
table, the driver plans the next. Only counts and anomalous records leave Spark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final, ParamSpec

import pyarrow as pa
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession

from experiments.ledger.workload_tables import (
    COPIES,
    FIELDS,
    KEYS,
    LAGS,
    ORDERS,
    REPLAY_DIFFERENCES,
)
from spark_jobs.causes.explanations import ExplanationTables, explanation_tables
from spark_jobs.causes.screening import Screening, screen
from spark_jobs.io.frames import (
    ConsumerEnding,
    Frames,
    TablePlan,
    collect_with_trial_ids,
    consumer_endings,
    read_frames,
    trial_info,
    with_trial_numbers,
)
from spark_jobs.io.ledgers import InvalidLedger, Ledger, Ledgers
from spark_jobs.measures import latency, throughput
from spark_jobs.measures.availability import with_side_names
from spark_jobs.measures.cells import cell_table
from spark_jobs.measures.expiry import log_start_offsets, with_expired_unknown
from spark_jobs.measures.fates import count_duplicates, count_fates, with_duplicates
from spark_jobs.measures.order import count_reordered_records
from spark_jobs.measures.reads import count_reads, count_redelivered_reads
from spark_jobs.measures.transactions import (
    count_hidden_copies,
    count_torn_transactions,
    read_committed_view,
)
from spark_jobs.trial_table import TrialCounts, check_sums, trial_table
from spark_jobs.workloads.assignments import assignment_rows, group_rows
from spark_jobs.workloads.copies import plan_copies
from spark_jobs.workloads.fields import plan_fields
from spark_jobs.workloads.groups import (
    Groups,
    concurrent_reads,
    group_counts,
    group_redeliveries,
    groups_by_trial,
    member_reads,
    processing_gaps,
)
from spark_jobs.workloads.key_measures import KeyMeasures, LoadTables
from spark_jobs.workloads.serving import brokers, serving

PendingTable = Future[pa.Table]
"""A table that is being computed, with trial_id."""
_Inputs = ParamSpec("_Inputs")
_PARALLEL_JOBS: Final = 4


# The job.


def measure_ledgers(spark: SparkSession, ledgers: Ledgers) -> dict[str, pa.Table]:
    """Return the tables of `experiments.ledger.result_tables.RESULTS`.

    Raises:
        InvalidLedger: a sum does not hold, or a file's footer is valid but its data cannot be
            read. The message names the trial.
    """
    try:
        return measure_frames(read_frames(spark, ledgers), ledgers.trials)
    except Py4JJavaError as error:  # its text can be read only while the JVM is running
        raise _error_for(str(error)) from None


def measure_frames(frames: Frames, ledgers: Sequence[Ledger]) -> dict[str, pa.Table]:
    """Return the tables of `experiments.ledger.result_tables.RESULTS`.

    Args:
        frames: the rows of all ledgers, from files or from memory.
        ledgers: the trials.

    Raises:
        InvalidLedger: a sum does not hold; the message names the trial.
    """
    sweep = prepare(frames, ledgers)
    with (
        table_jobs(ledgers) as jobs,
        screen(sweep.visible, sweep.trial_info, jobs.executor) as screening,
    ):
        fates = submit_fates(jobs, screening)
        order = submit_order(jobs, screening)
        reads = submit_reads(jobs, screening)
        latencies = submit_latency(jobs, screening)
        availability = submit_availability(jobs, screening)
        load = submit_throughput(jobs, sweep)
        transactions = submit_transactions(jobs, sweep, screening)
        groups = submit_groups(jobs, sweep)
        copies = submit_copies(jobs, sweep)
        keys = submit_keys(jobs, sweep)
        fields = submit_fields(jobs, sweep)
        counts = TrialCounts(
            fates=fates.result(),
            reordered=order.result(),
            reads=reads.counts.result(),
            redelivered=reads.redelivered.result(),
            latency=latencies.quantiles.result(),
            histogram=latencies.histogram.result(),
            gaps=availability.result(),
            throughput=load.rates.result(),
            timeline=load.timeline.result(),
            hidden_copies=transactions.hidden_copies.result(),
            torn_transactions=transactions.torn.result(),
            groups=groups.counts.result(),
            group_redeliveries=groups.redeliveries.result(),
            processing_gaps=groups.processing_gaps.result(),
            copies=copies.result(),
        )
        check_sums(ledgers, counts)
        trials = trial_table(ledgers, sweep.endings, counts, frames.transactions, sweep.groups)
        explained = explanation_tables(screening, sweep.trial_info, ledgers, trials, counts.gaps)
        requested = collect_requested(keys, fields)
    return result_tables(sweep, counts, trials, explained, requested)


# Stage: prepare.


@dataclass(frozen=True)
class PreparedSweep:
    """The ledgers of a sweep, ready to be measured. DataFrames have `trial_no` as the trial."""

    ledgers: Sequence[Ledger]
    endings: Mapping[str, ConsumerEnding]
    """How the concurrent consumer ended, by trial id."""
    trial_info: DataFrame
    """Of `spark_jobs.io.frames.trial_info`."""
    groups: Groups
    """The consumer groups, by trial number."""
    stored: Frames
    """All rows: the complete log, and the reads of all consumers."""
    visible: Frames
    """What counts for the guarantees: the log and each record's outcome as a `read_committed`
    application sees them, and the reads of the concurrent consumer."""


def prepare(frames: Frames, ledgers: Sequence[Ledger]) -> PreparedSweep:
    """Number the trials, find their groups, and apply `read_committed` and expired records."""
    endings = consumer_endings(frames.events)
    info = trial_info(frames.attempts.sparkSession, ledgers, endings)
    stored = with_trial_numbers(frames, info)
    groups = groups_by_trial(
        frames.events,
        [ledger.record.trial_id for ledger in ledgers],
        log_start_offsets(ledgers),
    )
    by_concurrent_consumer = replace(stored, reads=concurrent_reads(stored.reads, groups))
    committed = read_committed_view(by_concurrent_consumer, info)
    visible = with_expired_unknown(committed, ledgers)
    return PreparedSweep(ledgers, endings, info, groups, stored, visible)


# Stages: measures of every trial.


def submit_fates(jobs: TableJobs, screening: Screening) -> PendingTable:
    """Count the records of each fate, with the duplicates."""
    return jobs.submit(exact_fates, screening)


def exact_fates(screening: Screening) -> DataFrame:
    """Return the fates of all records, corrected for the records that have duplicates."""
    fates = count_fates(screening.blocks)
    duplicates = count_duplicates(screening.duplicates, screening.blocks_with_duplicates)
    return with_duplicates(fates, duplicates)


def submit_order(jobs: TableJobs, screening: Screening) -> PendingTable:
    """Count the reordered records."""
    return jobs.submit(count_reordered_records, screening.reordered)


@dataclass(frozen=True)
class PendingReads:
    """What the concurrent consumer missed, and what it received again."""

    counts: PendingTable
    redelivered: PendingTable


def submit_reads(jobs: TableJobs, screening: Screening) -> PendingReads:
    """Count missed records and redelivered reads."""
    return PendingReads(
        counts=jobs.submit(count_reads, screening.blocks),
        redelivered=jobs.submit(count_redelivered_reads, screening.redelivered),
    )


@dataclass(frozen=True)
class PendingLatency:
    """Both latencies: to the acknowledgement, and from end to end."""

    quantiles: PendingTable
    histogram: PendingTable


def submit_latency(jobs: TableJobs, screening: Screening) -> PendingLatency:
    """Compute quantiles and histograms of both latencies."""
    return PendingLatency(
        quantiles=jobs.submit(exact_quantiles, screening),
        histogram=jobs.submit(bounded_histogram, screening),
    )


def exact_quantiles(screening: Screening) -> DataFrame:
    """Return both latencies' quantiles, exact to the microsecond.

    The slots of the histogram that hold a quantile are counted again, by the microsecond.
    """
    slots = latency.quantile_slots(latency.quantiles(screening.histogram))
    fine = latency.to_slots_except(screening.latencies, slots)
    return latency.with_measure_names(latency.quantiles(latency.histogram(fine)))


def bounded_histogram(screening: Screening) -> DataFrame:
    """Return both latencies' histograms, each slot with both its bounds."""
    return latency.with_measure_names(latency.with_slot_bounds(screening.histogram))


def submit_availability(jobs: TableJobs, screening: Screening) -> PendingTable:
    """Find each partition's longest gap, for producers and for the concurrent consumer."""
    return jobs.submit(lambda: with_side_names(screening.gaps.result()))


@dataclass(frozen=True)
class PendingThroughput:
    """The rates of the load, and its course."""

    rates: PendingTable
    timeline: PendingTable


def submit_throughput(jobs: TableJobs, sweep: PreparedSweep) -> PendingThroughput:
    """Compute rates over the load window, and counts for each tenth of a second."""
    rows, info = sweep.visible, sweep.trial_info
    return PendingThroughput(
        rates=jobs.submit(throughput.throughput, rows.attempts, info),
        timeline=jobs.submit(throughput.timeline, rows.attempts, rows.reads, info),
    )


# Stages: measures of the trials that request them. For the others Spark computes nothing.


@dataclass(frozen=True)
class PendingTransactions:
    """What transactions hide, and which are visible in part."""

    hidden_copies: PendingTable
    torn: PendingTable


def submit_transactions(
    jobs: TableJobs, sweep: PreparedSweep, screening: Screening
) -> PendingTransactions:
    """Count hidden records, and transactions of which only some records are visible."""
    log, attempts = sweep.stored.log, sweep.visible.attempts
    return PendingTransactions(
        hidden_copies=jobs.submit(lambda: count_hidden_copies(_if_transactional(sweep, log))),
        torn=jobs.submit(
            lambda: count_torn_transactions(_if_transactional(sweep, attempts), screening.blocks)
        ),
    )


def _if_transactional(sweep: PreparedSweep, rows: DataFrame) -> DataFrame:
    """Return the rows; if no trial has transactions, a DataFrame that Spark knows to be empty."""
    return rows if sweep.stored.transactions.num_rows else rows.where("false")


@dataclass(frozen=True)
class PendingGroups:
    """What consumer groups processed."""

    counts: PendingTable
    redeliveries: PendingTable
    processing_gaps: PendingTable


def submit_groups(jobs: TableJobs, sweep: PreparedSweep) -> PendingGroups:
    """Count what each consumer group missed and processed again, and its longest pauses."""
    processed = member_reads(sweep.stored.reads, sweep.groups)
    return PendingGroups(
        counts=jobs.submit(group_counts, processed, sweep.stored.log, sweep.groups),
        redeliveries=jobs.submit(group_redeliveries, processed),
        processing_gaps=jobs.submit(processing_gaps, processed, sweep.trial_info),
    )


def submit_copies(jobs: TableJobs, sweep: PreparedSweep) -> PendingTable:
    """Count what a copying application missed, repeated and lost."""
    return jobs.submit_if_requested(plan_copies(sweep.stored, sweep.ledgers), COPIES)


@dataclass(frozen=True)
class PendingKeys:
    """The tables about keys, and what remains to be computed from them."""

    measures: KeyMeasures
    keys: PendingTable
    orders: PendingTable
    lags: PendingTable
    records_by_second: PendingTable


def submit_keys(jobs: TableJobs, sweep: PreparedSweep) -> PendingKeys:
    """Compute placement and order by key, over the reads of all consumers."""
    rows = replace(sweep.visible, reads=sweep.stored.reads)
    measures = KeyMeasures(rows, sweep.ledgers, sweep.groups)
    plans = measures.plan()
    return PendingKeys(
        measures=measures,
        keys=jobs.submit_if_requested(plans.keys, KEYS),
        orders=jobs.submit_if_requested(plans.orders, ORDERS),
        lags=jobs.submit_if_requested(plans.lags, LAGS),
        records_by_second=jobs.submit_if_requested(plans.records_by_second, pa.schema([])),
    )


@dataclass(frozen=True)
class PendingFields:
    """How records differ from what was sent, and replays from each other."""

    fields: PendingTable
    replays: PendingTable


def submit_fields(jobs: TableJobs, sweep: PreparedSweep) -> PendingFields:
    """Compare the fields of records and of replays."""
    plans = plan_fields(sweep.stored, sweep.ledgers)
    return PendingFields(
        fields=jobs.submit_if_requested(plans.fields, FIELDS),
        replays=jobs.submit_if_requested(plans.replays, REPLAY_DIFFERENCES),
    )


@dataclass(frozen=True)
class RequestedTables:
    """The tables of keys and fields; without rows if no trial requests them."""

    keys: pa.Table
    orders: pa.Table
    lags: pa.Table
    load: LoadTables
    fields: pa.Table
    replays: pa.Table


def collect_requested(keys: PendingKeys, fields: PendingFields) -> RequestedTables:
    """Wait for the tables of keys and fields."""
    return RequestedTables(
        keys=keys.keys.result(),
        orders=keys.orders.result(),
        lags=keys.lags.result(),
        load=keys.measures.load_tables(keys.records_by_second.result()),
        fields=fields.fields.result(),
        replays=fields.replays.result(),
    )


# Stage: tables.


def result_tables(
    sweep: PreparedSweep,
    counts: TrialCounts,
    trials: pa.Table,
    explained: ExplanationTables,
    requested: RequestedTables,
) -> dict[str, pa.Table]:
    """Return the result tables by the names of `experiments.ledger.result_tables.RESULTS`."""
    ledgers, groups, events = sweep.ledgers, sweep.groups, sweep.stored.events
    return {
        "trials": trials,
        "cells": cell_table(trials, counts.latency),
        "fates": counts.fates,
        "latency": counts.latency,
        "histogram": counts.histogram,
        "timeline": counts.timeline,
        "gaps": counts.gaps,
        "anomalies": explained.anomalies,
        "attribution": explained.attribution,
        "outages": explained.outages,
        "groups": group_rows(
            ledgers,
            groups,
            events,
            counts=counts.groups,
            redeliveries=counts.group_redeliveries,
            processing_gaps=counts.processing_gaps,
        ),
        "assignments": assignment_rows(events, ledgers, groups),
        "copies": counts.copies,
        "keys": requested.keys,
        "orders": requested.orders,
        "lags": requested.lags,
        "loads": requested.load.loads,
        "skews": requested.load.skews,
        "fields": requested.fields,
        "replays": requested.replays,
        "serving": serving(sweep.stored.served, events),
        "brokers": brokers(events),
    }


# How tables are computed.


@dataclass(frozen=True)
class TableJobs:
    """Computes tables in a few threads."""

    executor: Executor
    ledgers: Sequence[Ledger]

    def submit(
        self,
        plan: Callable[_Inputs, DataFrame],
        *inputs: _Inputs.args,
        **options: _Inputs.kwargs,
    ) -> PendingTable:
        """Plan and compute a table in another thread; the plan's result has trial_no."""
        return self.executor.submit(
            lambda: collect_with_trial_ids(plan(*inputs, **options), self.ledgers)
        )

    def submit_if_requested(self, plan: TablePlan | None, schema: pa.Schema) -> PendingTable:
        """Compute a table in another thread; without a plan, return an empty one.

        Args:
            plan: `None`: no trial requests the table.
            schema: of the empty table.
        """
        if plan is None:
            return self.executor.submit(schema.empty_table)
        return self.submit(plan)


@contextmanager
def table_jobs(ledgers: Sequence[Ledger]) -> Iterator[TableJobs]:
    """Yield threads that compute tables. When the context ends, jobs not yet started are dropped.

    Args:
        ledgers: the trials, in the order of their numbers.
    """
    executor = ThreadPoolExecutor(_PARALLEL_JOBS)
    try:
        yield TableJobs(executor, ledgers)
    finally:
        executor.shutdown(cancel_futures=True)


def _error_for(text: str) -> Exception:
    """Return the error for a message of Spark."""
    unreadable = re.search(r"FAILED_READ_FILE.*?/([^/\s]+)/(\w+\.parquet)", text)
    if unreadable:
        return InvalidLedger(
            f"trial {unreadable[1]}: {unreadable[2]} cannot be read: "
            "its footer is valid, but its data are not"
        )
    return RuntimeError(text)
