"""Units: how trials are split, which rows and row groups a unit has, and files that are damaged."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.measured import shrink_row_groups

from ackbench.experiments.ledger.schema import ATTEMPTS, LOG
from ackbench.experiments.ledger.trial_manifest import KeyOptions, Replay
from ackbench.spark_jobs.io.ledgers import InvalidLedger, Ledger, open_ledgers
from ackbench.spark_jobs.io.units import Unit, UnitRows, is_own_row, read_unit, row_groups, split
from ackbench.spark_jobs.planted import (
    PlantedAttempt,
    PlantedEpoch,
    PlantedEvent,
    PlantedLogRow,
    PlantedRead,
    PlantedTransaction,
    PlantedTrial,
)

# Splitting.


def ledger(
    records: Sequence[int], log_rows: int = 0, reads_rows: int = 0, **changes: Any
) -> Ledger:
    """Return a ledger with this many records per producer."""
    trial = PlantedTrial(
        "t",
        [
            PlantedAttempt(producer, seq)
            for producer, count in enumerate(records)
            for seq in range(count)
        ],
        **changes,
    )
    return replace(trial.ledger(), log_rows=log_rows, reads_rows=reads_rows)


RECORDS = st.lists(st.integers(0, 60), max_size=4)
ROWS = st.integers(0, 300)


def records_of(unit: Unit) -> int:
    """Return how many records a unit has: the sequence numbers of a producer are dense from 0."""
    return sum(
        max(0, min(unit.end_seq, producer.records) - max(unit.first_seq, 0))
        for producer in unit.ledger.manifest.producers
    )


@given(RECORDS, ROWS, ROWS, st.integers(1, 100))
def test_every_sequence_number_belongs_to_one_unit(
    records: list[int], log_rows: int, reads_rows: int, unit_records: int
) -> None:
    """Units cover all integers, so also those of records that were never attempted."""
    trial = ledger(records, log_rows, reads_rows)
    units = sorted(split([trial], unit_records), key=lambda unit: unit.first_seq)
    assert [unit.is_first for unit in units] == [True] + [False] * (len(units) - 1)
    assert all(unit.ledger is trial for unit in units)
    assert [unit.end_seq for unit in units[:-1]] == [unit.first_seq for unit in units[1:]]
    assert (units[0].first_seq, units[-1].end_seq) == (-(2**63), 2**63 - 1)
    assert units[0].is_whole_trial == (len(units) == 1)
    assert sum(map(records_of, units)) == sum(records)


@given(st.integers(1, 4), st.integers(0, 60), ROWS, ROWS, st.integers(1, 100))
def test_units_are_balanced_and_bounded(
    producers: int, records: int, log_rows: int, reads_rows: int, unit_records: int
) -> None:
    """As many as the largest table needs, each with as many sequence numbers as the others."""
    units = split([ledger([records] * producers, log_rows, reads_rows)], unit_records)
    rows = max(producers * records, log_rows, reads_rows)
    assert len(units) == max(1, -(-rows // unit_records))
    counts = [records_of(unit) for unit in sorted(units, key=lambda unit: unit.first_seq)]
    assert max(counts) <= unit_records + producers
    full = -(-records // len(units)) * producers
    assert all(count == full for count in counts[: producers * records // full if full else 0])


@pytest.mark.parametrize(
    "changes",
    [{"keying": KeyOptions(placement=True)}, {"replays": [Replay(number=1, begin_offsets={0: 0})]}],
)
def test_a_trial_whose_keys_or_replays_are_measured_is_one_unit(changes: dict[str, Any]) -> None:
    """These measures compare a record with others of any sequence number."""
    (unit,) = split([ledger([50], **changes)], unit_records=5)
    assert unit.is_whole_trial
    assert len(split([ledger([50])], unit_records=5)) == 10


@given(st.lists(RECORDS, max_size=4), st.integers(1, 60))
def test_the_largest_units_come_first(trials: list[list[int]], unit_records: int) -> None:
    """Whatever trial they belong to: the last task to end is a short one."""
    units = split([ledger(records) for records in trials], unit_records)
    counts = [records_of(unit) for unit in units]
    assert [unit.records for unit in units] == counts == sorted(counts, reverse=True)


# Own rows.

SEQS = st.integers(0, 20) | st.integers(-(2**62), 2**62)


@given(st.lists(st.none() | SEQS, max_size=10), st.lists(SEQS, max_size=3).map(sorted))
def test_every_row_belongs_to_one_unit(seqs: list[int | None], splits: list[int]) -> None:
    """Rows without an id belong to the first one."""
    ends = [-(2**63), *splits, 2**63 - 1]
    column = pa.chunked_array([pa.array(seqs, pa.int64())])
    units = [Unit(ledger([1]), *span) for span in pairwise(ends)]
    own = [is_own_row(column, unit).to_pylist() for unit in units]
    for row, seq in enumerate(seqs):
        expected = [
            unit.is_first if seq is None else unit.first_seq <= seq < unit.end_seq for unit in units
        ]
        assert [of_unit[row] for of_unit in own] == expected
        assert sum(expected) == 1


# Row groups.

LOG_ROWS = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 0, 0, 0, 1]),  # partition
        st.integers(0, 30),  # offset
        st.sampled_from([None, 0, 0, 1]),  # producer
        st.integers(0, 12),  # seq
        st.sampled_from([True, True, True, False]),  # intact
        st.sampled_from([True, True, True, False]),  # visible
    ),
    max_size=24,
).map(
    lambda rows: [
        PlantedLogRow(
            producer,
            None if producer is None else seq,
            offset,
            partition,
            intact=intact,
            visible=visible,
        )
        for partition, offset, producer, seq, intact, visible in rows
    ]
)


def footer_of(rows: list[PlantedLogRow], size: int, *, statistics: bool) -> pq.FileMetaData:
    """Return the footer of a log with row groups of a few rows."""
    file = io.BytesIO()
    table = pa.Table.from_pylist([row._asdict() for row in rows], LOG)
    pq.write_table(table, file, row_group_size=size, write_statistics=statistics)
    return pq.ParquetFile(file).metadata


@settings(max_examples=300)
@given(
    LOG_ROWS,
    st.booleans(),
    st.integers(1, 4),
    st.sampled_from([True, True, False]),
    st.tuples(st.integers(0, 13), st.integers(0, 13)).map(sorted),
    st.tuples(st.booleans(), st.booleans()),
    st.just({}) | st.dictionaries(st.integers(0, 1), st.integers(1, 30)),
)
def test_every_row_that_matters_is_in_a_chosen_row_group(
    rows: list[PlantedLogRow],
    in_order: bool,
    size: int,
    statistics: bool,
    span: list[int],
    edges: tuple[bool, bool],
    begin_offsets: dict[int, int],
) -> None:
    """A unit's own rows, records of later units before them, and expired records of other units."""
    if in_order:
        rows = sorted(rows, key=lambda row: (row.partition, row.offset))
    first, end = (-(2**63) if edges[0] else span[0]), (2**63 - 1 if edges[1] else span[1])
    unit = Unit(ledger([1], begin_offsets=begin_offsets), first, end)
    footer = footer_of(rows, size, statistics=statistics)
    own = [number for number, row in enumerate(rows) if _is_own(row, unit)]
    later = [
        number
        for number, row in enumerate(rows)
        if row.seq is not None
        and row.seq >= end
        and any(
            (rows[mine].partition, rows[mine].producer) == (row.partition, row.producer)
            and row.offset < rows[mine].offset
            for mine in own
        )
    ]
    expired = [
        number
        for number, row in enumerate(rows)
        if row.offset < begin_offsets.get(row.partition, 0)
    ]
    assert {number // size for number in own} <= set(row_groups(footer, unit, with_beyond=False))
    chosen = row_groups(footer, unit, with_beyond=True)
    assert {number // size for number in (*own, *later, *expired)} <= set(chosen)
    assert chosen == sorted(set(chosen))


def _is_own(row: PlantedLogRow, unit: Unit) -> bool:
    return unit.is_first if row.seq is None else unit.first_seq <= row.seq < unit.end_seq


@pytest.mark.parametrize(
    ("statistics", "with_beyond", "chosen"),
    [
        (True, False, [2, 3]),
        (True, True, [1, 2, 3]),  # 12 and 13 precede the unit's own rows
        (False, False, [0, 1, 2, 3, 4, 5]),
        (False, True, [0, 1, 2, 3, 4, 5]),
    ],
)
def test_row_groups_without_rows_that_matter_are_not_read(
    statistics: bool, with_beyond: bool, chosen: list[int]
) -> None:
    """The statistics in the footer decide; without them, all are read."""
    seqs = [0, 1, 12, 13, 4, 5, 6, 7, 8, 9, 10, 11]
    rows = [PlantedLogRow(0, seq, offset) for offset, seq in enumerate(seqs)]
    footer = footer_of(rows, 2, statistics=statistics)
    unit = Unit(ledger([14]), 4, 8)
    assert row_groups(footer, unit, with_beyond=with_beyond) == chosen
    assert row_groups(footer, Unit(ledger([14])), with_beyond=True) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("offsets_of_later", "chosen"), [((0, 10), [0, 1]), ((6, 10), [0, 1]), ((7, 10), [1])]
)
def test_later_records_are_read_if_one_can_precede_an_own_one(
    offsets_of_later: tuple[int, int], chosen: list[int]
) -> None:
    """Files may hold their rows in any order: the unit's own rows are at 5 and 6."""
    ids = zip((12, 13, 4, 5), (*offsets_of_later, 5, 6), strict=True)
    footer = footer_of([PlantedLogRow(0, seq, at) for seq, at in ids], 2, statistics=True)
    assert row_groups(footer, Unit(ledger([14]), 4, 8), with_beyond=True) == chosen


def test_statistics_that_do_not_count_nulls_do_not_exclude_them() -> None:
    """Another writer may leave the count out; rows without an id belong to the first unit."""
    statistics = SimpleNamespace(has_min_max=True, min=9, max=9, null_count=None)
    group = SimpleNamespace(column=lambda _: SimpleNamespace(statistics=statistics))
    footer = SimpleNamespace(
        num_row_groups=1, schema=SimpleNamespace(names=["seq"]), row_group=lambda _: group
    )
    assert row_groups(footer, Unit(ledger([9]), end_seq=5), with_beyond=False) == [0]
    assert row_groups(footer, Unit(ledger([9]), 2, 5), with_beyond=False) == []


# Reading.

TRIAL = PlantedTrial(
    "000-read",
    [PlantedAttempt(0, seq, intended_ns=seq, transaction=None) for seq in range(12)],
    [
        *(PlantedLogRow(0, seq, seq) for seq in range(12)),
        PlantedLogRow(0, 1, 12),
        PlantedLogRow(None, None, 13),
        PlantedLogRow(0, 7, 0, partition=1),
        PlantedLogRow(0, 2, 1, partition=1),
        PlantedLogRow(0, 9, 0, partition=2, intact=False),
        PlantedLogRow(0, 10, 1, partition=2, visible=False),
        PlantedLogRow(0, 3, 2, partition=2),
    ],
    [PlantedRead(0, seq, seq, received_ns=seq) for seq in range(12)],
)


def units_in(sweep: Path, trial: PlantedTrial, unit_records: int) -> list[UnitRows]:
    """Return the rows of a trial's units, by sequence number, read from small row groups."""
    shrink_row_groups(trial.plant(sweep))
    ledgers = open_ledgers(str(sweep))
    units = sorted(split(ledgers.trials, unit_records), key=lambda unit: unit.first_seq)
    return [read_unit(ledgers.files, unit) for unit in units]


def test_a_unit_has_its_own_rows_and_the_offsets_of_later_records(tmp_path: Path) -> None:
    """Of those that may precede its own: here seq 7 precedes 2 in partition 1.

    In partition 2, a corrupt and a hidden row precede 3: they are no records of later units.
    """
    first, second = units_in(tmp_path, TRIAL, unit_records=10)
    assert not first.is_whole_trial
    assert first.columns["attempts"]["seq"].tolist() == [0, 1, 2, 3, 4, 5]
    assert second.columns["attempts"]["seq"].tolist() == [6, 7, 8, 9, 10, 11]
    assert first.columns["log"]["offset"].tolist() == [0, 1, 2, 3, 4, 5, 12, 13, 1, 2]
    assert second.columns["log"]["offset"].tolist() == [6, 7, 8, 9, 10, 11, 0, 0, 1]
    assert second.columns["reads"]["intended_ns"].tolist() == [0] * 6
    lowest: dict[int, int] = {}
    for row in first.later_offsets.to_pylist():
        assert row["producer"] == 0
        lowest[row["partition"]] = min(row["offset"], lowest.get(row["partition"], 99))
    assert lowest == {0: 6, 1: 0}
    assert second.later_offsets.num_rows == 0
    assert first.expired_places.num_rows == 0


def test_a_unit_knows_where_other_units_have_expired_records(tmp_path: Path) -> None:
    """Below the begin offset of their partition; hidden rows are no records there."""
    hidden = PlantedLogRow(0, 9, 2, partition=1, visible=False)
    first, second = units_in(
        tmp_path, replace(TRIAL, log=[*TRIAL.log, hidden], begin_offsets={0: 8, 1: 5}), 10
    )
    assert places(first) == {(0, 6), (0, 7), (1, 0)}
    assert places(second) == {(0, offset) for offset in range(6)} | {(1, 1)}


def places(rows: UnitRows) -> set[tuple[int, int]]:
    """Return partition and offset of the expired rows of other units."""
    return {(row["partition"], row["offset"]) for row in rows.expired_places.to_pylist()}


def test_a_whole_trial_has_all_rows(tmp_path: Path) -> None:
    """In the order of the files, and the small tables as the schema has them."""
    (rows,) = units_in(tmp_path, TRIAL, unit_records=99)
    assert rows.is_whole_trial
    expected = TRIAL.rows()
    assert rows.tables.keys() == expected.tables.keys()
    for name, columns in rows.columns.items():
        for column, values in columns.items():
            assert values.tolist() == expected.columns[name][column].tolist()


# Damage.


def damaged(sweep: Path, name: str, content: bytes) -> str:
    """Return the message of the error when a damaged file of the planted trial is read."""
    folder = sweep / "trials" / TRIAL.trial_id
    (folder / f"{name}.parquet").write_bytes(content)
    ledgers = open_ledgers(str(sweep))
    with pytest.raises(InvalidLedger) as caught:
        read_unit(ledgers.files, Unit(ledgers.trials[0]))
    return str(caught.value)


@pytest.mark.parametrize("name", ["attempts", "log", "reads", "events", "epochs", "transactions"])
def test_unreadable_data_are_reported_by_trial_and_file(tmp_path: Path, name: str) -> None:
    """The footer is valid, so only reading the file fails."""
    trial = replace(
        TRIAL,
        events=[PlantedEvent(1, "leader", node=1, partition=0)],
        epochs=[PlantedEpoch(1, 0, 0, 0)],
        transactions=[PlantedTransaction(0, 0)],
    )
    content = bytearray((trial.plant(tmp_path) / f"{name}.parquet").read_bytes())
    content[4:60] = bytes(56)
    assert damaged(tmp_path, name, bytes(content)) == (
        f"trial 000-read: {name}.parquet cannot be read: its footer is valid, but its data are not"
    )


def test_data_that_are_cut_out_are_reported(tmp_path: Path) -> None:
    """The pages are shorter than the footer says."""
    content = (TRIAL.plant(tmp_path) / "log.parquet").read_bytes()
    assert "log.parquet cannot be read" in damaged(tmp_path, "log", content[:4] + content[64:])


def test_a_file_that_is_gone_by_now_is_reported(tmp_path: Path) -> None:
    """It was there when the sweep was opened."""
    folder = TRIAL.plant(tmp_path)
    ledgers = open_ledgers(str(tmp_path))
    (folder / "reads.parquet").unlink()
    with pytest.raises(InvalidLedger, match=r"^trial 000-read: reads.parquet cannot be read"):
        read_unit(ledgers.files, Unit(ledgers.trials[0]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"attempts": [PlantedAttempt(0, 0, "acknowledged")]},
            "attempts.parquet has the outcome 'acknowledged'; allowed: acked, rejected",
        ),
        (
            {"transactions": [PlantedTransaction(0, 0, "acked")]},
            "transactions.parquet has the outcome 'acked'; allowed: committed, aborted, fenced",
        ),
    ],
)
def test_an_unknown_outcome_is_reported(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    """The schema allows any string."""
    replace(TRIAL, **changes).plant(tmp_path)
    ledgers = open_ledgers(str(tmp_path))
    with pytest.raises(InvalidLedger, match=f"^trial 000-read: {message}, "):
        read_unit(ledgers.files, Unit(ledgers.trials[0]))


def test_an_outcome_that_its_dictionary_does_not_have_is_reported(tmp_path: Path) -> None:
    """A flipped bit emptied the dictionary of a page; the rows still point into it."""
    path = TRIAL.plant(tmp_path) / "attempts.parquet"
    outcomes = pq.ParquetFile(path).metadata.row_group(0).column(ATTEMPTS.names.index("outcome"))
    content = bytearray(path.read_bytes())
    content[outcomes.dictionary_page_offset + 6] ^= 4  # in the page's header
    assert "attempts.parquet cannot be read" in damaged(tmp_path, "attempts", bytes(content))


@settings(max_examples=150)
@given(st.data())
def test_a_flipped_byte_is_reported_or_is_a_value(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Parquet pages have no checksums here; but there is no other error than `InvalidLedger`."""
    sweep = tmp_path_factory.mktemp("sweep")
    folder = TRIAL.plant(sweep)
    ledgers = open_ledgers(str(sweep))
    path = folder / f"{data.draw(st.sampled_from(['attempts', 'log', 'reads']))}.parquet"
    content = bytearray(path.read_bytes())
    end = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    content[data.draw(st.integers(4, end - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    with suppress(InvalidLedger):
        rows = read_unit(ledgers.files, Unit(ledgers.trials[0]))
        assert len(rows.columns[path.stem]["seq"]) == len(getattr(TRIAL, path.stem))
