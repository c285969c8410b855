"""The faults that are planted: what each does to a ledger, and what must be found because of it, to the record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from experiments.ledger.result_tables import QUANTILES, Fate, Measure
from experiments.ledger.schema import ACKED, COMMITTED, REJECTED, UNKNOWN
from experiments.selftest.ledger_copy import LedgerCopy, Rows

# ---------- Records of a trial to which nothing happened: whatever is found of them after a fault was planted, the planted fault is why.


Flags = npt.NDArray[np.bool_]
_IDS_OF_A_PRODUCER = 1 << 40


@dataclass(frozen=True)
class UndisturbedRecords:
    """Rows of the three tables that tell of the same records, in the order of the log; equal places are the same record."""

    attempts: Rows
    log: Rows
    reads: Rows

    def at(self, places: Rows) -> UndisturbedRecords:
        """Return some of them."""
        return UndisturbedRecords(self.attempts[places], self.log[places], self.reads[places])


def undisturbed_records(ledger: LedgerCopy) -> UndisturbedRecords:
    """Find the records that were acknowledged, in a committed transaction or in none, lie in the log once and in order, and were read along once.

    What members of a consumer group read is theirs: the reader along is consumer 0.
    """
    attempted, logged = _ids(ledger, "attempts"), _ids(ledger, "log")
    read = np.where(ledger.values("reads", "consumer") > 0, -1, _ids(ledger, "reads"))
    outcome = np.asarray(
        ledger.tables["attempts"]["outcome"].cast("string").to_pylist(), dtype=object
    )
    fit = logged[
        _once(logged) & _in_order(ledger, logged) & np.asarray(ledger.tables["log"]["intact"])
    ]
    fit = fit[
        (fit >= 0)
        & np.isin(fit, attempted[(outcome == ACKED) & _committed(ledger)])
        & np.isin(fit, read[_once(read)])
    ]
    return UndisturbedRecords(_where(attempted, fit), _where(logged, fit), _where(read, fit))


def _ids(ledger: LedgerCopy, name: str) -> npt.NDArray[np.int64]:
    """Return producer and seq as one number; below 0: no id of ours."""
    producer, seq = ledger.values(name, "producer"), ledger.values(name, "seq")
    return np.where((producer < 0) | (seq < 0), -1, producer * _IDS_OF_A_PRODUCER + seq)


def _committed(ledger: LedgerCopy) -> Flags:
    """Whether each attempt is of no transaction, or of one whose client was told that it is committed."""
    ended = ledger.tables["transactions"]
    told = np.asarray(ended["outcome"].cast("string").to_pylist(), dtype=object) == COMMITTED
    producer, transaction = (
        ledger.values("attempts", "producer"),
        ledger.values("attempts", "transaction"),
    )
    of = (
        ledger.values("transactions", "producer") * _IDS_OF_A_PRODUCER
        + ledger.values("transactions", "transaction")
    )[told]
    return (transaction < 0) | np.isin(producer * _IDS_OF_A_PRODUCER + transaction, of)


def _once(ids: npt.NDArray[np.int64]) -> Flags:
    _, back, counts = np.unique(ids, return_inverse=True, return_counts=True)
    once: Flags = counts[back] == 1
    return once


def _in_order(ledger: LedgerCopy, ids: npt.NDArray[np.int64]) -> Flags:
    """Whether, of one producer and partition, all before have lower numbers, and all behind have higher ones."""
    ordered = np.zeros(len(ids), dtype=np.bool_)
    stream = np.where(
        ids < 0, -1, ids // _IDS_OF_A_PRODUCER * 1_000_000 + ledger.values("log", "partition")
    )
    for of in np.unique(stream[stream >= 0]):
        rows = np.flatnonzero(stream == of)
        rows = rows[np.argsort(ledger.values("log", "offset")[rows])]
        before = np.concatenate(([-1], np.maximum.accumulate(ids[rows])[:-1]))
        behind = np.concatenate(
            (np.minimum.accumulate(ids[rows][::-1])[::-1][1:], [np.iinfo(np.int64).max])
        )
        ordered[rows] = (before < ids[rows]) & (ids[rows] < behind)
    return ordered


def _where(ids: npt.NDArray[np.int64], wanted: npt.NDArray[np.int64]) -> Rows:
    """Return the row of each wanted id."""
    order = np.argsort(ids, kind="stable")
    rows: Rows = order[np.searchsorted(ids, wanted, sorter=order)]
    return rows


RECORDS: Final = 7
"""How many records each fault hits: few among thousands, and no round number."""
LATER_US: Final = 5_000
MS_NS: Final = 1_000_000
TIMED_OUT: Final = -192
"""`RD_KAFKA_RESP_ERR__MSG_TIMED_OUT`."""
NOT_ENOUGH_REPLICAS: Final = 19
DUPLICATE_COPIES, REORDERED, MISSED, REDELIVERED = (
    "duplicate_copies",
    "reordered_records",
    "missed_records",
    "redelivered_reads",
)
COUNTED: Final = (*Fate, DUPLICATE_COPIES, REORDERED, MISSED, REDELIVERED)
"""What a planted fault may change, and nothing else of it."""
TIMED: Final = tuple(f"{measure.value}_{name}_us" for measure in Measure for name in QUANTILES)

Figures = Mapping[str, int]


@dataclass(frozen=True)
class PlantContext:
    """A real ledger, and some records of it to which nothing happened."""

    ledger: LedgerCopy
    undisturbed: UndisturbedRecords
    random: Random

    def victims(self, count: int = RECORDS) -> UndisturbedRecords:
        """Draw records, in the order of the log."""
        return self.undisturbed.at(
            np.sort(
                np.asarray(
                    self.random.sample(range(len(self.undisturbed.log)), count), dtype=np.int64
                )
            )
        )


@dataclass(frozen=True)
class Plant:
    """One planted fault."""

    name: str
    """For a file's name."""
    what: str
    """For a person."""
    make: Callable[[PlantContext], LedgerCopy]
    expected: Figures
    """By how much which figures differ from the untouched copy's; all others of `compared` do not."""
    compared: tuple[str, ...] = COUNTED


