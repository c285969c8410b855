"""Serving brokers: which broker served the clients' records, and whether it led the partition then.

Plain Python: one row per broker and partition. A broker counts as the leader from when the metadata
poller observed it as such until `SLACK_NS` after the poller observed another one, because records
are delivered to the application some time after they were fetched.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from experiments.ledger.workload_tables import BROKERS, SERVING

SLACK_NS: Final = 1_000_000_000
"""How long records can be in a client's queue, and how late the metadata poller can be."""
_FOREVER: Final = 1 << 62
LeaderSpan = tuple[int, int, int]
"""A node, and from when until when it led, nanoseconds since the epoch."""


def serving(served: pa.Table | None, events: pa.Table) -> pa.Table:
    """Return the table `SERVING`.

    Args:
        served: trial_id and the columns of the ledger's table; `None`: no trial recorded it.
        events: of all trials: trial_id, at_ns, kind, node, partition.
    """
    if served is None:
        return SERVING.empty_table()
    leaders = leader_spans(events)
    rows = [
        {
            **row,
            "non_leader_ns": non_leader_ns(
                row, leaders.get((row["trial_id"], row["partition"]), ())
            ),
        }
        for row in served.to_pylist()
    ]
    return pa.Table.from_pylist(
        [{name: row[name] for name in SERVING.names} for row in rows], schema=SERVING
    )


def brokers(events: pa.Table) -> pa.Table:
    """Return the table `BROKERS`.

    Args:
        events: of all trials: trial_id, kind, node, detail; the detail of `broker_counters` is a
            JSON object of counters.
    """
    rows = [
        {"trial_id": row["trial_id"], "node": row["node"], "name": name, "count": count}
        for row in events.filter(pc.field("kind") == "broker_counters").to_pylist()
        for name, count in json.loads(row["detail"]).items()
    ]
    return pa.Table.from_pylist(rows, schema=BROKERS)


def leader_spans(events: pa.Table) -> Mapping[tuple[str, int], Sequence[LeaderSpan]]:
    """Return the leaders by trial and partition, as the metadata poller observed them.

    The first observation counts for all the time before it, too.
    """
    observed: defaultdict[tuple[str, int], list[tuple[int, int | None]]] = defaultdict(list)
    for row in events.filter(pc.field("kind") == "leader").sort_by("at_ns").to_pylist():
        observed[row["trial_id"], row["partition"]].append((row["at_ns"], row["node"]))
    return {key: tuple(_spans(changes)) for key, changes in observed.items()}


def _spans(changes: Sequence[tuple[int, int | None]]) -> Iterator[LeaderSpan]:
    ends = [at_ns for at_ns, _ in changes[1:]] + [_FOREVER]
    for place, ((at_ns, node), end_ns) in enumerate(zip(changes, ends, strict=True)):
        if node is not None:
            yield node, -_FOREVER if place == 0 else at_ns, end_ns


def non_leader_ns(row: Mapping[str, Any], leaders: Sequence[LeaderSpan]) -> int:
    """Return how long a broker served a partition without leading it.

    The time counts from the first to the last record that the broker served of the partition.

    Args:
        row: node, first_ns, last_ns.
        leaders: of the partition.
    """
    remaining = [(row["first_ns"], row["last_ns"] + 1)]
    for node, begin_ns, end_ns in leaders:
        if node == row["node"]:
            remaining = [
                piece
                for span in remaining
                for piece in _subtract(span, (begin_ns - SLACK_NS, end_ns + SLACK_NS))
            ]
    return sum(end_ns - begin_ns for begin_ns, end_ns in remaining)


def _subtract(span: tuple[int, int], other: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """Yield the parts of a span that are outside the other one."""
    for begin_ns, end_ns in (
        (span[0], min(span[1], other[0])),
        (max(span[0], other[1]), span[1]),
    ):
        if begin_ns < end_ns:
            yield begin_ns, end_ns
