"""Faults of transactions: whom they are for, which coordinator decides, and when the last stable offset is said to stand still."""

from collections.abc import Callable, Iterator

import pytest
from support.fakes.cluster import MemoryCluster

from experiments.events.clock import now_ns
from experiments.events.journal import Journal
from experiments.faults import FAULTS, FaultContext
from experiments.faults.core.effects import Topology
from experiments.faults.transactions import KINDS, producers
from experiments.faults.transactions.coordinator import state_partition_number
from experiments.faults.transactions.producers import StuckOffset, advanced, wait_for_stuck_offset

PLAIN = Topology(nodes=3, partitions=1, replication_factor=3)
TRANSACTIONAL = PLAIN.model_copy(update={"transactional": True})
Offsets = Iterator[tuple[int, int]]


@pytest.mark.parametrize("kind", [kind.kind for kind in KINDS])
def test_without_transactions_there_is_nothing_to_strike(kind: str) -> None:
    """Refused at planning, with what would be right."""
    parameters = FAULTS[kind].parameters()
    assert (
        parameters.impossible_reason(PLAIN)
        == "workload.transaction_records is 0; allowed: producers that send in transactions"
    )
    assert parameters.impossible_reason(TRANSACTIONAL) is None


@pytest.mark.parametrize("kind", ["producer-fenced", "transaction-abandoned"])
def test_a_producer_that_ends_for_good_takes_no_order_with_it(kind: str) -> None:
    """Nobody goes on in its place, so no second session begins; only its last transaction is decided on without it."""
    effects = FAULTS[kind].effects_of({}, TRANSACTIONAL)
    assert (
        effects.ends_transactional_producer,
        effects.restarts_producer,
        effects.may_affect_leader,
    ) == (
        True,
        False,
        False,
    )


@pytest.mark.parametrize(
    ("transactional_id", "hash_code"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99_162_322),
        ("ackbench-trial-000-c8f0bb-0", None),
        ("polygenelubricants", -(2**31)),
    ],
)
def test_an_id_belongs_to_the_partition_that_javas_hash_says(
    transactional_id: str, hash_code: int | None
) -> None:
    """`String.hashCode`, its sign bit dropped: also of the one that has no positive counterpart."""
    code = state_partition_number(transactional_id, 2**31)
    assert 0 <= state_partition_number(transactional_id, 50) < 50
    assert hash_code is None or code == hash_code & 0x7FFF_FFFF


@pytest.fixture
def offsets(monkeypatch: pytest.MonkeyPatch) -> Callable[[Offsets], None]:
    """Let the leader answer with these pairs of last stable offset and high watermark, the last of them for ever."""

    def answer_with(pairs: Offsets) -> None:
        now: list[tuple[int, int]] = []

        def end_offsets(
            _servers: str, _topic: str, *, read_committed: bool = False
        ) -> dict[int, int]:
            if read_committed:
                now[:] = [next(pairs, now[0] if now else (0, 0))]
            return {0: now[0][0 if read_committed else 1]}

        monkeypatch.setattr("experiments.clients.librdkafka.topics.end_offsets", end_offsets)
        monkeypatch.setattr(producers, "STANDS_S", 0.2)
        monkeypatch.setattr(producers, "FOUND_WITHIN_S", 0.6)

    return answer_with


@pytest.fixture
def context() -> FaultContext:
    """One that struck."""
    made = FaultContext(MemoryCluster(), "trial", now_ns(), Journal(), client_timeout_s=1)
    made.begins_ns.append(now_ns())
    return made


def test_an_offset_that_stays_behind_the_high_watermark_stands_still(
    context: FaultContext, offsets: Callable[[Offsets], None]
) -> None:
    """However far the watermark goes on meanwhile."""
    offsets(iter([(5, 9), (7, 12), *((7, 12 + more) for more in range(100))]))
    found = wait_for_stuck_offset(context)
    assert found is not None
    assert (
        found.stable_offset,
        [event.offset for event in context.journal.events("last_stable_offset_stuck")],
    ) == (7, [7])


def test_offsets_that_go_on_stand_nowhere(
    context: FaultContext, offsets: Callable[[Offsets], None]
) -> None:
    """Transactions are open all the time under load, and end."""
    offsets(iter([(at, at + 5) for at in range(1000)]))
    assert wait_for_stuck_offset(context) is None
    assert "never stood still" in context.evidence[-1]


def test_an_offset_at_the_high_watermark_waits_for_nothing(
    context: FaultContext, offsets: Callable[[Offsets], None]
) -> None:
    """With no transaction open and no load both stay where they are."""
    offsets(iter([(9, 9)]))
    assert wait_for_stuck_offset(context) is None


def test_it_is_said_how_long_it_stood_once_it_moves_on(
    context: FaultContext, offsets: Callable[[Offsets], None]
) -> None:
    """And how much of the log came after it meanwhile."""
    was = StuckOffset(7, 12, now_ns())
    offsets(iter([(7, 40), (41, 50)]))
    assert advanced(context, was) is None
    assert str(advanced(context, was)).endswith("when the log had gone on for 43 offsets behind it")
    assert [event.offset for event in context.journal.events("last_stable_offset_advanced")] == [41]


def test_a_moment_in_which_nobody_answers_says_nothing_of_where_it_stands(
    context: FaultContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine a question is given up now and then; the offset stood still all the same."""
    answers = iter(
        [
            None,
            StuckOffset(7, 12, 0),
            None,
            StuckOffset(7, 13, 10**9),
            None,
            StuckOffset(7, 14, 2 * 10**9),
        ]
    )
    monkeypatch.setattr(producers, "_look", lambda _scene: next(answers))
    found = wait_for_stuck_offset(context)
    assert found is not None
    assert found.stable_offset == 7
