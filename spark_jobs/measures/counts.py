"""What Spark counted of a sweep's records, before it is put together by trial."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class TrialCounts:
    """What Spark found of all trials; every table has `trial_id`."""

    fates: pa.Table
    latency: pa.Table
    histogram: pa.Table
    timeline: pa.Table
    gaps: pa.Table
    throughput: pa.Table
    """attempted_per_s, acked_per_s."""
    reading: pa.Table
    """missed_records, read_records, reads; of `spark_jobs.measures.reads.count_reads`."""
    reordered: pa.Table
    """reordered_records; a trial without any has no row."""
    redelivered: pa.Table
    """redelivered_reads; a trial without any has no row."""
    group: pa.Table
    """By group; of `spark_jobs.workloads.groups.group_counts`."""
    processed_again: pa.Table
    """group, redelivered_reads; a group without any has no row."""
    processing_gaps: pa.Table
    """By group and partition; of `spark_jobs.workloads.groups.processing_gaps`."""
    copies: pa.Table
    """Of `experiments.ledger.workload_tables.COPIES`; a trial that copied nothing has no row."""
    hidden: pa.Table
    """hidden_copies; a trial without any has no row."""
    torn: pa.Table
    """torn_transactions; a trial without any has no row."""
