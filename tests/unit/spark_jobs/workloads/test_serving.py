"""Serving brokers: planted leaders, and random ones against a count of every second."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from ackbench.experiments.ledger.schema import SERVED
from ackbench.spark_jobs.workloads.serving import (
    SLACK_NS,
    leader_spans,
    non_leader_ns,
    serving_rows,
)

S = 1_000_000_000
EVENTS = pa.Table.from_pylist(
    [
        {"at_ns": 10 * S, "kind": "leader", "node": 1, "partition": 0},
        {"at_ns": 20 * S, "kind": "leader", "node": None, "partition": 0},
        {"at_ns": 22 * S, "kind": "leader", "node": 2, "partition": 0},
        {"at_ns": 22 * S, "kind": "isr", "node": 3, "partition": 0},
    ]
)


def served(node: int, first_s: float, last_s: float, side: str = "consumer") -> dict[str, Any]:
    """Return a row of the ledger."""
    return {
        "side": side,
        "node": node,
        "partition": 0,
        "records": 5,
        "first_ns": round(first_s * S),
        "last_ns": round(last_s * S) - 1,
    }


def test_only_time_outside_a_leaders_span_counts() -> None:
    """The first observed leader counts before that, too; a span has the slack on both sides."""
    rows = [
        served(1, 5, 20.5),
        served(2, 22.1, 60),
        served(3, 12, 15),
        served(1, 5, 25),
        served(2, 10, 30),
    ]
    table = pa.Table.from_pylist(rows, SERVED)
    found = list(serving_rows(table, EVENTS))
    assert [row["non_leader_ns"] for row in found] == [0, 0, 3 * S, 4 * S, 11 * S]
    assert [{name: row[name] for name in SERVED.names} for row in found] == rows
    assert list(serving_rows(SERVED.empty_table(), EVENTS)) == []


@given(
    st.lists(st.tuples(st.integers(0, 40), st.sampled_from([None, 1, 2])), max_size=6),
    st.integers(0, 40),
    st.integers(0, 20),
)
def test_random_spans_are_measured_as_a_count_of_every_second(
    changes: list[tuple[int, int | None]], first_s: int, lasts_s: int
) -> None:
    """The reference asks for each second whether the node led then, or within the slack of it."""
    by_time = sorted(dict(changes).items())
    events = [
        {"at_ns": at * S, "kind": "leader", "node": node, "partition": 0} for at, node in by_time
    ]
    schema = EVENTS.schema
    leaders = leader_spans(pa.Table.from_pylist(events, schema=schema)).get(0, ())
    row = {"node": 1, "first_ns": first_s * S, "last_ns": (first_s + lasts_s) * S - 1}
    slack_s = SLACK_NS // S
    outside = sum(
        not any(_led(by_time, second + shift) for shift in range(-slack_s, slack_s + 1))
        for second in range(first_s, first_s + lasts_s)
    )
    assert non_leader_ns(row, leaders) == outside * S


def _led(changes: list[tuple[int, int | None]], second: int) -> bool:
    before = [node for at, node in changes if at <= second] or [node for _, node in changes[:1]]
    return bool(before) and before[-1] == 1
