"""Lesson 1: which brokers serve writes and reads."""

from __future__ import annotations

from typing import Any

from support.builders.findings import a_trial, finding_input_of_trials
from support.golden_files import Says

from ackbench.experiments.ledger.trial_manifest import Cell
from ackbench.experiments.results.lessons.finding import Conclusion, Finding
from ackbench.experiments.results.lessons.of_sweep import load_finding

find = load_finding("leader_only")


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
    """Return the brokers' own counters; one broker served no client."""
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
    """Return the finding for a partition whose leader moved from node 1 to node 3.

    Args:
        repeats: trials per cell.
        from_follower: whether a consumer without a rack read from a follower.
        by_rack: records that a consumer with a rack read from node 2, a follower.
        sides: the clients whose records were counted.
    """
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
        finding_input_of_trials(
            [a_trial(cell) for cell in cells],
            {"serving": rows, "brokers": {place: _counters(2) for place in rows}},
        )
    )


def test_a_follower_that_serves_a_rack_supports_the_claim_in_part(says: Says) -> None:
    """Consumers without client.rack are served by the leader only."""
    finding = _found(by_rack=300)
    assert finding.conclusion is Conclusion.PARTLY_SUPPORTED
    says(finding.sentence)


def test_only_the_leader_supports_the_claim_and_a_follower_without_rack_refutes_it() -> None:
    """One partition of the follower is enough."""
    assert _found().conclusion is Conclusion.SUPPORTED
    assert _found(from_follower=True).conclusion is Conclusion.REFUTED


def test_two_trials_or_no_reads_are_inconclusive() -> None:
    """Both producers and consumers must be counted."""
    assert _found(repeats=2).conclusion is Conclusion.INCONCLUSIVE
    assert _found(sides=("producer",)).conclusion is Conclusion.INCONCLUSIVE
