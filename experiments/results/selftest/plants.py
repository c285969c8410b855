"""The faults that the self-test plants: how each changes a ledger, and how the figures must change.

Faults are planted in undisturbed records only, so that every difference is due to the plant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ackbench.experiments.ledger.result_terms import QUANTILES, Fate, LatencyKind
from ackbench.experiments.ledger.terms import ACKED, COMMITTED, REJECTED, UNKNOWN
from ackbench.experiments.results.selftest.ledger_copy import LedgerCopy, Rows

Flags = npt.NDArray[np.bool_]
_IDS_PER_PRODUCER = 1 << 40


@dataclass(frozen=True)
class UndisturbedRecords:
    """Records without any anomaly, as rows of the three tables.

    The arrays have equal lengths and are in the order of the log; an index is the same record in
    all three.
    """

    attempts: Rows
    log: Rows
    reads: Rows

    def at(self, indices: Rows) -> UndisturbedRecords:
        """Return the records at these indices."""
        return UndisturbedRecords(self.attempts[indices], self.log[indices], self.reads[indices])


def undisturbed_records(ledger: LedgerCopy) -> UndisturbedRecords:
    """Return the records without any anomaly.

    They were acknowledged, in a committed transaction or in none, are in the log once and in order,
    and the concurrent consumer (consumer 0) read them once. Reads by members of a consumer group do
    not count.
    """
    attempted, logged = _ids(ledger, "attempts"), _ids(ledger, "log")
    read = np.where(ledger.values("reads", "consumer") > 0, -1, _ids(ledger, "reads"))
    outcome = np.asarray(
        ledger.tables["attempts"]["outcome"].cast("string").to_pylist(), dtype=object
    )
    undisturbed = logged[
        _once(logged) & _in_order(ledger, logged) & np.asarray(ledger.tables["log"]["intact"])
    ]
    undisturbed = undisturbed[
        (undisturbed >= 0)
        & np.isin(undisturbed, attempted[(outcome == ACKED) & _committed(ledger)])
        & np.isin(undisturbed, read[_once(read)])
    ]
    return UndisturbedRecords(
        _rows_of(attempted, undisturbed), _rows_of(logged, undisturbed), _rows_of(read, undisturbed)
    )


def _ids(ledger: LedgerCopy, name: str) -> npt.NDArray[np.int64]:
    """Return producer and seq as one number; -1 for a record of another origin."""
    producer, seq = ledger.values(name, "producer"), ledger.values(name, "seq")
    return np.where((producer < 0) | (seq < 0), -1, producer * _IDS_PER_PRODUCER + seq)


def _committed(ledger: LedgerCopy) -> Flags:
    """Return whether each attempt is of no transaction, or of one reported as committed."""
    outcomes = ledger.tables["transactions"]["outcome"].cast("string").to_pylist()
    is_committed = np.asarray(outcomes, dtype=object) == COMMITTED
    producer, transaction = (
        ledger.values("attempts", "producer"),
        ledger.values("attempts", "transaction"),
    )
    committed = (
        ledger.values("transactions", "producer") * _IDS_PER_PRODUCER
        + ledger.values("transactions", "transaction")
    )[is_committed]
    return (transaction < 0) | np.isin(producer * _IDS_PER_PRODUCER + transaction, committed)


def _once(ids: npt.NDArray[np.int64]) -> Flags:
    _, inverse, counts = np.unique(ids, return_inverse=True, return_counts=True)
    once: Flags = counts[inverse] == 1
    return once


def _in_order(ledger: LedgerCopy, ids: npt.NDArray[np.int64]) -> Flags:
    """Return which rows of the log are in order.

    All records of the same producer before them in the partition have lower ids, and all after them
    have higher ids.
    """
    ordered = np.zeros(len(ids), dtype=np.bool_)
    stream = np.where(
        ids < 0, -1, ids // _IDS_PER_PRODUCER * 1_000_000 + ledger.values("log", "partition")
    )
    for one in np.unique(stream[stream >= 0]):
        rows = np.flatnonzero(stream == one)
        rows = rows[np.argsort(ledger.values("log", "offset")[rows])]
        before = np.concatenate(([-1], np.maximum.accumulate(ids[rows])[:-1]))
        after = np.concatenate(
            (np.minimum.accumulate(ids[rows][::-1])[::-1][1:], [np.iinfo(np.int64).max])
        )
        ordered[rows] = (before < ids[rows]) & (ids[rows] < after)
    return ordered


def _rows_of(ids: npt.NDArray[np.int64], wanted: npt.NDArray[np.int64]) -> Rows:
    """Return the row of each wanted id."""
    order = np.argsort(ids, kind="stable")
    rows: Rows = order[np.searchsorted(ids, wanted, sorter=order)]
    return rows


RECORDS: Final = 7
"""How many records each fault affects: few among thousands, and not a round number."""
LATER_US: Final = 5_000
MS_NS: Final = 1_000_000
TIMED_OUT: Final = -192
"""`RD_KAFKA_RESP_ERR__MSG_TIMED_OUT`."""
NOT_ENOUGH_REPLICAS: Final = 19
DUPLICATE_COPIES, REORDERED, MISSED, REDELIVERED, READ_LOST, READ_CONFLICT = COUNTS = (
    "duplicates",
    "reordered_records",
    "missed_records",
    "redelivered_reads",
    "lost_reads",
    "conflicting_reads",
)
"""The columns of the table of trials that are compared."""
COUNTED: Final = (*Fate, *COUNTS)
"""The figures that are compared with the untouched copy."""
TIMED: Final = tuple(f"{measure.value}_{name}_us" for measure in LatencyKind for name in QUANTILES)

Figures = Mapping[str, int]


@dataclass(frozen=True)
class PlantContext:
    """A real ledger, its undisturbed records, and a source of randomness."""

    ledger: LedgerCopy
    undisturbed: UndisturbedRecords
    random: Random

    def sample(self, count: int = RECORDS) -> UndisturbedRecords:
        """Return random undisturbed records, in the order of the log."""
        return self.undisturbed.at(
            np.sort(
                np.asarray(
                    self.random.sample(range(len(self.undisturbed.log)), count), dtype=np.int64
                )
            )
        )


@dataclass(frozen=True)
class Plant:
    """A fault to plant."""

    name: str
    """Names the trial with the copy."""
    what: str
    """The description in the output."""
    make: Callable[[PlantContext], LedgerCopy]
    expected: Figures
    """The changes of figures against the untouched copy; all others of `compared` are equal."""
    compared: tuple[str, ...] = COUNTED


def _lost(context: PlantContext) -> LedgerCopy:
    return context.ledger.without("log", context.sample().log)


def _truncated(context: PlantContext) -> LedgerCopy:
    """Truncate one partition's log, as a leader without its end does, with a lower end offset."""
    partition, rows = _undisturbed_tail(context.ledger, context.undisturbed)
    end = int(context.ledger.values("log", "offset")[rows].min())
    return context.ledger.without("log", rows).with_ends({partition: end})


