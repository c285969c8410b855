"""Up to where a log is read, and which of its records a read_committed consumer can see."""

from collections.abc import Mapping

import pyarrow as pa
import pytest
from support.fakes.cluster import MemoryCluster

from ackbench.experiments.ledger.schema import ATTEMPTS, LOG
from ackbench.experiments.trial.clients.librdkafka import topics
from ackbench.experiments.trial.final_read import (
    FinalRead,
    FinalReader,
    acknowledged_in,
    with_visibility,
)


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


def attempts(*acked: tuple[int, int | None]) -> pa.Table:
    """Return attempts acknowledged at these partitions and offsets, and one that failed."""
    row = {"producer": 0, "key": None, "intended_ns": 0, "sent_ns": 0, "settled_ns": 1}
    sent = [(*one, "acked") for one in acked] + [(0, None, "failed")]
    return pa.Table.from_pylist(
        [
            {
                **row,
                "seq": seq,
                "error": 0,
                "partition": partition,
                "offset": offset,
                "outcome": how,
            }
            for seq, (partition, offset, how) in enumerate(sent)
        ],
        schema=ATTEMPTS,
    )


class ElsewhereCluster(MemoryCluster):
    """A cluster whose brokers return high watermarks only, and whose followers may lag 0.4 s."""

    log_ends_are_known = False
    broker_settings: Mapping[str, str] = {"replica.lag.time.max.ms": "400"}


@pytest.fixture
def high_watermarks(monkeypatch: pytest.MonkeyPatch) -> list[dict[int, int]]:
    """Return what the brokers answer, one request after the other; the last one repeats."""
    answers: list[dict[int, int]] = []
    monkeypatch.setattr(
        topics, "end_offsets", lambda *_: answers.pop(0) if len(answers) > 1 else answers[0]
    )
    return answers


def read_up_to(*acked: tuple[int, int | None]) -> dict[int, int]:
    """Return up to where an external cluster's topic is read, with these acknowledgements."""
    return FinalReader(
        ElsewhereCluster(), "trial", 0, {}, acknowledged=lambda: acknowledged_in(attempts(*acked))
    ).wait_until_readable()


def test_on_an_external_cluster_the_read_ends_behind_all_that_was_acknowledged(
    high_watermarks: list[dict[int, int]],
) -> None:
    """With acks=1 a follower need not have the last records yet: they are not lost."""
    high_watermarks += [{0: 5, 1: 9}, {0: 5, 1: 10}, {0: 12, 1: 10}]
    assert read_up_to((0, 3), (0, 11), (1, 9)) == {0: 12, 1: 10}


def test_with_acks_0_the_read_ends_behind_as_many_records_as_were_acknowledged(
    high_watermarks: list[dict[int, int]],
) -> None:
    """Their offsets are not known."""
    high_watermarks += [{0: 1, 1: 1}, {0: 1, 1: 2}]
    assert read_up_to((0, None), (1, None), (1, None)) == {0: 1, 1: 2}


def test_what_no_follower_can_still_have_is_not_waited_for(
    high_watermarks: list[dict[int, int]],
) -> None:
    """An acknowledged record that was truncated is behind the end for good: it is lost."""
    high_watermarks += [{0: 5}]
    assert read_up_to((0, 11)) == {0: 5}