def _lost(scene: PlantContext) -> LedgerCopy:
    return scene.ledger.without("log", scene.victims().log)


def _truncated(scene: PlantContext) -> LedgerCopy:
    """Cut the end of one partition's log, as a leader without it does, and let the end offset tell."""
    partition, rows = _calm_end(scene.ledger, scene.undisturbed)
    end = int(scene.ledger.values("log", "offset")[rows].min())
    return scene.ledger.without("log", rows).with_ends({partition: end})


def _calm_end(ledger: LedgerCopy, of: UndisturbedRecords) -> tuple[int, Rows]:
    """Return a partition whose last records are all calm, and their rows."""
    partitions, offsets = ledger.values("log", "partition"), ledger.values("log", "offset")
    for partition in np.unique(partitions):
        rows = np.flatnonzero(partitions == partition)
        last = rows[np.argsort(offsets[rows])][-RECORDS:]
        if len(last) == RECORDS and np.isin(last, of.log).all():
            return int(partition), np.sort(last)
    raise NoPlaceToPlant("no partition's log ends in records to which nothing happened")


class NoPlaceToPlant(Exception):
    """The trial has no place for this fault; says why."""


def _duplicated(scene: PlantContext) -> LedgerCopy:
    ledger, victims = scene.ledger, scene.victims()
    for row in victims.log:
        copy = ledger.tables["log"].slice(row, 1)
        ledger = ledger.logged(copy.select(["producer", "seq"]), copy["partition"][0].as_py())
    return ledger


def _reordered(scene: PlantContext) -> LedgerCopy:
    """Let two records change places, with all that was told of both: the earlier one then lies behind the later."""
    ledger = scene.ledger
    for one, other in _neighbours(scene):
        ledger = _swapped(
            ledger, "log", (one.log[0], other.log[0]), ("producer", "seq", "timestamp_ms")
        )
        ledger = _swapped(
            ledger, "reads", (one.reads[0], other.reads[0]), ("producer", "seq", "intended_ns")
        )
        ledger = _swapped(ledger, "attempts", (one.attempts[0], other.attempts[0]), ("offset",))
    return ledger


