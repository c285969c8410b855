"""Numbers of records: every id has one, and it is found again by its number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.measured import planted_arrays

from ackbench.experiments.ledger.trial_manifest import Replay
from ackbench.spark_jobs.io.arrays import UnitArrays
from ackbench.spark_jobs.io.columns import NO_NUMBER
from ackbench.spark_jobs.planted import PlantedAttempt, PlantedLogRow, PlantedRead, PlantedSentRow

Id = tuple[int | None, int | None]
SPARSE = 2**60
"""Too far from the other sequence numbers to be a place in an array."""


def log_of(ids: Sequence[Id], *, corrupt: Sequence[Id] = ()) -> list[PlantedLogRow]:
    """Return a log with a row for each id, and rows that are not intact."""
    return [
        PlantedLogRow(producer, seq, offset, intact=offset < len(ids))
        for offset, (producer, seq) in enumerate((*ids, *corrupt))
    ]


def reads_of(ids: Sequence[Id]) -> list[PlantedRead]:
    """Return a read for each id."""
    return [
        PlantedRead(producer, seq, place, received_ns=place)
        for place, (producer, seq) in enumerate(ids)
    ]


def assert_numbered(unit: UnitArrays) -> None:
    """Assert that rows have equal numbers if and only if they have equal ids."""
    number_of: dict[tuple[int, int], int] = {}
    for rows, known in (
        (unit.attempts, np.ones(len(unit.attempts), bool)),
        (unit.log, unit.log.intact & (unit.log.producer != NO_NUMBER)),
        (unit.reads, unit.reads.producer != NO_NUMBER),
    ):
        assert ((rows.record == NO_NUMBER) == ~known).all()
        numbers = rows.record[known]
        assert (numbers < len(unit.ids)).all()
        producer, seq = unit.ids.of(numbers)
        assert (producer == rows.producer[known]).all()
        assert (seq == rows.seq[known]).all()
        for id_, number in zip(zip(producer, seq, strict=True), numbers, strict=True):
            assert number_of.setdefault((int(id_[0]), int(id_[1])), int(number)) == number
    assert len(set(number_of.values())) == len(number_of)


@pytest.mark.parametrize(
    ("attempted", "in_log"),
    [
        ([], []),
        ([], [(0, 5), (0, 5), (None, None)]),
        ([(0, 0), (0, 1), (0, 2)], [(0, 2), (0, 0)]),  # one producer from 0 on: seq is the number
        ([(0, 7), (0, 8)], [(0, 8), (0, 6), (0, 9)]),  # from 7 on, and ids beside
        ([(3, 0), (3, 1)], [(3, 1), (0, 1), (4, 0)]),  # foreign producers on both sides
        ([(0, 0), (2, 0), (2, 1), (9, 1)], [(1, 0), (9, 0), (2, 1), (9, 1)]),
        ([(0, 0), (0, 900)], [(0, 450), (0, 900)]),  # a gap: never attempted, still dense
        ([(0, 0), (0, SPARSE)], [(0, SPARSE), (0, SPARSE - 1), (0, 0)]),  # not dense
        ([(0, 0)], [(0, SPARSE), (0, -1), (2**31 - 1, SPARSE), (0, SPARSE)]),
        ([(0, SPARSE), (0, SPARSE + 1)], [(0, SPARSE + 1), (0, 0)]),  # dense, far from 0
    ],
)
def test_each_id_has_a_number(attempted: list[tuple[int, int]], in_log: list[Id]) -> None:
    """Attempted or not, whatever the producers and the sequence numbers."""
    corrupt: list[Id] = [(0, 0), (5, SPARSE), (None, None)]
    unit = planted_arrays(
        [PlantedAttempt(*id_) for id_ in attempted],
        log_of(in_log, corrupt=corrupt),
        reads_of([*in_log[::-1], (None, None), (8, 8)]),
    )
    assert_numbered(unit)


def test_the_numbers_of_one_producer_are_its_sequence_numbers() -> None:
    """They are the column itself: nothing is computed or copied."""
    ids = [(4, seq) for seq in range(5)]
    unit = planted_arrays([PlantedAttempt(*id_) for id_ in ids], log_of(ids), reads_of(ids))
    assert unit.attempts.record is unit.attempts.seq
    assert unit.log.record is unit.log.seq
    assert unit.reads.record is unit.reads.seq
    assert len(unit.ids) == len(ids)


IDS = st.lists(
    st.tuples(
        st.integers(0, 4) | st.just(2**31 - 1),
        st.integers(0, 12) | st.integers(0, SPARSE) | st.integers(1000, 2200),
    ),
    max_size=14,
)
IDS_OR_NONE = st.lists(
    st.just((None, None))
    | st.tuples(st.integers(0, 5), st.integers(-2, 14) | st.integers(-SPARSE, SPARSE)),
    max_size=14,
)


@given(IDS.map(lambda ids: list(dict.fromkeys(ids))), IDS_OR_NONE, IDS_OR_NONE, IDS_OR_NONE)
def test_a_number_leads_back_to_the_id(
    attempted: list[tuple[int, int]], in_log: list[Id], corrupt: list[Id], received: list[Id]
) -> None:
    """`RecordIds.of` inverts the numbering, and numbers take little memory."""
    unit = planted_arrays(
        [PlantedAttempt(*id_) for id_ in attempted],
        log_of(in_log, corrupt=corrupt),
        reads_of(received),
    )
    assert_numbered(unit)
    rows = len(unit.attempts) + len(unit.log) + len(unit.reads)
    assert len(unit.ids) <= 2 * rows + 1024


def test_other_tables_have_the_same_numbers() -> None:
    """The output of copiers, and the fields as sent."""
    unit = planted_arrays(
        [PlantedAttempt(1, 0), PlantedAttempt(1, 1)],
        output=log_of([(1, 1), (7, 7), (None, None)], corrupt=[(1, 0)]),
        sent=[PlantedSentRow(1, 1), PlantedSentRow(1, 0)],
        replays=[Replay(number=1, begin_offsets={0: 0})],
    )
    assert unit.output is not None
    assert unit.output.record.tolist() == [1, 2, NO_NUMBER, NO_NUMBER]
    assert unit.sent is not None
    assert unit.sent.record.tolist() == [1, 0]
    assert unit.ids.of(np.array([2]))[1].tolist() == [7]


@given(st.randoms(use_true_random=False))
def test_rows_are_sorted_whatever_their_order_in_the_file(random: Random) -> None:
    """The log by partition and offset, reads by the time of receipt; hidden rows are counted."""
    log = [
        PlantedLogRow(0, seq, offset, partition, visible=offset % 3 > 0)
        for seq, (partition, offset) in enumerate((p, o) for p in (0, 1) for o in range(5))
    ]
    reads = reads_of([(0, seq) for seq in range(6)])
    unit = planted_arrays(
        [PlantedAttempt(0, seq) for seq in range(10)],
        random.sample(log, len(log)),
        random.sample(reads, len(reads)),
    )
    visible = [row for row in log if row.visible]
    assert len(unit.hidden) == len(log) - len(visible)
    assert unit.log.record.tolist() == [row.seq for row in visible]
    assert unit.log.offset.tolist() == [row.offset for row in visible]
    assert unit.reads.record.tolist() == list(range(6))


def test_some_reads_have_all_their_columns() -> None:
    """All of them are the same object."""
    reads = planted_arrays(reads=reads_of([(0, 0), (1, 3), (2, 5)])).reads
    assert reads.where(np.ones(3, bool)) is reads
    chosen = reads.where(np.array([True, False, True]))
    for column in fields(reads):
        expected = getattr(reads, column.name)[[0, 2]].tolist()
        assert getattr(chosen, column.name).tolist() == expected
