"""Units: the parts of trials that are measured independently, each in bounded memory.

A trial with few records is one unit. A larger one is split by sequence numbers: a unit has the
attempts, the rows of the log and the reads of all records whose `seq` is in its range, whichever
producer sent them. So every measure of single records is complete within a unit, and the results of
units are added up. Rows without an id belong to the first unit.

Four questions go beyond a unit's own rows. `read_unit` answers two of them while it reads the log:
whether a later record precedes one of the unit (`LATER_OFFSETS`), and whether the log has another
record where one of the unit had expired (`expired_places`). The others are about few units, which
read a file again for them (`OtherUnits`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from ackbench.experiments.ledger.digests import InvalidLedger
from ackbench.experiments.ledger.schema import OPTIONAL_TABLES, OUTPUT, TABLES
from ackbench.experiments.ledger.terms import ABANDONED, ABORTED, COMMITTED, FENCED, UNKNOWN
from ackbench.experiments.ledger.undivided import undivided_trial
from ackbench.experiments.ledger.validation import optional_tables
from ackbench.spark_jobs.io.columns import (
    Columns,
    IntColumn,
    UnknownOutcome,
    check_outcomes,
    to_columns,
)
from ackbench.spark_jobs.io.ledgers import Ledger

UNIT_RECORDS: Final = 4_000_000
"""The most records of a unit, by default; `docs/performance.md` has the memory that one takes."""
LARGE_TABLES: Final = ("attempts", "log", "reads", OUTPUT, "sent", "replays")
"""The tables with a row per record: a unit has its own rows of them, as arrays."""
LATER_OFFSETS: Final = pa.schema(
    [("partition", pa.int32()), ("producer", pa.int32()), ("offset", pa.int64())]
)
"""The lowest offset of the records of later units, per partition and producer."""
PLACES: Final = pa.schema([("partition", pa.int32()), ("offset", pa.int64())])
TRANSACTION_OUTCOMES: Final = (COMMITTED, ABORTED, FENCED, ABANDONED, UNKNOWN)
_SCHEMAS: Final = {**TABLES, **OPTIONAL_TABLES}
_MIN_SEQ: Final = int(np.iinfo(np.int64).min)
_MAX_SEQ: Final = int(np.iinfo(np.int64).max)
_COLUMNS: Final = {
    "attempts": (
        *("producer", "seq", "intended_ns", "sent_ns"),
        *("settled_ns", "outcome", "partition", "offset"),
    ),
    "log": ("partition", "offset", "producer", "seq", "intact", "leader_epoch", "visible"),
    "reads": (
        *("consumer", "partition", "offset", "producer"),
        *("seq", "intended_ns", "received_ns"),
    ),
    OUTPUT: ("partition", "offset", "producer", "seq", "intact", "visible"),
}
"""The columns of large tables that the measures of every trial need."""


@dataclass(frozen=True)
class Unit:
    """A part of a trial: the records with `first_seq <= seq < end_seq` of all its producers."""

    ledger: Ledger
    first_seq: int = _MIN_SEQ
    end_seq: int = _MAX_SEQ
    files: tuple[str, ...] = ()
    """Its share of the trial's sealed files, whose digests are verified with it."""

    @property
    def is_first(self) -> bool:
        """Whether it has the rows without an id."""
        return self.first_seq == _MIN_SEQ

    @property
    def is_whole_trial(self) -> bool:
        """Whether the trial has no other unit."""
        return self.is_first and self.end_seq == _MAX_SEQ

    @property
    def records(self) -> int:
        """How many of its records were attempted: a producer's are dense from 0."""
        return sum(
            max(0, min(self.end_seq, producer.records) - max(self.first_seq, 0))
            for producer in self.ledger.manifest.producers
        )


