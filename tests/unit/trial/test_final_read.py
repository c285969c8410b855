"""What the log holds against what a read_committed consumer is shown of it."""

import pyarrow as pa

from experiments.ledger.schema import LOG
from experiments.trial.final_read import with_visibility


def log(*places: tuple[int, int]) -> pa.Table:
    """Records at these partitions and offsets."""
    row = {
        "producer": 0,
        "seq": 0,
        "timestamp_ms": 0,
        "intact": True,
        "leader_epoch": 0,
        "visible": True,
    }
    return pa.Table.from_pylist(
        [{"partition": partition, "offset": offset, **row} for partition, offset in places],
        schema=LOG,
    )


def test_a_record_is_visible_where_the_other_read_has_it() -> None:
    """By partition and offset: the same offset of another partition is another record."""
    marked = with_visibility(log((0, 1), (0, 2), (1, 1), (1, 2)), log((0, 2), (1, 1)))
    assert marked["visible"].to_pylist() == [False, True, True, False]
    assert marked.schema.equals(LOG)


def test_of_a_log_of_which_nothing_is_shown_nothing_is_visible() -> None:
    """As when its first transaction hangs."""
    assert with_visibility(log((0, 1)), log())["visible"].to_pylist() == [False]