def _undisturbed_tail(ledger: LedgerCopy, undisturbed: UndisturbedRecords) -> tuple[int, Rows]:
    """Return a partition whose last records are all undisturbed, and their rows."""
    partitions, offsets = ledger.values("log", "partition"), ledger.values("log", "offset")
    for partition in np.unique(partitions):
        rows = np.flatnonzero(partitions == partition)
        last = rows[np.argsort(offsets[rows])][-RECORDS:]
        if len(last) == RECORDS and np.isin(last, undisturbed.log).all():
            return int(partition), np.sort(last)
    raise NoPlaceToPlant(f"no partition's log ends with {RECORDS} undisturbed records")


class NoPlaceToPlant(Exception):
    """The trial has no records in which this fault can be planted; the message has the reason."""


def _duplicated(context: PlantContext) -> LedgerCopy:
    ledger, sample = context.ledger, context.sample()
    for row in sample.log:
        copy = ledger.tables["log"].slice(row, 1)
        ledger = ledger.logged(copy.select(["producer", "seq"]), copy["partition"][0].as_py())
    return ledger


def _reordered(context: PlantContext) -> LedgerCopy:
    """Swap pairs of records with everything reported about them, so that they are out of order."""
    ledger = context.ledger
    for one, other in _adjacent_pairs(context):
        ledger = _swapped(
            ledger, "log", (one.log[0], other.log[0]), ("producer", "seq", "timestamp_ms")
        )
        ledger = _swapped(
            ledger, "reads", (one.reads[0], other.reads[0]), ("producer", "seq", "intended_ns")
        )
        ledger = _swapped(ledger, "attempts", (one.attempts[0], other.attempts[0]), ("offset",))
    return ledger


