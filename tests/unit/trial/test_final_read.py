"""Which records of a log are visible to a read_committed consumer."""

import pyarrow as pa

from experiments.ledger.schema import LOG
from experiments.trial.final_read import FinalRead, with_visibility


def log(*positions: tuple[int, int]) -> pa.Table:
    """Return a log with records at these partitions and offsets."""
    row = {
        "producer": 0,
        "seq": 0,
        "timestamp_ms": 0,
        "intact": True,
        "leader_epoch": 0,
        "visible": True,
    }
    return pa.Table.from_pylist(
        [{"partition": partition, "offset": offset, **row} for partition, offset in positions],
        schema=LOG,
    )


def test_a_record_is_visible_if_the_read_committed_read_has_it() -> None:
    """The same offset of another partition is another record."""
    table = with_visibility(log((0, 1), (0, 2), (1, 1), (1, 2)), log((0, 2), (1, 1)))
    assert table["visible"].to_pylist() == [False, True, True, False]
    assert table.schema.equals(LOG)


def test_no_record_is_visible_if_the_read_committed_read_is_empty() -> None:
    """So it is if the first transaction hangs."""
    assert with_visibility(log((0, 1)), log())["visible"].to_pylist() == [False]


def test_a_consumer_that_reports_records_reads_to_the_last_visible_one() -> None:
    """Behind it are records of aborted transactions, and markers, which it never returns."""
    table = with_visibility(log((0, 1), (0, 2), (0, 7), (1, 3)), log((0, 1), (0, 2)))
    ends = {0: 9, 1: 5, 2: 0}
    assert FinalRead(table, ends, ends).end_of_visible_records() == {0: 3, 1: 0, 2: 0}