@dataclass(frozen=True)
class UnitRows:
    """The rows of a unit."""

    ledger: Ledger
    columns: Mapping[str, Columns]
    """The unit's own rows of the tables in `LARGE_TABLES`."""
    tables: Mapping[str, pa.Table]
    """The other tables, of the entire trial."""
    others: OtherUnits | None = None
    """`None`: the unit is the entire trial."""
    later_offsets: pa.Table = field(default_factory=LATER_OFFSETS.empty_table)
    """Of later units' records, as far as one of them can precede a record of this unit."""
    expired_places: pa.Table = field(default_factory=PLACES.empty_table)
    """Where the log has a visible expired record of another unit."""

    @property
    def is_whole_trial(self) -> bool:
        """Whether the trial has no other unit."""
        return self.others is None

    @classmethod
    def of_tables(cls, ledger: Ledger, tables: Mapping[str, pa.Table]) -> UnitRows:
        """Return an entire trial whose tables are in memory."""
        return cls(
            ledger,
            {
                name: to_columns([table], table.schema, len(table))
                for name, table in tables.items()
                if name in LARGE_TABLES
            },
            {name: table for name, table in tables.items() if name not in LARGE_TABLES},
        )


def split(ledgers: Sequence[Ledger], unit_records: int = UNIT_RECORDS) -> list[Unit]:
    """Return the units of all trials, the largest first.

    A trial whose keys or replays are measured, or whose topic is compacted, is one unit, whatever
    its size (`experiments.ledger.undivided`).
    """
    units = chain.from_iterable(_split_trial(ledger, unit_records) for ledger in ledgers)
    return sorted(units, key=lambda unit: unit.records, reverse=True)


