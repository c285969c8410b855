"""The rows of a unit as NumPy arrays, with a number for each record.

A record is identified by producer and seq. Sequence numbers are dense, so a record's number is its
place in an array: what a table says about a record is found by index, and no tables are joined.
Ids that were never attempted, as a broken log may have them, get the numbers after those.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Final

import numpy as np

from ackbench.experiments.ledger.schema import OUTPUT
from ackbench.spark_jobs.io.columns import (
    NO_NUMBER,
    NULL,
    BoolColumn,
    Columns,
    IntColumn,
    in_order,
    where,
)
from ackbench.spark_jobs.io.units import UnitRows

_SPARE: Final = 1024
"""Sequence numbers count as dense if no more than half of them, plus so many, are missing."""


@dataclass(frozen=True)
class RecordIds:
    """The ids of a unit's records, by the record's number."""

    producers: IntColumn
    """In ascending order; each has `width` numbers in turn, for `first_seq` and the following."""
    first_seq: int
    width: int
    others: IntColumn
    """producer and seq of the records with the numbers after those, one row each."""

    def __len__(self) -> int:
        """Return how many numbers there are; the record of a number may never have existed."""
        return len(self.producers) * self.width + len(self.others)

    def of(self, records: IntColumn) -> tuple[IntColumn, IntColumn]:
        """Return the producers and the sequence numbers of some records.

        Args:
            records: numbers of records; none is `NO_NUMBER`.
        """
        dense = len(self.producers) * self.width
        producer, seq = np.full(len(records), NO_NUMBER), np.full(len(records), NULL)
        is_dense = records < dense
        place, beyond_first = np.divmod(records[is_dense], max(self.width, 1))
        producer[is_dense], seq[is_dense] = self.producers[place], self.first_seq + beyond_first
        others = self.others[records[~is_dense] - dense]
        producer[~is_dense], seq[~is_dense] = others[:, 0], others[:, 1]
        return producer, seq


@dataclass(frozen=True)
class Attempts:
    """The attempts, by column; `experiments.ledger.schema.ATTEMPTS` describes the columns."""

    record: IntColumn
    producer: IntColumn
    seq: IntColumn
    intended_ns: IntColumn
    sent_ns: IntColumn
    settled_ns: IntColumn
    outcome: IntColumn
    """As a `read_committed` application sees it."""
    reported_outcome: IntColumn
    """As the delivery report has it."""
    partition: IntColumn
    offset: IntColumn
    key: IntColumn | None = None
    transaction: IntColumn | None = None

    def __len__(self) -> int:
        """Return the number of attempts."""
        return len(self.seq)


@dataclass(frozen=True)
class LogRows:
    """The log's rows that are visible to a `read_committed` consumer, by partition and offset."""

    record: IntColumn
    """`NO_NUMBER`: corrupt, or without an id."""
    producer: IntColumn
    seq: IntColumn
    partition: IntColumn
    offset: IntColumn
    intact: BoolColumn
    leader_epoch: IntColumn
    timestamp_ms: IntColumn | None = None

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.seq)


@dataclass(frozen=True)
class HiddenRows:
    """The log's rows that are not visible to a `read_committed` consumer, in any order."""

    record: IntColumn
    """`NO_NUMBER`: corrupt, or without an id."""
    partition: IntColumn
    offset: IntColumn

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.record)


@dataclass(frozen=True)
class Reads:
    """What consumers received, by the time of receipt."""

    record: IntColumn
    """`NO_NUMBER`: without an id."""
    consumer: IntColumn
    producer: IntColumn
    seq: IntColumn
    partition: IntColumn
    offset: IntColumn
    intended_ns: IntColumn
    received_ns: IntColumn

    def __len__(self) -> int:
        """Return the number of reads."""
        return len(self.seq)

    def where(self, chosen: BoolColumn) -> Reads:
        """Return some of the reads; all of them without a copy."""
        if chosen.all():
            return self
        return Reads(*(column[chosen] for column in vars(self).values()))


@dataclass(frozen=True)
class OutputRows:
    """The rows of the copiers' output, in any order."""

    record: IntColumn
    partition: IntColumn
    offset: IntColumn
    intact: BoolColumn
    visible: BoolColumn


