"""What is made of keys, pairs and partitions, of the trials that ask it; where none does, Spark is asked nothing."""

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
from spark_jobs.workloads.inversions import lags, orders, pairs, received, stored
from spark_jobs.workloads.keys import keyings, keys
from spark_jobs.workloads.loads import loads, records_by_second, skews

_SCHEMAS: Final = {"keys": KEYS, "orders": ORDERS, "lags": LAGS, "loads": LOADS, "skews": SKEWS}
_COUNTED: Final = "records_by_second"
"""Not yet a result: batches and bytes come beside it."""


@dataclass(frozen=True)
class KeyMeasures:
    """The trials that ask, and all trials' rows."""

    frames: Frames
    """As a `read_committed` application has them; its reads are those of every consumer."""
    ledgers: Sequence[Ledger]
    groups: Groups

    def tables(self) -> Mapping[str, Callable[[], DataFrame]]:
        """Return how each table is made; `trial_no` is in the place of `trial_id`."""
        if not self._asked(placement=False).num_rows:
            return {}
        return {
            "keys": lambda: keys(self.frames.attempts, self._told(placement=True)),
            "orders": self._orders,
            "lags": lambda: lags(self._reads()),
            _COUNTED: lambda: records_by_second(self.frames.log, self._told(placement=True)),
        }

    def results(self, found: Mapping[str, pa.Table]) -> Mapping[str, pa.Table]:
        """Return all tables from those that Spark found; where it was asked nothing, each without a row."""
        if not found:
            return {name: schema.empty_table() for name, schema in _SCHEMAS.items()}
        spread = loads(found[_COUNTED], self.frames.events)
        made = {"loads": spread, "skews": skews(spread, self.ledgers)}
        return {name: found[name] if name in found else made[name] for name in _SCHEMAS}

    def _orders(self) -> DataFrame:
        seen, asked = (
            stored(self.frames.log).unionByName(received(self._reads())),
            self._told(placement=False),
        )
        of_streams = orders(seen, self.frames.attempts, asked)
        has_pairs = bool(self._asked(placement=False)["apart_records"].drop_null())
        return of_streams.unionByName(pairs(seen, asked)) if has_pairs else of_streams

    def _asked(self, *, placement: bool) -> pa.Table:
        return keyings(self.ledgers, placement=placement)

    def _told(self, *, placement: bool) -> DataFrame:
        return self.frames.attempts.sparkSession.createDataFrame(self._asked(placement=placement))

    def _reads(self) -> DataFrame:
        """Return what the consumers received that the trials are about: a group's members; where there was none, the reader along."""
        asked = self._asked(placement=False)["trial_no"].to_pylist()
        grouped = [number for number in asked if number in self.groups]
        reads = self.frames.reads
        alone = reads["trial_no"].isin([number for number in asked if number not in self.groups])
        return reads.where(alone | (reads["trial_no"].isin(grouped) & (reads["consumer"] > 0)))