def _neighbours(scene: PlantContext) -> list[tuple[UndisturbedRecords, UndisturbedRecords]]:
    """Draw pairs of calm records that follow each other in one partition, and come from one producer; no record is in two pairs."""
    log, every = (
        scene.undisturbed.log,
        {
            name: scene.ledger.values("log", name)[scene.undisturbed.log]
            for name in ("partition", "producer", "offset")
        },
    )
    beside = (
        (np.diff(log) == 1)
        & (np.diff(every["partition"]) == 0)
        & (np.diff(every["producer"]) == 0)
        & (np.diff(every["offset"]) == 1)
    )
    firsts = np.flatnonzero(beside & (np.arange(len(beside)) % 2 == 0))
    if len(firsts) < RECORDS:
        raise NoPlaceToPlant("no records to which nothing happened lie side by side")
    return [
        (
            scene.undisturbed.at(np.asarray([at], np.int64)),
            scene.undisturbed.at(np.asarray([at + 1], np.int64)),
        )
        for at in scene.random.sample(list(firsts), RECORDS)
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


def _corrupt(scene: PlantContext) -> LedgerCopy:
    """Let the checksum fail: then nothing that the record tells of itself is to be believed."""
    return scene.ledger.changed(
        "log", scene.victims().log, {"intact": False, "producer": None, "seq": None}
    )


def _stranger(scene: PlantContext) -> LedgerCopy:
    return scene.ledger.logged(
        pa.table({"producer": pa.nulls(RECORDS, pa.int32()), "seq": pa.nulls(RECORDS, pa.int64())}),
        _a_partition(scene),
    )


def _a_partition(scene: PlantContext) -> int:
    return scene.random.choice(sorted(scene.ledger.record.end_offsets))


def _unknown(scene: PlantContext) -> LedgerCopy:
    return _settled_otherwise(scene.ledger, scene.victims(), UNKNOWN, TIMED_OUT)


def _unknown_absent(scene: PlantContext) -> LedgerCopy:
    victims = scene.victims()
    return _settled_otherwise(scene.ledger, victims, UNKNOWN, TIMED_OUT).without("log", victims.log)


def _rejected_present(scene: PlantContext) -> LedgerCopy:
    return _settled_otherwise(scene.ledger, scene.victims(), REJECTED, NOT_ENOUGH_REPLICAS)


def _rejected(scene: PlantContext) -> LedgerCopy:
    victims = scene.victims()
    return _settled_otherwise(scene.ledger, victims, REJECTED, NOT_ENOUGH_REPLICAS).without(
        "log", victims.log
    )


def _settled_otherwise(
    ledger: LedgerCopy, victims: UndisturbedRecords, outcome: str, error: int
) -> LedgerCopy:
    return ledger.changed(
        "attempts", np.sort(victims.attempts), {"outcome": outcome, "error": error, "offset": None}
    )


def _missed(scene: PlantContext) -> LedgerCopy:
    return scene.ledger.without("reads", scene.victims().reads)


def _redelivered(scene: PlantContext) -> LedgerCopy:
    """Read some records again, after all others."""
    again = scene.ledger.tables["reads"].take(pa.array(scene.victims().reads))
    last_ns = int(scene.ledger.values("reads", "received_ns").max())
    later = pa.array(range(last_ns + MS_NS, last_ns + (RECORDS + 1) * MS_NS, MS_NS), pa.int64())
    return scene.ledger.appended(
        "reads",
        again.set_column(
            again.schema.names.index("received_ns"), again.schema.field("received_ns"), later
        ),
    )


def _slower(scene: PlantContext) -> LedgerCopy:
    """Let every acknowledgement come later by the same."""
    return _later(scene.ledger, "attempts", "settled_ns")


def _read_later(scene: PlantContext) -> LedgerCopy:
    return _later(scene.ledger, "reads", "received_ns")


def _later(ledger: LedgerCopy, name: str, column: str) -> LedgerCopy:
    known = np.flatnonzero(ledger.values(name, column) >= 0)
    return ledger.changed(
        name, known, {column: ledger.values(name, column)[known] + LATER_US * 1000}
    )


def _all_later(measure: Measure) -> Figures:
    return {f"{measure.value}_{name}_us": LATER_US for name in QUANTILES}


K: Final = RECORDS
PLANTS: Final = (
    Plant(
        "lost",
        f"{K} acknowledged records taken out of the log",
        _lost,
        {Fate.DELIVERED_ONCE: -K, Fate.LOST: K},
    ),
    Plant(
        "truncated",
        f"a partition's log cut short by {K} records",
        _truncated,
        {Fate.DELIVERED_ONCE: -K, Fate.LOST: K},
    ),
    Plant(
        "duplicated",
        f"{K} records appended a second time",
        _duplicated,
        {Fate.DELIVERED_ONCE: -K, Fate.DUPLICATED: K, DUPLICATE_COPIES: K},
    ),
    Plant("reordered", f"{K} times two neighbours in the log swapped", _reordered, {REORDERED: K}),
    Plant(
        "corrupt",
        f"the checksum of {K} records broken",
        _corrupt,
        {Fate.DELIVERED_ONCE: -K, Fate.LOST: K, Fate.CORRUPT: K},
    ),
    Plant("phantom", f"{K} records of a stranger appended", _stranger, {Fate.PHANTOM: K}),
    Plant(
        "unknown-present",
        f"{K} acknowledgements lost on their way",
        _unknown,
        {Fate.DELIVERED_ONCE: -K, Fate.UNKNOWN_PRESENT: K},
    ),
    Plant(
        "unknown-absent",
        f"{K} timed out and taken out of the log",
        _unknown_absent,
        {Fate.DELIVERED_ONCE: -K, Fate.UNKNOWN_ABSENT: K},
    ),
    Plant(
        "rejected-present",
        f"{K} said to be refused, and in the log",
        _rejected_present,
        {Fate.DELIVERED_ONCE: -K, Fate.REJECTED_PRESENT: K},
    ),
    Plant(
        "rejected",
        f"{K} refused, and taken out of the log",
        _rejected,
        {Fate.DELIVERED_ONCE: -K, Fate.REJECTED: K},
    ),
    Plant("missed", f"the reads of {K} records removed", _missed, {MISSED: K}),
    Plant("redelivered", f"{K} records read a second time", _redelivered, {REDELIVERED: K}),
    Plant(
        "slower",
        f"every acknowledgement {LATER_US // 1000} ms later",
        _slower,
        _all_later(Measure.ACK),
        TIMED,
    ),
    Plant(
        "read-later",
        f"every read {LATER_US // 1000} ms later",
        _read_later,
        _all_later(Measure.END_TO_END),
        TIMED,
    ),
)