def _adjacent_pairs(context: PlantContext) -> list[tuple[UndisturbedRecords, UndisturbedRecords]]:
    """Return random pairs of undisturbed records that are adjacent in the log.

    They have the same partition and producer; no record is in two pairs.
    """
    log = context.undisturbed.log
    columns = {
        name: context.ledger.values("log", name)[log]
        for name in ("partition", "producer", "offset")
    }
    adjacent = (
        (np.diff(log) == 1)
        & (np.diff(columns["partition"]) == 0)
        & (np.diff(columns["producer"]) == 0)
        & (np.diff(columns["offset"]) == 1)
    )
    firsts = np.flatnonzero(adjacent & (np.arange(len(adjacent)) % 2 == 0))
    if len(firsts) < RECORDS:
        raise NoPlaceToPlant(
            f"fewer than {RECORDS} pairs of undisturbed records are adjacent in the log"
        )
    return [
        (
            context.undisturbed.at(np.asarray([index], np.int64)),
            context.undisturbed.at(np.asarray([index + 1], np.int64)),
        )
        for index in context.random.sample(list(firsts), RECORDS)
    ]


def _swapped(
    ledger: LedgerCopy, name: str, rows: tuple[int, int], columns: tuple[str, ...]
) -> LedgerCopy:
    low, high = sorted(rows)
    table = ledger.tables[name]
    values = {
        column: [table[column][high].as_py(), table[column][low].as_py()] for column in columns
    }
    return ledger.changed(name, np.asarray([low, high], np.int64), values)


def _corrupt(context: PlantContext) -> LedgerCopy:
    """Invalidate the checksum; then producer and seq of the record are unknown."""
    return context.ledger.changed(
        "log", context.sample().log, {"intact": False, "producer": None, "seq": None}
    )


def _phantom(context: PlantContext) -> LedgerCopy:
    return context.ledger.logged(
        pa.table({"producer": pa.nulls(RECORDS, pa.int32()), "seq": pa.nulls(RECORDS, pa.int64())}),
        _random_partition(context),
    )


def _random_partition(context: PlantContext) -> int:
    return context.random.choice(sorted(context.ledger.manifest.end_offsets))


def _unknown(context: PlantContext) -> LedgerCopy:
    return _with_outcome(context.ledger, context.sample(), UNKNOWN, TIMED_OUT)


def _unknown_absent(context: PlantContext) -> LedgerCopy:
    sample = context.sample()
    return _with_outcome(context.ledger, sample, UNKNOWN, TIMED_OUT).without("log", sample.log)


def _rejected_present(context: PlantContext) -> LedgerCopy:
    return _with_outcome(context.ledger, context.sample(), REJECTED, NOT_ENOUGH_REPLICAS)


def _rejected(context: PlantContext) -> LedgerCopy:
    sample = context.sample()
    return _with_outcome(context.ledger, sample, REJECTED, NOT_ENOUGH_REPLICAS).without(
        "log", sample.log
    )


def _with_outcome(
    ledger: LedgerCopy, sample: UndisturbedRecords, outcome: str, error: int
) -> LedgerCopy:
    return ledger.changed(
        "attempts", np.sort(sample.attempts), {"outcome": outcome, "error": error, "offset": None}
    )


def _missed(context: PlantContext) -> LedgerCopy:
    return context.ledger.without("reads", context.sample().reads)


def _read_and_lost(context: PlantContext) -> LedgerCopy:
    """Let the consumer receive further copies, behind the end of the log that survived."""
    reads = context.ledger.tables["reads"].take(pa.array(context.sample().reads))
    ends = context.ledger.manifest.end_offsets
    offsets = [
        ends[partition] + number for number, partition in enumerate(reads["partition"].to_pylist())
    ]
    return context.ledger.appended("reads", _replace_column(reads, "offset", offsets))


def _read_in_conflict(context: PlantContext) -> LedgerCopy:
    """Let a second consumer receive other records at the places of some records."""
    *sample, other = context.sample(RECORDS + 1).reads
    reads = context.ledger.tables["reads"]
    again = reads.take(pa.array(sample))
    for name in ("producer", "seq", "intended_ns"):
        again = _replace_column(again, name, [reads[name][int(other)].as_py()] * RECORDS)
    return context.ledger.appended(
        "reads", _replace_column(again, "consumer", [SECOND_CONSUMER] * RECORDS)
    )


def _replace_column(table: pa.Table, name: str, values: list[int]) -> pa.Table:
    column = table.schema.field(name)
    return table.set_column(table.schema.names.index(name), column, pa.array(values, column.type))