@dataclass(frozen=True)
class SentFields:
    """The digests of the fields of each record, as sent."""

    record: IntColumn
    fields: Sequence[IntColumn]
    """In the order of `FIELD_COLUMNS`."""


@dataclass(frozen=True)
class ReplayedRows:
    """What the replays read: at each place of the log, a record and the digests of its fields."""

    record: IntColumn
    fields: Sequence[IntColumn]
    """In the order of `FIELD_COLUMNS`."""
    replay: IntColumn
    partition: IntColumn
    offset: IntColumn


@dataclass(frozen=True)
class ProducerBatches:
    """The batches of idempotent producers, by partition and offset."""

    partition: IntColumn
    first_offset: IntColumn
    last_offset: IntColumn
    producer_id: IntColumn
    producer_epoch: IntColumn

    def producers(self, partition: IntColumn, offset: IntColumn) -> tuple[IntColumn, IntColumn]:
        """Return the producer id and epoch with which some offsets were stored; `NULL`: unknown."""
        stride = 1 + max(
            (int(column.max()) for column in (self.last_offset, offset) if len(column)), default=0
        )
        begins = self.partition.astype(np.int64) * stride + self.first_offset
        place = np.searchsorted(begins, partition.astype(np.int64) * stride + offset, "right") - 1
        if not len(begins):
            return np.full(len(offset), NULL), np.full(len(offset), NULL)
        inside = (
            (place >= 0)
            & (self.partition[place] == partition)
            & (self.last_offset[place] >= offset)
        )
        return (
            np.where(inside, self.producer_id[place], NULL),
            np.where(inside, self.producer_epoch[place], NULL),
        )


FIELD_COLUMNS: Final = ("key_digest", "value_digest", "headers_digest", "timestamp_ms")


@dataclass(frozen=True)
class UnitArrays:
    """The rows of a unit."""

    rows: UnitRows
    ids: RecordIds
    attempts: Attempts
    log: LogRows
    hidden: HiddenRows
    reads: Reads
    output: OutputRows | None = None
    sent: SentFields | None = None
    replays: ReplayedRows | None = None
    batches: ProducerBatches | None = None
    """`None`: the ledger has no such table."""


def to_arrays(rows: UnitRows) -> UnitArrays:
    """Return a unit's rows as arrays. Outcomes are those of the delivery reports."""
    attempts, log = rows.columns["attempts"], rows.columns["log"]
    visible = in_order(where(log, log["visible"]), "partition", "offset")
    hidden = where(log, ~log["visible"])
    reads = in_order(rows.columns["reads"], "received_ns")
    named = {**rows.columns, "log": visible, "hidden": hidden, "reads": reads}
    ids, numbers = _number_records({name: _Ids.of(columns) for name, columns in named.items()})
    return UnitArrays(
        rows,
        ids,
        Attempts(
            record=numbers["attempts"],
            producer=attempts["producer"],
            seq=attempts["seq"],
            intended_ns=attempts["intended_ns"],
            sent_ns=attempts["sent_ns"],
            settled_ns=attempts["settled_ns"],
            outcome=attempts["outcome"],
            reported_outcome=attempts["outcome"],
            partition=attempts["partition"],
            offset=attempts["offset"],
            key=attempts.get("key"),
            transaction=attempts.get("transaction"),
        ),
        LogRows(
            record=numbers["log"],
            producer=visible["producer"],
            seq=visible["seq"],
            partition=visible["partition"],
            offset=visible["offset"],
            intact=visible["intact"],
            leader_epoch=visible["leader_epoch"],
            timestamp_ms=visible.get("timestamp_ms"),
        ),
        HiddenRows(numbers["hidden"], hidden["partition"], hidden["offset"]),
        Reads(
            record=numbers["reads"],
            consumer=reads["consumer"],
            producer=reads["producer"],
            seq=reads["seq"],
            partition=reads["partition"],
            offset=reads["offset"],
            intended_ns=reads["intended_ns"],
            received_ns=reads["received_ns"],
        ),
        _output(named, numbers),
        _sent(named, numbers),
        _replays(named, numbers),
        _batches(rows),
    )


def _output(named: Mapping[str, Columns], numbers: Mapping[str, IntColumn]) -> OutputRows | None:
    if OUTPUT not in named:
        return None
    columns = named[OUTPUT]
    return OutputRows(
        numbers[OUTPUT],
        columns["partition"],
        columns["offset"],
        columns["intact"],
        columns["visible"],
    )


