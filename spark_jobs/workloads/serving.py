"""Who served the clients' records, and whether as the partition's leader. Pure: a row a broker and partition.

A broker is taken for the leader from when the watcher saw it lead until a while after it saw another one: what was fetched is given to the application later.
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
"""What a client may have in its queue, and what the watcher may be late by."""
_FOREVER: Final = 1 << 62
Reign = tuple[int, int, int]
"""A node, and from when until when it led, nanoseconds since the epoch."""


def serving(served: pa.Table | None, events: pa.Table) -> pa.Table:
    """Return the table `SERVING` of the trials that tell who served them.

    Args:
        served: trial_id and the columns of the ledger's table; `None`: no trial tells.
        events: all trials': trial_id, at_ns, kind, node, partition.
    """
    if served is None:
        return SERVING.empty_table()
    reigns = reigns_of(events)
    rows = [
        {
            **row,
            "non_leader_ns": non_leader_ns(
                row, reigns.get((row["trial_id"], row["partition"]), ())
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
        events: all trials': trial_id, kind, node, detail; that of `broker_count` is a JSON object of counters.
    """
    told = events.filter(pc.field("kind") == "broker_counters").to_pylist()
    rows = [
        {"trial_id": row["trial_id"], "node": row["node"], "name": name, "count": count}
        for row in told
        for name, count in json.loads(row["detail"]).items()
    ]
    return pa.Table.from_pylist(rows, schema=BROKERS)


def reigns_of(events: pa.Table) -> Mapping[tuple[str, int], Sequence[Reign]]:
    """Return who led each partition when, by trial and partition, as the watcher saw it; what it saw first had been so before."""
    seen: defaultdict[tuple[str, int], list[tuple[int, int | None]]] = defaultdict(list)
    for row in events.filter(pc.field("kind") == "leader").sort_by("at_ns").to_pylist():
        seen[row["trial_id"], row["partition"]].append((row["at_ns"], row["node"]))
    return {of: tuple(_reigns(changes)) for of, changes in seen.items()}


def _reigns(changes: Sequence[tuple[int, int | None]]) -> Iterator[Reign]:
    ends = [at_ns for at_ns, _ in changes[1:]] + [_FOREVER]
    for place, ((at_ns, node), end_ns) in enumerate(zip(changes, ends, strict=True)):
        if node is not None:
            yield node, -_FOREVER if place == 0 else at_ns, end_ns


def non_leader_ns(row: Mapping[str, Any], reigns: Sequence[Reign]) -> int:
    """Return for how long, from the first to the last record that a broker served of a partition, it was not the partition's leader."""
    left = [(row["first_ns"], row["last_ns"] + 1)]
    for node, begin_ns, end_ns in reigns:
        if node == row["node"]:
            left = [
                piece
                for span in left
                for piece in _but(span, (begin_ns - SLACK_NS, end_ns + SLACK_NS))
            ]
    return sum(end_ns - begin_ns for begin_ns, end_ns in left)


def _but(span: tuple[int, int], taken: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """Yield what of a span another one leaves."""
    for begin_ns, end_ns in ((span[0], min(span[1], taken[0])), (max(span[0], taken[1]), span[1])):
        if begin_ns < end_ns:
            yield begin_ns, end_ns
