"""Generated histories are what they say they are: equal by seed, played as they happened, and small when they fail."""

from support.builders.generated import histories, shrunk
from support.builders.histories import (
    Corrupt,
    Elect,
    Hole,
    Operation,
    Poll,
    Resend,
    Seek,
    Send,
    Truncate,
    Wait,
    played,
)
from support.reference.results import plain


def test_equal_seeds_generate_equal_histories() -> None:
    """And other seeds others; as many as were asked for."""
    one, same, other = histories(40, 1), histories(40, 1), histories(40, 2)
    assert (len(one), one == same, one == other) == (40, True, False)


def test_a_truncated_log_uses_its_offsets_again() -> None:
    """By other records, in a new leader epoch."""
    trial = played((Send(0, 0, count=3), Truncate(0, 2), Send(1, 0)))
    assert [(row.producer, row.seq, row.offset, row.leader_epoch) for row in trial.log] == [
        (0, 0, 0, 0),
        (1, 0, 1, 1),
    ]


def test_a_late_record_lands_behind_those_sent_after_it() -> None:
    """As many operations later as it says."""
    trial = played((Send(0, 0, late=2), Send(0, 0), Elect(0), Send(0, 0)))
    assert [row.seq for row in trial.log] == [1, 0, 2]


def test_a_reader_goes_back_and_ahead() -> None:
    """Over a hole, which nobody receives, and to the end at most."""
    trial = played(
        (
            Send(0, 0, count=2),
            Hole(0),
            Send(0, 0),
            Poll(0, 0, 2),
            Seek(0, 0, -1),
            Poll(0, 0, 9),
            Seek(0, 0, 9),
        )
    )
    assert [(row.offset, row.generation) for row in trial.reads] == [(0, 0), (1, 0), (1, 1), (3, 1)]


def test_what_is_corrupt_is_not_believed_by_a_reader() -> None:
    """Neither its id nor its time."""
    (read,) = played((Send(0, 0), Corrupt(0, 0, named=True), Poll(0, 0, 1))).reads
    assert (read.producer, read.seq, read.intended_ns) == (None, None, None)


def test_a_failing_history_shrinks_to_what_fails_in_it() -> None:
    """Of thirty operations, those that make a loss and a copy are left, as plain as can be."""
    noise: list[Operation] = [Wait(5), Send(1, 1, count=70), Poll(0, 1, 9)] * 9
    history = (
        *noise,
        Send(0, 2, count=5, copies=0, settle_us=999),
        *noise,
        Send(1, 0, count=70, settle_us=5_000),
        Resend(1, 0, 0),
    )
    small = shrunk(
        history, lambda tried: [{"LOST", "DUPLICATED"} <= plain(played(one)).seen for one in tried]
    )
    assert small == (Send(1, 0), Send(0, 0, copies=0), Resend(1, 0, 0))
