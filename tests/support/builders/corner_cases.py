"""Short histories of corner cases that random histories rarely contain.

Some mistakes in the Spark job give wrong results only here.
"""

from __future__ import annotations

from support.builders.histories import (
    BeginTransaction,
    ConsumerEnds,
    Corrupt,
    Elect,
    EndTransaction,
    FaultBegins,
    FaultEnds,
    History,
    Phantom,
    Poll,
    Resend,
    Seek,
    Send,
    Truncate,
    Wait,
)

CORNER_CASES: tuple[History, ...] = (
    # order
    (Send(0, 0, late=1), Send(0, 0)),
    (Send(0, 0, late=2), Send(0, 0), Wait(1), Resend(0, 0, 0)),
    (Send(0, 0, count=3), Resend(0, 2, 0)),
    (Send(0, 0, count=3), Resend(0, 2, 0), Resend(0, 2, 0)),
    (Send(0, 0, late=3), Send(0, 1), Resend(0, 1, 1), Send(0, 0)),
    (Send(0, 0, late=4, copies=0), Send(0, 0), Resend(0, 1, 0), Send(0, 1), Resend(0, 2, 1)),
    (Send(0, 0, late=1), Send(1, 0), Send(0, 0)),
    (Send(0, 0, late=2), Send(0, 0), Wait(1), Send(0, 1, count=2), Resend(0, 3, 1)),
    (Send(0, 0, count=2), Corrupt(0, 0, keeps_id=True), Resend(0, 1, 0)),
    (Send(0, 0, copies=0), Send(0, 0), Resend(0, 1, 0), Corrupt(0, 0, keeps_id=True)),
    (Send(0, 0, copies=0), Send(0, 0), Corrupt(0, 0, keeps_id=True), Resend(0, 1, 0)),
    (Send(0, 0, copies=0), Phantom(0, 0, 9_999), Resend(0, 0, 0)),
    (Send(0, 0, count=70, late=2), Send(0, 0, count=70)),
    # copies: within a block and beyond it, of every outcome, and of records never attempted
    *(
        (Send(0, 0, outcome, count=66, copies=copies), Resend(0, 1, 0))
        for outcome in ("acked", "rejected", "unknown")
        for copies in (0, 1, 2)
    ),
    (Send(0, 0, count=2), Resend(0, 1, 1)),
    (Send(0, 0, copies=2), Resend(0, 0, 1)),
    (
        Phantom(0, 0, 9_999),
        Phantom(0, 0, 9_999),
        Phantom(1, 9, 10_000),
        Phantom(0, None, None),
        Phantom(0, None, None),
    ),
    (Send(0, 0, copies=3), Corrupt(0, 0, keeps_id=True), Corrupt(0, 1, keeps_id=False)),
    (Send(0, 0, copies=3), Corrupt(0, 1, keeps_id=True)),
    (Send(0, 0), Corrupt(0, 0, keeps_id=True), Send(1, 0), Corrupt(0, 0, keeps_id=False)),
    # a truncated log whose offsets are used again
    (Send(0, 0, count=5), Truncate(0, 3), Send(1, 0, count=2)),
    (
        Send(0, 0, count=5),
        Poll(0, 0, 9),
        Truncate(0, 3),
        Send(1, 0, count=3),
        Seek(0, 0, -9),
        Poll(0, 0, 9),
        ConsumerEnds(at_end=True),
    ),
    (Send(0, 0, "unknown", count=3, settle_us=None), Truncate(0, 1), Elect(0), Send(0, 0)),
    # transactions: each outcome, completely, partly and not visible; several copies, rejected
    # records, ids beyond a block, and two producers
    *(
        (
            BeginTransaction(0),
            Send(0, 0, count=70),
            Send(0, 0, "rejected", copies=0),
            Send(0, 0, copies=2),
            EndTransaction(0, end, shown),
            Send(0, 0),
            ConsumerEnds(at_end=True),
        )
        for end in ("committed", "aborted", "unknown", "fenced", "abandoned")
        for shown in ("all", "some", "none")
    ),
    (
        BeginTransaction(0),
        Send(0, 0, "unknown"),
        Send(0, 0, "rejected"),
        BeginTransaction(1),
        Send(1, 0),
        EndTransaction(0, "aborted", "all"),
        Send(0, 0),
        EndTransaction(1, "committed", "none"),
    ),
    (
        BeginTransaction(0),
        Send(0, 0),
        EndTransaction(0, "committed", "all"),
        BeginTransaction(0),
        Send(0, 0),
        Resend(0, 1, 0),
        Poll(0, 0, 9),
        ConsumerEnds(at_end=True),
    ),
    (
        BeginTransaction(0),
        Send(0, 0),
        Send(0, 0, "rejected", copies=0),
        EndTransaction(0, "committed", "all"),
        BeginTransaction(1),
        EndTransaction(1, "aborted", "none"),
    ),
    (
        BeginTransaction(0),
        Send(0, 0, late=2),
        Send(0, 0),
        EndTransaction(0, "aborted", "none"),
        Send(0, 0),
        Corrupt(0, 0, keeps_id=True),
    ),
    # reading
    (Send(0, 0, count=4), Poll(0, 0, 2), Seek(0, 0, 1), Poll(0, 0, 9), ConsumerEnds(at_end=True)),
    (Send(0, 0, count=4), Poll(0, 0, 2), Seek(0, 0, 1), Poll(0, 0, 9), ConsumerEnds(at_end=False)),
    (Send(0, 0, count=4), Poll(0, 0, 4), ConsumerEnds(at_end=True), ConsumerEnds(at_end=False)),
    (Send(0, 0, count=4), ConsumerEnds(at_end=True)),
    (Send(0, 0, count=2), Corrupt(0, 0, keeps_id=True), Poll(0, 0, 9), ConsumerEnds(at_end=True)),
    (ConsumerEnds(at_end=True),),
    (Send(0, 0, count=4), Poll(0, 0, 4), Poll(1, 0, 4), Seek(0, 0, -2), Wait(40), Poll(0, 0, 4)),
    (
        Phantom(0, None, None),
        Phantom(0, None, None),
        Poll(0, 0, 4),
        Seek(0, 0, -1),
        Poll(0, 0, 4),
        ConsumerEnds(at_end=True),
    ),
    (Phantom(0, 9, 9_999), Poll(0, 0, 4), Phantom(0, 0, 9_999), ConsumerEnds(at_end=True)),
    (Send(0, 0, count=70), Poll(0, 0, 70), Seek(0, 0, -1), Poll(0, 0, 2)),
    (Send(0, 0, copies=2), Wait(40), Poll(0, 0, 1), Wait(40), Poll(0, 0, 1)),
    # times
    (FaultBegins(), Send(0, 0), FaultEnds(), Send(0, 0)),
    (
        Send(0, 0),
        FaultBegins(),
        Send(0, 0, settle_us=None, outcome="unknown"),
        Wait(250),
        Send(0, 1),
    ),
    (Send(0, 0), Wait(250), Send(0, 0), Wait(250), Send(0, 0), Wait(40), Send(0, 0)),
    (Send(0, 0, settle_us=2_000_000), Send(0, 0, settle_us=-2_500), Wait(100), Send(0, 0)),
    (
        Send(0, 0, "rejected", copies=0),
        Wait(100),
        Send(0, 0),
        Wait(100),
        Send(0, 0, "unknown", copies=0, settle_us=None),
    ),
    (Send(0, None, "unknown", settle_us=None), Send(0, None, "rejected", settle_us=9_000)),
    (Send(0, 0, settle_us=0, count=3), Send(0, 0, settle_us=-1), Send(0, 0, settle_us=130_000)),
    *(
        (Send(0, 0, settle_us=us), Send(0, 0, settle_us=-us))
        for us in (1, 127, 128, 255, 256, 257, 511, 512, 513, 1_023, 1_024, 65_535, 70_001, 10**9)
    ),
    (
        Send(0, 0, count=64),
        Wait(100),
        Send(0, 0, count=64, settle_us=5_000),
        Wait(100),
        Send(0, 0, count=3, settle_us=999),
    ),
    (Send(0, 0, count=700, settle_us=500), Send(0, 0, count=1, settle_us=90_000)),
    (Send(0, 0, count=9), Send(0, 0, count=1, settle_us=90_000)),
)