def _sent(named: Mapping[str, Columns], numbers: Mapping[str, IntColumn]) -> SentFields | None:
    if "sent" not in named:
        return None
    return SentFields(numbers["sent"], [named["sent"][name] for name in FIELD_COLUMNS])


def _replays(named: Mapping[str, Columns], numbers: Mapping[str, IntColumn]) -> ReplayedRows | None:
    if "replays" not in named:
        return None
    columns = named["replays"]
    return ReplayedRows(
        numbers["replays"],
        [columns[name] for name in FIELD_COLUMNS],
        columns["replay"],
        columns["partition"],
        columns["offset"],
    )


def _batches(rows: UnitRows) -> ProducerBatches | None:
    table = rows.tables.get("batches")
    if table is None:
        return None
    names = [field.name for field in fields(ProducerBatches)]
    ordered = in_order({name: table[name].to_numpy() for name in names}, *names[:2])
    return ProducerBatches(**ordered)


# The numbers of records.


@dataclass(frozen=True)
class _Ids:
    """The ids in a table."""

    producer: IntColumn
    seq: IntColumn
    known: BoolColumn | None
    """Which rows have a reliable id; `None`: all."""

    @classmethod
    def of(cls, columns: Columns) -> _Ids:
        producer, seq, intact = columns["producer"], columns["seq"], columns.get("intact")
        if (
            len(seq)
            and producer.min() != NO_NUMBER
            and seq.min() != NULL
            and (intact is None or intact.all())
        ):
            return cls(producer, seq, None)
        known = (producer != NO_NUMBER) & (seq != NULL)
        return cls(producer, seq, known if intact is None else known & intact)


def _number_records(tables: Mapping[str, _Ids]) -> tuple[RecordIds, dict[str, IntColumn]]:
    """Number the records of all tables.

    Returns:
        The id of each number; and per table the number of each row, `NO_NUMBER` without an id.
    """
    attempted = tables["attempts"]
    producers = np.unique(attempted.producer)
    first, width = _dense_range(attempted.seq, len(producers))
    numbers = {name: _dense_numbers(ids, producers, first, width) for name, ids in tables.items()}
    strays = {
        name: np.flatnonzero((numbers[name] == NO_NUMBER) & (ids.known is None or ids.known))
        for name, ids in tables.items()
        if numbers[name] is not ids.seq
    }
    pairs = {
        name: np.stack([tables[name].producer[rows], tables[name].seq[rows]], axis=1)
        for name, rows in strays.items()
        if len(rows)
    }
    others = np.empty((0, 2), np.int64)
    if pairs:
        others = np.unique(np.concatenate(list(pairs.values())), axis=0)
    by_id = {
        id_: len(producers) * width + place for place, id_ in enumerate(map(tuple, others.tolist()))
    }
    for name, found in pairs.items():
        numbers[name][strays[name]] = [by_id[id_] for id_ in map(tuple, found.tolist())]
    return RecordIds(producers, first, width, others), numbers


def _dense_range(seq: IntColumn, producers: int) -> tuple[int, int]:
    """Return the first sequence number, and how many follow; 0 if they are not dense."""
    if not len(seq):
        return 0, 0
    first = int(seq.min())
    width = int(seq.max()) - first + 1
    return first, width if width * producers <= 2 * len(seq) + _SPARE else 0


def _dense_numbers(ids: _Ids, producers: IntColumn, first: int, width: int) -> IntColumn:
    """Return the numbers of the rows with a dense id, `NO_NUMBER` for others.

    Of one producer from 0 on, the sequence number is the record's number: nothing is copied.
    """
    if not width or not len(ids.seq):
        return np.full(len(ids.seq), NO_NUMBER, np.int64)
    if (
        ids.known is None
        and len(producers) == 1
        and ids.producer.min() == ids.producer.max() == producers[0]
        and ids.seq.min() >= first
        and ids.seq.max() < first + width
    ):
        return ids.seq - first if first else ids.seq
    place = np.minimum(np.searchsorted(producers, ids.producer), len(producers) - 1)
    inside = (producers[place] == ids.producer) & (ids.seq >= first) & (ids.seq < first + width)
    if ids.known is not None:
        inside &= ids.known
    return np.where(inside, place * width + (ids.seq - first), NO_NUMBER)
