"""Lesson 1: who served writes and reads."""

from __future__ import annotations

from typing import Any

from support.builders.trial_results import a_trial, material_of

from experiments.ledger.record import Cell
from experiments.lessons import Conclusion, Finding
from experiments.lessons.findings.leader_only import find


def _row(
    side: str, node: int, partition: int = 0, non_leader_ns: int = 0, records: int = 100
) -> dict[str, Any]:
    return {
        "side": side,
        "node": node,
        "partition": partition,
        "records": records,
        "first_ns": 0,
        "last_ns": 1,
        "non_leader_ns": non_leader_ns,
    }


def _counters(idle: int) -> list[dict[str, Any]]:
    """What brokers counted themselves; one of them served nobody."""
    counts = {1: 5000, idle: 0, 3: 7000}
    return [
        {"node": node, "name": name, "count": count}
        for node, count in counts.items()
        for name in ("BytesOutPerSec", "MessagesInPerSec")
    ]


def _found(
    repeats: int = 3,
    *,
    from_follower: bool = False,
    by_rack: int = 0,
    sides: tuple[str, ...] = ("producer", "consumer"),
) -> Finding:
    """Partition 0 moved from node 1 to node 3; a consumer with a rack read so many records from node 2."""
    cells: list[Cell] = [
        {"fault": "leader-crash", "consumer.client.rack": rack}
        for rack in (None, "rack-2")
        for _ in range(repeats)
    ]
    plain = [_row(side, node) for side in sides for node in (1, 3)]
    plain += [_row("consumer", 2, 1, non_leader_ns=5)] if from_follower else []
    racked = [
        _row("producer", 1),
        _row("consumer", 1),
        *([_row("consumer", 2, non_leader_ns=9, records=by_rack)] if by_rack else []),
    ]
    rows = {
        place: racked if cell["consumer.client.rack"] else plain for place, cell in enumerate(cells)
    }
    return find(
        material_of(
            [a_trial(cell) for cell in cells],
            {"serving": rows, "brokers": {place: _counters(2) for place in rows}},
        )
    )


def test_a_follower_that_serves_who_names_its_rack_bears_it_out_in_part() -> None:
    """Without a rack, nobody but the leader served."""
    finding = _found(by_rack=300)
    assert finding.conclusion is Conclusion.PARTLY_SUPPORTED
    assert (
        "In 3 trials, 600 records were written to the leader and 0 to a follower and 600 records were read from"
        in finding.sentence
    )
    assert "the leader and 0 from a follower." in finding.sentence
    assert (
        "By their own counters, the 3 brokers that no client named sent 0 bytes to consumers and took 0 records."
        in finding.sentence
    )
    assert "from one broker before and from another one after, in 3 of 3" in finding.sentence
    assert "read 75 % of its records from a follower in 3 trials" in finding.sentence


def test_the_leader_alone_lets_it_stand_and_an_unasked_follower_lets_it_fall() -> None:
    """However few its records are."""
    assert _found().conclusion is Conclusion.SUPPORTED
    assert _found(from_follower=True).conclusion is Conclusion.REFUTED


def test_without_trials_or_without_reads_it_is_open() -> None:
    """Nothing is said of a side that nobody tells of."""
    assert _found(repeats=2).conclusion is Conclusion.INCONCLUSIVE
    assert _found(sides=("producer",)).conclusion is Conclusion.INCONCLUSIVE
