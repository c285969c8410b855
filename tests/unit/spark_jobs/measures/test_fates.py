"""The fates of records, on ledgers of a few rows."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.measured import planted_arrays

from ackbench.experiments.ledger.result_terms import Fate
from ackbench.experiments.ledger.terms import ABORTED, ACKED, REJECTED, UNKNOWN
from ackbench.spark_jobs.io.arrays import UnitArrays
from ackbench.spark_jobs.io.columns import OUTCOMES, IntColumn
from ackbench.spark_jobs.measures.fates import (
    FateCount,
    FateCounts,
    FateMeasure,
    count_fates,
    count_rows,
    fate_rows,
    record_fates,
)
from ackbench.spark_jobs.planted import PlantedAttempt, PlantedLogRow, PlantedRead

NOT_ATTEMPTED = None


def log_of(*ids: tuple[int | None, int | None, bool]) -> list[PlantedLogRow]:
    """Return a log with each row (producer, seq, intact) at the next offset of partition 0."""
    return [
        PlantedLogRow(producer, seq, offset, intact=intact)
        for offset, (producer, seq, intact) in enumerate(ids)
    ]


def by_record(unit: UnitArrays) -> dict[tuple[int, int], tuple[str | None, int, int]]:
    """Return outcome, copies and reads of each record that any table has."""
    fates = record_fates(unit.attempts, unit.log, unit.ids)
    times = count_rows(unit.reads.record, len(unit.ids))
    names = (*OUTCOMES, NOT_ATTEMPTED)
    numbers = {*unit.attempts.record, *unit.log.record, *unit.reads.record} - {-1}
    found = {}
    for number in numbers:
        producer, seq = (int(column[0]) for column in unit.ids.of(_row(number)))
        found[producer, seq] = (
            names[fates.outcome[number]],
            int(fates.copies[number]),
            int(times[number]),
        )
    return found


def _row(number: int) -> IntColumn:
    return np.array([number])


def counts_of(unit: UnitArrays) -> FateCounts:
    """Return the counts of a unit."""
    return count_fates(record_fates(unit.attempts, unit.log, unit.ids), unit.log)


def test_each_record_has_an_outcome_copies_and_reads() -> None:
    """Sequence numbers of two blocks of 64, as the log and the consumer have them."""
    outcomes = {0: ACKED, 63: REJECTED, 64: UNKNOWN, 65: ABORTED}
    unit = planted_arrays(
        [PlantedAttempt(1, seq, outcome) for seq, outcome in outcomes.items()],
        log_of((1, 0, True), (1, 0, True), (1, 64, True)),
        [PlantedRead(1, 63, 0), PlantedRead(1, 64, 1), PlantedRead(1, 64, 2)],
    )
    assert by_record(unit) == {
        (1, 0): (ACKED, 2, 0),
        (1, 63): (REJECTED, 0, 1),
        (1, 64): (UNKNOWN, 1, 2),
        (1, 65): (ABORTED, 0, 0),
    }


def test_rows_without_a_reliable_id_are_no_copies() -> None:
    """External and corrupt records are counted, but are no copy of any record."""
    unit = planted_arrays(
        [PlantedAttempt(1, 0)],
        log_of((None, None, True), (1, 0, False)),
        [PlantedRead(None, None, 0)],
    )
    assert by_record(unit) == {(1, 0): (ACKED, 0, 0)}
    found = counts_of(unit)
    assert (found[None, Fate.PHANTOM].copies, found[None, Fate.CORRUPT].copies) == (1, 1)


def test_each_pair_of_outcome_and_presence_is_a_fate() -> None:
    """Records 0 to 7 have each outcome, in the log and not; record 8 was never attempted."""
    outcomes = (ACKED, ACKED, REJECTED, REJECTED, UNKNOWN, UNKNOWN, ABORTED, ABORTED)
    corrupt, external = (None, None, False), (None, None, True)
    unit = planted_arrays(
        [PlantedAttempt(1, seq, outcome) for seq, outcome in enumerate(outcomes)],
        log_of(*((1, seq, True) for seq in (0, 2, 4, 6, 8)), *[external] * 2, *[corrupt] * 3),
    )
    counts = {
        (outcome, fate.value): (count.records, count.copies)
        for (outcome, fate), count in counts_of(unit).items()
    }
    assert counts == {
        ("acked", "DELIVERED_ONCE"): (1, 1),
        ("acked", "DUPLICATED"): (0, 0),
        ("acked", "LOST"): (1, 0),
        ("rejected", "REJECTED_PRESENT"): (1, 1),
        ("rejected", "REJECTED"): (1, 0),
        ("unknown", "UNKNOWN_PRESENT"): (1, 1),
        ("unknown", "UNKNOWN_ABSENT"): (1, 0),
        ("aborted", "ABORTED_VISIBLE"): (1, 1),
        ("aborted", "ABORTED"): (1, 0),
        (None, "PHANTOM"): (3, 3),
        (None, "CORRUPT"): (3, 3),
    }


def test_only_records_with_several_copies_have_duplicates() -> None:
    """External records are many rows without an id, and no duplicates."""
    unit = planted_arrays(
        [PlantedAttempt(1, seq) for seq in (0, 1, 64, 65)],
        log_of(*((1, seq, True) for seq in (0, 1, 64, 65, 64)), *[(None, None, True)] * 9),
    )
    found = {fate: count for (_, fate), count in counts_of(unit).items() if count.records}
    assert found == {
        Fate.DELIVERED_ONCE: FateCount(3, 0, 3),
        Fate.DUPLICATED: FateCount(1, 1, 2),
        Fate.PHANTOM: FateCount(9, 0, 9),
    }


def test_duplicates_are_counted_by_outcome() -> None:
    """Here of an acknowledged, an unknown, an aborted record and one that was never attempted."""
    outcomes = {0: ACKED, 1: ACKED, 2: UNKNOWN, 3: ABORTED}
    unit = planted_arrays(
        [PlantedAttempt(1, seq, outcome) for seq, outcome in outcomes.items()],
        log_of(*((1, seq, True) for seq in (0, 0, 0, 1, 2, 2, 3, 3, 4, 4)), (1, 1, False)),
    )
    found = {key: count for key, count in counts_of(unit).items() if count.records}
    assert found == {
        (ACKED, Fate.DELIVERED_ONCE): FateCount(1, 0, 1),
        (ACKED, Fate.DUPLICATED): FateCount(1, 1, 3),
        (UNKNOWN, Fate.UNKNOWN_PRESENT): FateCount(1, 1, 2),
        (ABORTED, Fate.ABORTED_VISIBLE): FateCount(1, 1, 2),
        (None, Fate.PHANTOM): FateCount(2, 0, 2),
        (None, Fate.CORRUPT): FateCount(1, 0, 1),
    }


def test_only_acked_records_move_to_duplicated() -> None:
    """Others keep their fate, with the number of their copies; copies of a phantom are phantoms."""
    unit = planted_arrays(
        [PlantedAttempt(1, seq) for seq in range(5)]
        + [PlantedAttempt(1, seq, UNKNOWN) for seq in (5, 6)],
        log_of(*((1, seq, True) for seq in (0, 0, 1, 1, 1, 2, 3, 4, 5, 5, 5, 5, 5, 6, 9, 9))),
    )
    rows = {
        (row["outcome"], row["fate"]): (row["records"], row["duplicated_records"], row["copies"])
        for row in fate_rows(counts_of(unit))
        if row["records"]
    }
    assert rows == {
        ("acked", "DELIVERED_ONCE"): (3, 0, 3),
        ("acked", "DUPLICATED"): (2, 2, 5),
        ("unknown", "UNKNOWN_PRESENT"): (2, 1, 6),
        (None, "PHANTOM"): (2, 0, 2),
    }


RECORDS = st.lists(
    st.tuples(st.sampled_from([None, *OUTCOMES]), st.integers(0, 3), st.integers(0, 1)), max_size=12
)
"""Of each record: outcome (`None`: never attempted), intact and corrupt copies."""


def unit_of(records: list[tuple[str | None, int, int]], first: int = 0) -> UnitArrays:
    """Return the arrays of records with the sequence numbers from `first` on."""
    numbered = list(enumerate(records, first))
    return planted_arrays(
        [PlantedAttempt(1, seq, outcome) for seq, (outcome, _, _) in numbered if outcome],
        log_of(
            *(
                (1, seq, intact)
                for seq, (_, copies, corrupt) in numbered
                for intact in (*[True] * copies, *[False] * corrupt)
            )
        ),
    )


@given(RECORDS)
def test_fates_add_up_to_the_attempts_and_copies_to_the_log(
    records: list[tuple[str | None, int, int]],
) -> None:
    """Every record has one fate, and every row of the log is one record's copy."""
    unit = unit_of(records)
    counts = counts_of(unit)
    assert sum(count.copies for count in counts.values()) == len(unit.log)
    assert sum(
        count.records for (outcome, _), count in counts.items() if outcome is not None
    ) == len(unit.attempts)


@given(RECORDS, st.integers(0, 12), st.integers(0, 12))
def test_fates_of_parts_merge_to_those_of_all_records(
    records: list[tuple[str | None, int, int]], one: int, other: int
) -> None:
    """In any order and association, wherever the sequence numbers are split."""
    first, second = sorted((min(one, len(records)), min(other, len(records))))
    parts = [
        counts_of(unit_of(records[begin:end], begin))
        for begin, end in ((0, first), (first, second), (second, len(records)))
    ]
    expected = counts_of(unit_of(records))
    a, b, c = (FateMeasure(part, 0) for part in parts)
    assert ((a + b) + c).counts == expected
    assert (c + (b + a)).counts == expected
