"""The trial's consumers as they ended: the concurrent consumer, and the groups with their members.

A trial's consumers from 1 on are the members, if it had a group; consumer 0 is the concurrent
consumer and not a member. All generations of a member's process count as one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ackbench.spark_jobs.io.arrays import Reads
from ackbench.spark_jobs.io.columns import BoolColumn

_ONLY_GROUP = 1
"""The number of a trial's group if the trial had one and its event has no number."""


@dataclass(frozen=True)
class GroupOffsets:
    """A consumer group's members and offsets at the end of its trial."""

    number: int
    consumers: tuple[int, ...]
    """Its members; empty: every consumer except the concurrent consumer."""
    committed: Mapping[int, int]
    """The committed offset by partition."""


def groups_of(events: pa.Table) -> tuple[GroupOffsets, ...]:
    """Return how the groups of a trial ended, as the group coordinator reported it.

    Args:
        events: kind, detail; the detail of `group` is a JSON object with `committed` and, if there
            were several groups, with `group` and `consumers`.
    """
    details = [
        json.loads(detail)
        for detail in events.filter(pc.field("kind") == "group")["detail"].to_pylist()
    ]
    return tuple(
        GroupOffsets(
            detail.get("group", _ONLY_GROUP),
            tuple(detail.get("consumers", ())),
            {int(partition): offset for partition, offset in detail["committed"].items()},
        )
        for detail in details
    )


def by_members(reads: Reads, groups: Sequence[GroupOffsets]) -> BoolColumn:
    """Return which reads are those of group members; none, if the trial had no group."""
    return reads.consumer > 0 if groups else np.zeros(len(reads), bool)


def by_group(reads: Reads, group: GroupOffsets) -> Reads:
    """Return the reads of a group's members, of the reads of all members."""
    if not group.consumers:
        return reads
    return reads.where(np.isin(reads.consumer, group.consumers))


@dataclass(frozen=True)
class ConsumerEnding:
    """The end of the concurrent consumer, from its `consumer_end` event."""

    at_ns: int
    at_end: bool
    """`True` if it reached the end of every partition."""


def consumer_ending(events: pa.Table) -> ConsumerEnding | None:
    """Return how a trial's concurrent consumer ended; `None`: there is no such event.

    If there were several, the latest end, and whether all reached the end of the log.

    Args:
        events: kind, at_ns, detail; the detail of `consumer_end` is a JSON object with `at_end`.
    """
    ends = events.filter(pc.field("kind") == "consumer_end").to_pylist()
    if not ends:
        return None
    return ConsumerEnding(
        max(end["at_ns"] for end in ends), all(json.loads(end["detail"])["at_end"] for end in ends)
    )
