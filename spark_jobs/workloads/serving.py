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

from ackbench.spark_jobs.measures.measure import MeasuredTrial, OfEvents, Tables

SLACK_NS: Final = 1_000_000_000
"""How long records can be in a client's queue, and how late the metadata poller can be."""
_FOREVER: Final = 1 << 62
LeaderSpan = tuple[int, int, int]
"""A node, and from when until when it led, nanoseconds since the epoch."""


def serving_rows(served: pa.Table, events: pa.Table) -> Iterator[Mapping[str, Any]]:
    """Yield a trial's rows of `SERVING`, without trial_id.

    Args:
        served: the ledger's table.
        events: at_ns, kind, node, partition.
    """
    leaders = leader_spans(events)
    for row in served.to_pylist():
        yield {**row, "non_leader_ns": non_leader_ns(row, leaders.get(row["partition"], ()))}


def broker_rows(events: pa.Table) -> Iterator[Mapping[str, Any]]:
    """Yield a trial's rows of `BROKERS`, without trial_id.

    Args:
        events: kind, node, detail; the detail of `broker_counters` is a JSON object of counters.
    """
    for row in events.filter(pc.field("kind") == "broker_counters").to_pylist():
        for name, count in json.loads(row["detail"]).items():
            yield {"node": row["node"], "name": name, "count": count}


def leader_spans(events: pa.Table) -> Mapping[int, Sequence[LeaderSpan]]:
    """Return the leaders by partition, as the metadata poller observed them.

    The first observation counts for all the time before it, too.
    """
    observed: defaultdict[int, list[tuple[int, int | None]]] = defaultdict(list)
    for row in events.filter(pc.field("kind") == "leader").sort_by("at_ns").to_pylist():
        observed[row["partition"]].append((row["at_ns"], row["node"]))
    return {partition: tuple(_spans(changes)) for partition, changes in observed.items()}


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
    for begin_ns, end_ns in ((span[0], min(span[1], other[0])), (max(span[0], other[1]), span[1])):
        if begin_ns < end_ns:
            yield begin_ns, end_ns


class ServingMeasure(OfEvents):
    """Which broker served the clients' records."""

    def rows(self, trial: MeasuredTrial) -> Tables:
        """Return a trial's rows of `SERVING` and `BROKERS`."""
        served = trial.context.get("served")
        return {
            "serving": serving_rows(served, trial.events) if served is not None else [],
            "brokers": broker_rows(trial.events),
        }
