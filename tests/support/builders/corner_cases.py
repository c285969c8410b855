"""Short histories for corners that chance seldom finds: what a mistake in one place of the job gets wrong, and only here."""

from __future__ import annotations

from support.builders.histories import (
    Begin,
    Corrupt,
    Elect,
    End,
    FaultBegins,
    FaultEnds,
    History,
    Poll,
    ReaderEnds,
    Resend,
    Seek,
    Send,
    Stranger,
    Truncate,
    Wait,
)

CORNERS: tuple[History, ...] = (
    # order
    (Send(0, 0, late=1), Send(0, 0)),
    (Send(0, 0, late=2), Send(0, 0), Wait(1), Resend(0, 0, 0)),
    (Send(0, 0, count=3), Resend(0, 2, 0)),
    (Send(0, 0, count=3), Resend(0, 2, 0), Resend(0, 2, 0)),
    (Send(0, 0, late=3), Send(0, 1), Resend(0, 1, 1), Send(0, 0)),
    (Send(0, 0, late=4, copies=0), Send(0, 0), Resend(0, 1, 0), Send(0, 1), Resend(0, 2, 1)),
    (Send(0, 0, late=1), Send(1, 0), Send(0, 0)),
    (Send(0, 0, late=2), Send(0, 0), Wait(1), Send(0, 1, count=2), Resend(0, 3, 1)),
    (Send(0, 0, count=2), Corrupt(0, 0, named=True), Resend(0, 1, 0)),
    (Send(0, 0, copies=0), Send(0, 0), Resend(0, 1, 0), Corrupt(0, 0, named=True)),
    (Send(0, 0, copies=0), Send(0, 0), Corrupt(0, 0, named=True), Resend(0, 1, 0)),
    (Send(0, 0, copies=0), Stranger(0, 0, 9_999), Resend(0, 0, 0)),
    (Send(0, 0, count=70, late=2), Send(0, 0, count=70)),
    # copies: in one block and over its edge, of every outcome, and of what nobody attempted
    *(
        (Send(0, 0, outcome, count=66, copies=copies), Resend(0, 1, 0))
        for outcome in ("acked", "rejected", "unknown")
        for copies in (0, 1, 2)
    ),
    (Send(0, 0, count=2), Resend(0, 1, 1)),
    (Send(0, 0, copies=2), Resend(0, 0, 1)),
    (
        Stranger(0, 0, 9_999),
        Stranger(0, 0, 9_999),
        Stranger(1, 9, 10_000),
        Stranger(0, None, None),
        Stranger(0, None, None),
    ),
    (Send(0, 0, copies=3), Corrupt(0, 0, named=True), Corrupt(0, 1, named=False)),
    (Send(0, 0, copies=3), Corrupt(0, 1, named=True)),
    (Send(0, 0), Corrupt(0, 0, named=True), Send(1, 0), Corrupt(0, 0, named=False)),
    # a cut log whose offsets are used again
    (Send(0, 0, count=5), Truncate(0, 3), Send(1, 0, count=2)),
    (
        Send(0, 0, count=5),
        Poll(0, 0, 9),
        Truncate(0, 3),
        Send(1, 0, count=3),
        Seek(0, 0, -9),
        Poll(0, 0, 9),
        ReaderEnds(at_end=True),
    ),
    (Send(0, 0, "unknown", count=3, settle_us=None), Truncate(0, 1), Elect(0), Send(0, 0)),
    # transactions: each end, shown whole, in part and not at all; several copies, refused ones, ids over the edge of a block, and two producers
    *(
        (
            Begin(0),
            Send(0, 0, count=70),
            Send(0, 0, "rejected", copies=0),
            Send(0, 0, copies=2),
            End(0, end, shown),
            Send(0, 0),
            ReaderEnds(at_end=True),
        )
        for end in ("committed", "aborted", "unknown", "fenced", "abandoned")
        for shown in ("all", "some", "none")
    ),
    (
        Begin(0),
        Send(0, 0, "unknown"),
        Send(0, 0, "rejected"),
        Begin(1),
        Send(1, 0),
        End(0, "aborted", "all"),
        Send(0, 0),
        End(1, "committed", "none"),
    ),
    (
        Begin(0),
        Send(0, 0),
        End(0, "committed", "all"),
        Begin(0),
        Send(0, 0),
        Resend(0, 1, 0),
        Poll(0, 0, 9),
        ReaderEnds(at_end=True),
    ),
    (
        Begin(0),
        Send(0, 0),
        Send(0, 0, "rejected", copies=0),
        End(0, "committed", "all"),
        Begin(1),
        End(1, "aborted", "none"),
    ),
    (
        Begin(0),
        Send(0, 0, late=2),
        Send(0, 0),
        End(0, "aborted", "none"),
        Send(0, 0),
        Corrupt(0, 0, named=True),
    ),
    # reading
    (Send(0, 0, count=4), Poll(0, 0, 2), Seek(0, 0, 1), Poll(0, 0, 9), ReaderEnds(at_end=True)),
    (Send(0, 0, count=4), Poll(0, 0, 2), Seek(0, 0, 1), Poll(0, 0, 9), ReaderEnds(at_end=False)),
    (Send(0, 0, count=4), Poll(0, 0, 4), ReaderEnds(at_end=True), ReaderEnds(at_end=False)),
    (Send(0, 0, count=4), ReaderEnds(at_end=True)),
    (Send(0, 0, count=2), Corrupt(0, 0, named=True), Poll(0, 0, 9), ReaderEnds(at_end=True)),
    (ReaderEnds(at_end=True),),
    (Send(0, 0, count=4), Poll(0, 0, 4), Poll(1, 0, 4), Seek(0, 0, -2), Wait(40), Poll(0, 0, 4)),
    (
        Stranger(0, None, None),
        Stranger(0, None, None),
        Poll(0, 0, 4),
        Seek(0, 0, -1),
        Poll(0, 0, 4),
        ReaderEnds(at_end=True),
    ),
    (Stranger(0, 9, 9_999), Poll(0, 0, 4), Stranger(0, 0, 9_999), ReaderEnds(at_end=True)),
    (Send(0, 0, count=70), Poll(0, 0, 70), Seek(0, 0, -1), Poll(0, 0, 2)),
    (Send(0, 0, copies=2), Wait(40), Poll(0, 0, 1), Wait(40), Poll(0, 0, 1)),
    # when
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