def _split_trial(ledger: Ledger, unit_records: int) -> Iterator[Unit]:
    manifest = ledger.manifest
    count = -(-ledger.rows // unit_records)
    if count <= 1 or undivided_trial(manifest):
        yield Unit(ledger, files=ledger.sealed_files)
        return
    records = max((producer.records for producer in manifest.producers), default=0)
    width = -(-records // count)
    begins = [_MIN_SEQ, *(number * width for number in range(1, count)), _MAX_SEQ]
    for number in range(count):
        files = ledger.sealed_files[number::count]
        yield Unit(ledger, begins[number], begins[number + 1], files)


# Reading.


def read_unit(files: pafs.FileSystem, unit: Unit) -> UnitRows:
    """Read the rows of a unit, one row group of a large table at a time.

    Raises:
        InvalidLedger: a file's footer is valid, but its data cannot be read, or an outcome is
            unknown.
    """
    columns, tables, beyond = {}, {}, _BeyondUnit(unit)
    for name in (*TABLES, *optional_tables(unit.ledger.manifest)):
        with _opened(files, unit.ledger, name) as file:
            if name in LARGE_TABLES:
                columns[name] = _read_columns(file, name, unit, beyond)
            else:
                tables[name] = _read_table(file, name)
    return UnitRows(
        unit.ledger,
        columns,
        tables,
        None if unit.is_whole_trial else OtherUnits(files, unit),
        pa.concat_tables(beyond.later_offsets),
        pa.concat_tables(beyond.expired_places),
    )


@contextmanager
def _opened(files: pafs.FileSystem, ledger: Ledger, name: str) -> Iterator[pq.ParquetFile]:
    """Open a file of a ledger; what is wrong with its data is an error of the ledger."""
    try:
        with files.open_input_file(f"{ledger.folder}/{name}.parquet") as stream:
            yield pq.ParquetFile(stream, page_checksum_verification=True)
    except MemoryError:  # that of Arrow is also one of its own exceptions
        raise
    except UnknownOutcome as error:
        raise InvalidLedger(f"trial {ledger.manifest.trial_id}: {name}.parquet {error}") from error
    except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
        raise InvalidLedger(
            f"trial {ledger.manifest.trial_id}: {name}.parquet cannot be read: "
            "its footer is valid, but its data are not"
        ) from error


@dataclass(frozen=True)
class OtherUnits:
    """The rows of a divided trial's other units, which a unit reads where a measure needs them."""

    files: pafs.FileSystem
    unit: Unit

    def log_parts(self) -> Iterator[pa.Table]:
        """Yield the log of the entire trial, a row group at a time.

        Raises:
            InvalidLedger: its data cannot be read.
        """
        names = ["partition", "producer", "seq", "intact", "leader_epoch", "visible"]
        with _opened(self.files, self.unit.ledger, "log") as file:
            for group in range(file.num_row_groups):
                yield file.read_row_group(group, names, use_threads=False)

    def read_places(
        self, offsets: IntColumn, of_output: bool | None
    ) -> tuple[IntColumn, IntColumn]:
        """Return the partitions and offsets at which a record of another unit was received.

        Args:
            offsets: those that matter, in any partition.
            of_output: whether they are those of the copiers' output, which only the concurrent
                consumer reads; `None`: the trial has no copiers.

        Raises:
            InvalidLedger: the reads cannot be read.
        """
        span = _Range(int(offsets.min()), int(offsets.max()), has_nulls=False)
        wanted = pa.array(np.unique(offsets))
        names, found = (
            ["consumer", "partition", "offset", "producer", "seq"],
            [PLACES.empty_table()],
        )
        with _opened(self.files, self.unit.ledger, "reads") as file:
            for group, offset in enumerate(_ranges(file.metadata, "offset")):
                if not offset.overlaps(span):
                    continue
                rows = file.read_row_group(group, names, use_threads=False)
                rows = rows.filter(pc.is_in(rows["offset"], wanted))
                rows = rows.filter(pc.invert(is_own_row(rows["seq"], self.unit)))
                rows = rows.filter(pc.field("producer").is_valid() & pc.field("seq").is_valid())
                if of_output is not None:
                    by_group = pc.field("consumer") > 0
                    rows = rows.filter(~by_group if of_output else by_group)
                found.append(rows.select(PLACES.names).cast(PLACES))
        places = pa.concat_tables(found)
        return places["partition"].to_numpy(), places["offset"].to_numpy()


def _read_table(file: pq.ParquetFile, name: str) -> pa.Table:
    """Return a table with a few hundred rows."""
    table = file.read(use_threads=False).cast(_SCHEMAS[name])
    table.validate(full=True)
    if name == "transactions":
        check_outcomes(table["outcome"].unique().to_pylist(), TRANSACTION_OUTCOMES)
    return table


def _read_columns(file: pq.ParquetFile, name: str, unit: Unit, beyond: _BeyondUnit) -> Columns:
    """Return the unit's rows of a table; what the log has `beyond` the unit is added there."""
    columns = _columns(name, unit)
    schema = pa.schema([_SCHEMAS[name].field(column) for column in columns])
    groups = row_groups(file.metadata, unit, with_beyond=name == "log")

    def parts() -> Iterator[pa.Table]:
        for group in groups:
            rows = file.read_row_group(group, columns, use_threads=False)
            if unit.is_whole_trial:
                yield rows
                continue
            yield rows.filter(is_own_row(rows["seq"], unit))
            if name == "log":
                beyond.add(rows)

    rows = sum(file.metadata.row_group(group).num_rows for group in groups)
    return to_columns(parts(), schema, rows)


def _columns(name: str, unit: Unit) -> list[str]:
    columns = list(_COLUMNS.get(name, _SCHEMAS[name].names))
    has_keys = unit.ledger.manifest.keying is not None
    if name == "attempts":
        columns += ["key"] * (has_keys or unit.ledger.manifest.compacted)
        columns += ["transaction"] * bool(unit.ledger.transactions_rows)
    if name == "log":
        columns += ["timestamp_ms"] * has_keys
    return columns


def is_own_row(seq: pa.ChunkedArray, unit: Unit) -> pa.ChunkedArray:
    """Return which rows belong to a unit, by their sequence number (null: no id)."""
    inside = pc.and_(
        pc.greater_equal(seq, pa.scalar(unit.first_seq)), pc.less(seq, pa.scalar(unit.end_seq))
    )
    return pc.fill_null(inside, unit.is_first)


@dataclass(frozen=True)
class _BeyondUnit:
    """What a unit has to know about the other rows of the log."""

    unit: Unit
    later_offsets: list[pa.Table] = field(default_factory=lambda: [LATER_OFFSETS.empty_table()])
    expired_places: list[pa.Table] = field(default_factory=lambda: [PLACES.empty_table()])

    def add(self, rows: pa.Table) -> None:
        """Add what a row group of the log contributes: a few rows."""
        later = rows.filter(
            (pc.field("seq") >= self.unit.end_seq) & pc.field("intact") & pc.field("visible")
        )
        lowest = later.group_by(["partition", "producer"]).aggregate([("offset", "min")])
        self.later_offsets.append(
            lowest.rename_columns({"offset_min": "offset"})
            .select(LATER_OFFSETS.names)
            .cast(LATER_OFFSETS)
        )
        begins = self.unit.ledger.manifest.begin_offsets
        if begins:
            others = rows.filter(
                pc.and_(rows["visible"], pc.invert(is_own_row(rows["seq"], self.unit)))
            )
            self.expired_places.extend(
                others.filter((pc.field("partition") == partition) & (pc.field("offset") < begin))
                .select(PLACES.names)
                .cast(PLACES)
                for partition, begin in begins.items()
            )


# Which row groups can have a row that matters, by the statistics in the file's footer.


@dataclass(frozen=True)
class _Range:
    """The lowest and the highest value of a column in a row group, and whether some are null."""

    low: int
    high: int
    has_nulls: bool

    def overlaps(self, other: _Range) -> bool:
        return self.low <= other.high and other.low <= self.high


def row_groups(footer: pq.FileMetaData, unit: Unit, *, with_beyond: bool) -> list[int]:
    """Return the row groups that can have rows of a unit.

    Args:
        footer: the file's.
        unit: the unit.
        with_beyond: return those as well that can have a record of a later unit before a record of
            this one, or an expired record of another unit.
    """
    if unit.is_whole_trial:
        return list(range(footer.num_row_groups))
    seqs = _ranges(footer, "seq")
    own = [
        number
        for number, seq in enumerate(seqs)
        if (seq.low < unit.end_seq and seq.high >= unit.first_seq)
        or (seq.has_nulls and unit.is_first)
    ]
    if not with_beyond:
        return own
    if unit.ledger.manifest.begin_offsets:
        return list(range(footer.num_row_groups))
    partitions, offsets = _ranges(footer, "partition"), _ranges(footer, "offset")

    def can_precede(one: int, other: int) -> bool:
        """Return whether a row of one row group can be before a row of the other."""
        in_one_partition = partitions[one] == partitions[other] and (
            partitions[one].low == partitions[one].high
        )
        return partitions[one].overlaps(partitions[other]) and not (
            in_one_partition and offsets[one].low > offsets[other].high
        )

    later = [number for number, seq in enumerate(seqs) if seq.high >= unit.end_seq]
    return sorted({*own, *(one for one in later if any(can_precede(one, other) for other in own))})


def _ranges(footer: pq.FileMetaData, column: str) -> list[_Range]:
    """Return a column's range in each row group; without statistics, that of all integers."""
    place = footer.schema.names.index(column)
    ranges = []
    for number in range(footer.num_row_groups):
        found = footer.row_group(number).column(place).statistics
        if found is None or not found.has_min_max:
            ranges.append(_Range(_MIN_SEQ, _MAX_SEQ, has_nulls=True))
        else:
            ranges.append(_Range(found.min, found.max, has_nulls=found.null_count != 0))
    return ranges
