"""The tables about keys, orders, lags and the distribution of the load.

Only trials that request these measures have rows; if no trial does, no Spark job runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from experiments.ledger.workload_tables import LOADS, SKEWS
from spark_jobs.io.frames import Frames, TablePlan
from spark_jobs.io.ledgers import Ledger
from spark_jobs.workloads.groups import Groups
from spark_jobs.workloads.inversions import (
    lags,
    log_positions,
    pair_orders,
    receipt_positions,
    stream_orders,
)
from spark_jobs.workloads.keys import keyed_trials, keys
from spark_jobs.workloads.loads import loads, records_by_second, skews


@dataclass(frozen=True)
class KeyPlans:
    """How Spark computes each table; `None` if no trial requests these measures."""

    keys: TablePlan | None = None
    orders: TablePlan | None = None
    lags: TablePlan | None = None
    records_by_second: TablePlan | None = None
    """An intermediate table: `KeyMeasures.load_tables` adds batches and bytes."""


@dataclass(frozen=True)
class LoadTables:
    """The load on each partition, and how unevenly it is distributed."""

    loads: pa.Table
    skews: pa.Table


@dataclass(frozen=True)
class KeyMeasures:
    """The measures of keys, of the trials that request them."""

    frames: Frames
    """The rows of all trials, as visible to `read_committed`, with the reads of all consumers."""
    ledgers: Sequence[Ledger]
    groups: Groups

    def plan(self) -> KeyPlans:
        """Return how to compute the tables."""
        if not self._is_requested():
            return KeyPlans()
        return KeyPlans(
            keys=lambda: keys(self.frames.attempts, self._keyed_frame(placement=True)),
            orders=self._orders,
            lags=lambda: lags(self._reads()),
            records_by_second=lambda: records_by_second(
                self.frames.log, self._keyed_frame(placement=True)
            ),
        )

    def load_tables(self, by_second: pa.Table) -> LoadTables:
        """Return the tables of the load on each partition.

        Args:
            by_second: the table `KeyPlans.records_by_second`, with trial_id.
        """
        if not self._is_requested():
            return LoadTables(LOADS.empty_table(), SKEWS.empty_table())
        load = loads(by_second, self.frames.events)
        return LoadTables(load, skews(load, self.ledgers))

    def _is_requested(self) -> bool:
        return bool(self._keyed_trials(placement=False).num_rows)

    def _orders(self) -> DataFrame:
        positions, keyed = (
            log_positions(self.frames.log).unionByName(receipt_positions(self._reads())),
            self._keyed_frame(placement=False),
        )
        of_streams = stream_orders(positions, self.frames.attempts, keyed)
        has_pairs = bool(self._keyed_trials(placement=False)["apart_records"].drop_null())
        return of_streams.unionByName(pair_orders(positions, keyed)) if has_pairs else of_streams

    def _keyed_trials(self, *, placement: bool) -> pa.Table:
        return keyed_trials(self.ledgers, placement=placement)

    def _keyed_frame(self, *, placement: bool) -> DataFrame:
        spark = self.frames.attempts.sparkSession
        return spark.createDataFrame(self._keyed_trials(placement=placement))

    def _reads(self) -> DataFrame:
        """Return the reads that count: a group's members', or else the concurrent consumer's."""
        numbers = self._keyed_trials(placement=False)["trial_no"].to_pylist()
        with_group = [number for number in numbers if number in self.groups]
        without_group = [number for number in numbers if number not in self.groups]
        reads = self.frames.reads
        by_members = reads["trial_no"].isin(with_group) & (reads["consumer"] > 0)
        return reads.where(reads["trial_no"].isin(without_group) | by_members)