def _redelivered(context: PlantContext) -> LedgerCopy:
    """Read some records again, after all others."""
    again = context.ledger.tables["reads"].take(pa.array(context.sample().reads))
    last_ns = int(context.ledger.values("reads", "received_ns").max())
    later = pa.array(range(last_ns + MS_NS, last_ns + (RECORDS + 1) * MS_NS, MS_NS), pa.int64())
    return context.ledger.appended(
        "reads",
        again.set_column(
            again.schema.names.index("received_ns"), again.schema.field("received_ns"), later
        ),
    )


def _slower(context: PlantContext) -> LedgerCopy:
    """Delay every acknowledgement by the same time."""
    return _later(context.ledger, "attempts", "settled_ns")


def _read_later(context: PlantContext) -> LedgerCopy:
    return _later(context.ledger, "reads", "received_ns")


def _later(ledger: LedgerCopy, name: str, column: str) -> LedgerCopy:
    known = np.flatnonzero(ledger.values(name, column) >= 0)
    return ledger.changed(
        name, known, {column: ledger.values(name, column)[known] + LATER_US * 1000}
    )


def _all_quantiles_later(measure: LatencyKind) -> Figures:
    return {f"{measure.value}_{name}_us": LATER_US for name in QUANTILES}


K: Final = RECORDS
SECOND_CONSUMER: Final = 999
"""The number of a consumer that no trial has."""
PLANTS: Final = (
    Plant(
        "lost",
        f"{K} acknowledged records removed from the log",
        _lost,
        {Fate.DELIVERED_ONCE: -K, Fate.LOST: K, READ_LOST: K},
    ),
    Plant(
        "truncated",
        f"a partition's log truncated by {K} records",
        _truncated,
        {Fate.DELIVERED_ONCE: -K, Fate.LOST: K, READ_LOST: K},
    ),
    Plant(
        "duplicated",
        f"{K} records appended a second time",
        _duplicated,
        {Fate.DELIVERED_ONCE: -K, Fate.DUPLICATED: K, DUPLICATE_COPIES: K},
    ),
    Plant(
        "reordered", f"{K} pairs of adjacent records in the log swapped", _reordered, {REORDERED: K}
    ),
    Plant(
        "corrupt",
        f"the checksum of {K} records invalidated",
        _corrupt,
        {Fate.DELIVERED_ONCE: -K, Fate.LOST: K, Fate.CORRUPT: K, READ_LOST: K},
    ),
    Plant("phantom", f"{K} records of another origin appended", _phantom, {Fate.PHANTOM: K}),
    Plant(
        "unknown-present",
        f"the acknowledgements of {K} records lost",
        _unknown,
        {Fate.DELIVERED_ONCE: -K, Fate.UNKNOWN_PRESENT: K},
    ),
    Plant(
        "unknown-absent",
        f"{K} records timed out and removed from the log",
        _unknown_absent,
        {Fate.DELIVERED_ONCE: -K, Fate.UNKNOWN_ABSENT: K, READ_LOST: K},
    ),
    Plant(
        "rejected-present",
        f"{K} records rejected, but in the log",
        _rejected_present,
        {Fate.DELIVERED_ONCE: -K, Fate.REJECTED_PRESENT: K},
    ),
    Plant(
        "rejected",
        f"{K} records rejected and removed from the log",
        _rejected,
        {Fate.DELIVERED_ONCE: -K, Fate.REJECTED: K, READ_LOST: K},
    ),
    Plant("missed", f"the reads of {K} records removed", _missed, {MISSED: K}),
    Plant("redelivered", f"{K} records read a second time", _redelivered, {REDELIVERED: K}),
    Plant(
        "read-and-lost",
        f"{K} records received behind the end of the log",
        _read_and_lost,
        {READ_LOST: K},
    ),
    Plant(
        "read-in-conflict",
        f"{K} records received by a second consumer at the offsets of others",
        _read_in_conflict,
        {READ_LOST: K, READ_CONFLICT: K},
    ),
    Plant(
        "slower",
        f"every acknowledgement {LATER_US // 1000} ms later",
        _slower,
        _all_quantiles_later(LatencyKind.ACK),
        TIMED,
    ),
    Plant(
        "read-later",
        f"every read {LATER_US // 1000} ms later",
        _read_later,
        _all_quantiles_later(LatencyKind.END_TO_END),
        TIMED,
    ),
)
