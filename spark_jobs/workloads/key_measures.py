"""The tables about keys, orders, lags and the distribution of the load.

Only trials that request these measures have rows; if no trial does, no Spark job runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame

from experiments.ledger.workload_tables import KEYS, LAGS, LOADS, ORDERS, SKEWS
from spark_jobs.io.frames import Frames
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

_SCHEMAS: Final = {
    "keys": KEYS,
    "orders": ORDERS,
    "lags": LAGS,
    "loads": LOADS,
    "skews": SKEWS,
}
_RECORDS_BY_SECOND: Final = "records_by_second"
"""An intermediate table: `loads` adds batches and bytes."""


@dataclass(frozen=True)
class KeyMeasures:
    """The measures of keys, of the trials that request them."""

    frames: Frames
    """The rows of all trials, as visible to `read_committed`, with the reads of all consumers."""
    ledgers: Sequence[Ledger]
    groups: Groups

    def tables(self) -> Mapping[str, Callable[[], DataFrame]]:
        """Return how to compute each table, by its name; results have `trial_no` as their id."""
        if not self._keyed_trials(placement=False).num_rows:
            return {}
        return {
            "keys": lambda: keys(self.frames.attempts, self._keyed_frame(placement=True)),
            "orders": self._orders,
            "lags": lambda: lags(self._reads()),
            _RECORDS_BY_SECOND: lambda: records_by_second(
                self.frames.log, self._keyed_frame(placement=True)
            ),
        }

    def results(self, computed: Mapping[str, pa.Table]) -> Mapping[str, pa.Table]:
        """Return all result tables.

        Args:
            computed: the tables of `tables`, with trial_id; empty: all results have no rows.
        """
        if not computed:
            return {name: schema.empty_table() for name, schema in _SCHEMAS.items()}
        by_second = loads(computed[_RECORDS_BY_SECOND], self.frames.events)
        derived = {"loads": by_second, "skews": skews(by_second, self.ledgers)}
        return {name: computed[name] if name in computed else derived[name] for name in _SCHEMAS}

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
