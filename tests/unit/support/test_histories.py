"""Random histories: equal by seed, played as described, and small after shrinking."""

import pytest
from support.builders.generated import generate_histories, shrink
from support.builders.histories import (
    Corrupt,
    Elect,
    OffsetGap,
    Operation,
    Poll,
    Resend,
    Seek,
    Send,
    Truncate,
    Wait,
    play,
)
from support.reference.results import plain_result


def test_equal_seeds_generate_equal_histories() -> None:
    """Other seeds generate other histories; the number is as requested."""
    one, same, other = (
        generate_histories(40, 1),
        generate_histories(40, 1),
        generate_histories(40, 2),
    )
    assert (len(one), one == same, one == other) == (40, True, False)


def test_a_truncated_log_uses_its_offsets_again() -> None:
    """Other records have them, in a new leader epoch."""
    trial = play((Send(0, 0, count=3), Truncate(0, 2), Send(1, 0)))
    assert [(row.producer, row.seq, row.offset, row.leader_epoch) for row in trial.log] == [
        (0, 0, 0, 0),
        (1, 0, 1, 1),
    ]


def test_a_late_record_is_appended_after_later_ones() -> None:
    """It is late by the given number of operations."""
    trial = play((Send(0, 0, late=2), Send(0, 0), Elect(0), Send(0, 0)))
    assert [row.seq for row in trial.log] == [1, 0, 2]


def test_a_consumer_seeks_back_and_ahead() -> None:
    """It skips an offset without a record, and stops at the end."""
    trial = play(
        (
            Send(0, 0, count=2),
            OffsetGap(0),
            Send(0, 0),
            Poll(0, 0, 2),
            Seek(0, 0, -1),
            Poll(0, 0, 9),
            Seek(0, 0, 9),
        )
    )
    assert [(row.offset, row.generation) for row in trial.reads] == [(0, 0), (1, 0), (1, 1), (3, 1)]


def test_a_consumer_ignores_the_id_of_a_corrupt_record() -> None:
    """Its intended time is ignored too."""
    (read,) = play((Send(0, 0), Corrupt(0, 0, keeps_id=True), Poll(0, 0, 1))).reads
    assert (read.producer, read.seq, read.intended_ns) == (None, None, None)


@pytest.mark.further
def test_a_failing_history_shrinks_to_the_operations_that_fail() -> None:
    """Those that cause a loss and a duplicate remain, in their simplest form."""
    noise: list[Operation] = [Wait(5), Send(1, 1, count=70), Poll(0, 1, 9)] * 9
    history = (
        *noise,
        Send(0, 2, count=5, copies=0, settle_us=999),
        *noise,
        Send(1, 0, count=70, settle_us=5_000),
        Resend(1, 0, 0),
    )
    small = shrink(
        history,
        lambda tried: [
            {"LOST", "DUPLICATED"} <= plain_result(play(one)).observed_fates for one in tried
        ],
    )
    assert small == (Send(1, 0), Send(0, 0, copies=0), Resend(1, 0, 0))
