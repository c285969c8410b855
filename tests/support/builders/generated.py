"""Random histories, and how to shrink one that fails.

Hypothesis generates them and does not shrink, because each of its hundreds of attempts would be a
Spark job. `shrink` tests all ways to leave out a part of the history in one job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from support.builders.histories import (
    BeginTransaction,
    ConsumerEnds,
    Corrupt,
    Elect,
    EndTransaction,
    FaultBegins,
    FaultEnds,
    History,
    OffsetGap,
    Operation,
    Phantom,
    Poll,
    Resend,
    Seek,
    Send,
    Stalls,
    StallsSampled,
    Transaction,
    Truncate,
    Wait,
)

FailureCheck = Callable[[Sequence[History]], Sequence[bool]]
"""Returns which of some histories fail."""

_producers, _partitions, _consumers = (
    st.sampled_from([0, 0, 1]),
    st.sampled_from([0, 0, 1, 2]),
    st.sampled_from([0, 0, 1]),
)
_few = st.integers(0, 4)
_counts = st.sampled_from([1, 1, 1, 1, 2, 3, 5, 64, 70])
"""More than 64 records are more than a block."""

SENDS: st.SearchStrategy[Operation] = st.builds(
    Send,
    producer=_producers,
    partition=_partitions,
    outcome=st.sampled_from(["acked", "acked", "acked", "rejected", "unknown"]),
    count=_counts,
    copies=st.sampled_from([0, 1, 1, 1, 2, 3]),
    late=st.sampled_from([0, 0, 1, 3]),
    settle_us=st.sampled_from([None, -2500, 0, 999, 1000, 5000, 130_000, 2_000_000]),
    reports_offsets=st.booleans(),
)
NEVER_SENT: st.SearchStrategy[Operation] = st.builds(
    Send,
    producer=_producers,
    partition=st.none(),
    outcome=st.sampled_from(["rejected", "unknown"]),
    settle_us=st.sampled_from([None, 9000]),
)
_endings = st.sampled_from(
    ["committed", "committed", "committed", "aborted", "unknown", "fenced", "abandoned"]
)
_visibility = st.sampled_from(["all", "all", "none", "some"])
_processes = st.sampled_from(
    ["producer 0", "producer 1", "consumer 0", "machine", "relay", "node 1", "node 2"]
)


def _transaction(sends: list[Operation], producer: int, outcome: str, shown: str) -> Operation:
    return Transaction(
        tuple(sends), BeginTransaction(producer), EndTransaction(producer, outcome, shown)
    )


TRANSACTIONS: st.SearchStrategy[Operation] = st.builds(
    _transaction, st.lists(SENDS, min_size=1, max_size=3), _producers, _endings, _visibility
)
OPERATIONS: st.SearchStrategy[Operation] = st.one_of(
    SENDS,
    SENDS,
    SENDS,
    SENDS,
    SENDS,
    NEVER_SENT,
    st.builds(Resend, _producers, _few, _partitions),
    st.builds(Truncate, _partitions, st.sampled_from([1, 2, 5, 70])),
    st.builds(Elect, _partitions),
    st.builds(Corrupt, _partitions, _few, st.booleans()),
    st.builds(Phantom, _partitions, st.none(), st.none()),
    st.builds(Phantom, _partitions, st.sampled_from([0, 9]), st.sampled_from([9_999, 10_000])),
    st.builds(OffsetGap, _partitions),
    st.builds(Poll, _consumers, _partitions, st.sampled_from([1, 2, 10, 200])),
    st.builds(Poll, _consumers, _partitions, st.just(400)),
    st.builds(Poll, _consumers, _partitions, st.just(400)),
    st.builds(Seek, _consumers, _partitions, st.sampled_from([-70, -2, -1, 1, 3])),
    st.builds(Wait, st.sampled_from([1, 40, 100, 250, 1000])),
    st.builds(
        Stalls, _processes, st.sampled_from([0, 1, 70, 1200]), st.sampled_from([0, 30, 1000])
    ),
    st.builds(
        StallsSampled,
        st.dictionaries(_processes, st.integers(0, 10**10)).map(lambda taken: tuple(taken.items())),
    ),
    st.builds(FaultBegins),
    st.builds(FaultEnds),
    st.builds(ConsumerEnds, st.booleans()),
    st.builds(BeginTransaction, _producers),
    st.builds(EndTransaction, _producers, _endings, _visibility),
    TRANSACTIONS,
    TRANSACTIONS,
)
HISTORIES = st.one_of(
    st.lists(OPERATIONS, min_size=1, max_size=8), st.lists(OPERATIONS, min_size=16, max_size=48)
)


def generate_histories(count: int, of_seed: int) -> list[History]:
    """Return this many random histories; equal seeds give equal histories."""
    generated: list[History] = []

    @settings(
        max_examples=count,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @seed(of_seed)
    @given(HISTORIES)
    def collect(history: list[Operation]) -> None:
        generated.append(tuple(history))

    collect()
    return generated


def shrink(history: History, fails: FailureCheck) -> History:
    """Return a minimal history that fails; every round is one call of `fails`.

    Args:
        history: a failing history.
        fails: returns which histories fail.
    """
    candidates = list(_smaller(history))
    if not candidates:
        return history
    failing = (
        candidate
        for candidate, fails_too in zip(candidates, fails(candidates), strict=True)
        if fails_too
    )
    smaller = next(failing, None)
    return history if smaller is None else shrink(smaller, fails)


def _smaller(history: History) -> Iterator[History]:
    """Yield smaller histories, the smallest first.

    First without halves, quarters and so on; then with one operation simplified.
    """
    length = len(history) // 2
    while length:
        yield from (
            (*history[:begin], *history[begin + length :])
            for begin in range(0, len(history), length)
        )
        length //= 2
    for index, operation in enumerate(history):
        yield from (
            (*history[:index], simpler, *history[index + 1 :]) for simpler in _simpler(operation)
        )


def _simpler(operation: Operation) -> Iterator[Operation]:
    """Yield simpler versions of a `Send`: with a default value, or with fewer records."""
    if isinstance(operation, Send):
        plain: dict[str, Any] = {
            "producer": 0,
            "partition": 0,
            "count": 1,
            "copies": 1,
            "late": 0,
            "settle_us": 1000,
            "reports_offsets": True,
        }
        yield from (
            replace(operation, **{name: value})
            for name, value in plain.items()
            if getattr(operation, name) != value
        )
        yield from (
            replace(operation, count=count)
            for count in (operation.count // 2, operation.count - 1)
            if count
        )
