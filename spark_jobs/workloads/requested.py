"""Measures of the trials that request them: keys, orders, loads, fields.

Such a trial is not divided, and its rows need all of its records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ackbench.spark_jobs.measures.measure import MeasuredTrial, OfEntireTrial, Row, Tables
from ackbench.spark_jobs.measures.unit import MeasuredUnit
from ackbench.spark_jobs.workloads import fields, keys, loads, orders


@dataclass(frozen=True)
class KeyedRows(OfEntireTrial):
    """The order of keys and pairs, and what partitions and brokers carried."""

    found: Mapping[str, Sequence[Row]]

    @classmethod
    def of(cls, unit: MeasuredUnit) -> KeyedRows | None:
        """Compare the order of sending with that of the log and of the reads, where keys matter."""
        record, arrays = unit.manifest, unit.arrays
        if record.keying is None:
            return None
        received = unit.processed if unit.groups else unit.received
        rows: dict[str, Sequence[Row]] = {
            "orders": list(orders.order_rows(arrays, received, record.keying)),
            "lags": list(orders.lag_rows(received)),
        }
        by_second: loads.SlotCounts = {}
        if record.keying.placement:
            rows["keys"] = list(keys.key_rows(arrays.attempts, record))
            by_second = loads.records_by_second(arrays.log, record.phases.load_begin_ns)
        rows["loads"] = list(loads.load_rows(by_second, unit.events))
        rows["skews"] = list(loads.skew_rows(rows["loads"], record))
        return cls(rows)

    def rows(self, trial: MeasuredTrial) -> Tables:
        """Return a trial's rows of `ORDERS`, `LAGS`, `KEYS`, `LOADS` and `SKEWS`."""
        del trial
        return self.found


@dataclass(frozen=True)
class FieldRows(OfEntireTrial):
    """The fields of records, compared with those that were sent."""

    found: Mapping[str, Sequence[Row]]

    @classmethod
    def of(cls, unit: MeasuredUnit) -> FieldRows | None:
        """Compare the fields of records that were sent, received and read again, if noted."""
        sent, replays = unit.arrays.sent, unit.arrays.replays
        if sent is None or replays is None:
            return None
        records = len(unit.arrays.ids)
        return cls(
            {
                "fields": list(fields.field_rows(sent, replays, unit.arrays.attempts, records)),
                "replays": list(fields.replay_rows(replays, unit.manifest.replays)),
            }
        )

    def rows(self, trial: MeasuredTrial) -> Tables:
        """Return a trial's rows of `FIELDS` and `REPLAY_DIFFERENCES`."""
        del trial
        return self.found
