"""Partition assignments within consumer groups: the tables `assignments` and `groups`.

Who owned which partition when follows from the members' own events, a few hundred rows per trial,
so this is plain Python. A member owns a partition from its assignment until it gives the partition
back, loses it, leaves the group, or its process crashes. `spark_jobs.workloads.groups` counts what
a group processed and missed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ackbench.experiments.ledger.trial_manifest import Phases
from ackbench.spark_jobs.measures.consumers import GroupOffsets, by_group, groups_of
from ackbench.spark_jobs.measures.measure import Measure, MeasuredTrial, Tables
from ackbench.spark_jobs.measures.unit import MeasuredUnit
from ackbench.spark_jobs.workloads.groups import GroupCounts, count_group

IDLE_NS: Final = 1_000_000_000
"""A member without a partition for this long is idle; during a rebalance each may have none."""
ASSIGNED: Final = "assigned"
REVOKED: Final = "revoked"
JOINED: Final = "joined"
LEFT: Final = "left"
MEMBER_CRASHED: Final = "member_crashed"
OFFSET_RESET: Final = "offset_reset"
OUT_OF_RANGE: Final = "out_of_range"
_MEMBER: Final = re.compile(r"^(?:member|copier) (\d+)\.(\d+)(?:: (.*))?$")
"""The detail of a member's event: consumer, generation, text."""
_Event = Mapping[str, Any]
_COLUMNS: Final[Mapping[str, Callable[[list[int]], int]]] = {
    "missed_records": sum,
    "redelivered_reads": sum,
    "processing_gap_ns": max,
    "unassigned_ns": max,
}
"""Columns of groups that a trial has as well, and what it has of them."""


class MemberGeneration(NamedTuple):
    """One process of a member; a restarted member has the next generation."""

    consumer: int
    generation: int


class TimeSpan(NamedTuple):
    """A span of time, nanoseconds since the epoch; the end is exclusive."""

    from_ns: int
    until_ns: int

    @property
    def length_ns(self) -> int:
        """Its length; 0 if it is empty."""
        return max(0, self.until_ns - self.from_ns)

    def within(self, other: TimeSpan) -> TimeSpan:
        """Return the intersection with another span."""
        return TimeSpan(max(self.from_ns, other.from_ns), min(self.until_ns, other.until_ns))


class AssignmentSpan(NamedTuple):
    """The time in which a member owned a partition.

    `until_ns` and `ended` are `None` if it owned the partition to the end of the trial.
    """

    member: MemberGeneration
    partition: int
    from_ns: int
    until_ns: int | None
    ended: str | None

    def during(self, load: TimeSpan) -> TimeSpan:
        """Return its part within the load."""
        return TimeSpan(
            self.from_ns, load.until_ns if self.until_ns is None else self.until_ns
        ).within(load)


# The tables.


def assignment_rows(
    groups: Sequence[GroupOffsets], events: pa.Table
) -> Iterator[Mapping[str, Any]]:
    """Yield a trial's rows of `ASSIGNMENTS`, without trial_id.

    Args:
        groups: of the trial.
        events: at_ns, kind, partition, detail.
    """
    membership = membership_events(events)
    for group in groups:
        for span in assignment_spans(group, membership):
            yield {
                "group": group.number,
                **span.member._asdict(),
                **{
                    name: getattr(span, name)
                    for name in ("partition", "from_ns", "until_ns", "ended")
                },
            }


def group_row(
    group: GroupOffsets, counts: GroupCounts, events: pa.Table, phases: Phases
) -> Mapping[str, Any]:
    """Return a group's row of `GROUPS`, without trial_id.

    Args:
        group: the group.
        counts: what it processed and missed.
        events: of the trial: at_ns, kind, partition, detail.
        phases: of the trial.
    """
    load = TimeSpan(phases.load_begin_ns, phases.load_end_ns)
    return {
        "group": group.number,
        "shown_records": counts.shown_records,
        "processed_records": counts.processed_records,
        "missed_records": counts.missed_records,
        "expired_records": counts.expired_records,
        "redelivered_reads": counts.redelivered_reads,
        **_offset_reset_columns(group, events_of(events, (OFFSET_RESET, OUT_OF_RANGE))),
        "processing_gap_ns": counts.processing_gap_ns(phases),
        **_membership_columns(group, membership_events(events), load),
    }


def _membership_columns(
    group: GroupOffsets, events: Sequence[Mapping[str, Any]], load: TimeSpan
) -> dict[str, int]:
    assigned, present = (
        tuple(assignment_spans(group, events)),
        membership_spans(group, events, load),
    )
    return {
        "members": len({member.consumer for member in present}),
        "overlap_ns": overlap_ns(assigned, load),
        "unassigned_ns": unassigned_ns(assigned, group.committed, load),
        "max_partitions": max_partitions(assigned, load),
        "idle_members": idle_members(assigned, present, load),
    }


def _offset_reset_columns(
    group: GroupOffsets, events: Sequence[Mapping[str, Any]]
) -> dict[str, int]:
    kinds = [(row["kind"], row["partition"]) for _, _, row, _ in member_events(group, events)]
    resets = sum(kind == OFFSET_RESET for kind, _ in kinds)
    return {
        "offset_resets": resets,
        "stuck_partitions": len({partition for kind, partition in kinds if kind == OUT_OF_RANGE}),
    }


# Events of members.


def membership_events(events: pa.Table) -> list[_Event]:
    """Return the events of joins, assignments, leaves and crashes, ordered by time."""
    return events_of(events, (ASSIGNED, REVOKED, JOINED, LEFT, MEMBER_CRASHED))


def events_of(events: pa.Table, kinds: Sequence[str]) -> list[_Event]:
    """Return a trial's events of the given kinds, ordered by time."""
    chosen = events.filter(pc.field("kind").isin(list(kinds))).sort_by("at_ns")
    rows: list[_Event] = chosen.to_pylist()
    return rows


def member_events(
    group: GroupOffsets, events: Iterable[_Event]
) -> Iterator[tuple[MemberGeneration, str, _Event, str | None]]:
    """Yield the events of a group's members: member, kind, row, and the text of the detail."""
    for row in events:
        parsed = _MEMBER.match(row["detail"])
        if parsed and (not group.consumers or int(parsed[1]) in group.consumers):
            yield (MemberGeneration(int(parsed[1]), int(parsed[2])), row["kind"], row, parsed[3])


def assignment_spans(group: GroupOffsets, events: Iterable[_Event]) -> Iterator[AssignmentSpan]:
    """Yield the times in which members of a group owned partitions.

    Args:
        group: whose members.
        events: of one trial, by time: at_ns, kind, partition, detail.
    """
    owned: defaultdict[MemberGeneration, dict[int, int]] = defaultdict(dict)
    for member, kind, row, detail in member_events(group, events):
        if kind == ASSIGNED and row["partition"] is not None:
            owned[member].setdefault(row["partition"], row["at_ns"])
        elif kind == REVOKED and row["partition"] in owned[member]:
            yield AssignmentSpan(
                member, row["partition"], owned[member].pop(row["partition"]), row["at_ns"], detail
            )
        elif kind in {MEMBER_CRASHED, LEFT}:
            yield from (
                AssignmentSpan(member, partition, from_ns, row["at_ns"], "member_exited")
                for partition, from_ns in owned.pop(member, {}).items()
            )
    yield from (
        AssignmentSpan(member, partition, from_ns, None, None)
        for member, partitions in owned.items()
        for partition, from_ns in partitions.items()
    )


def membership_spans(
    group: GroupOffsets, events: Iterable[_Event], load: TimeSpan
) -> Mapping[MemberGeneration, TimeSpan]:
    """Return when each member belonged to the group, within the load.

    A member belongs to its group from its first event until it leaves or crashes.
    """
    spans: dict[MemberGeneration, TimeSpan] = {}
    for member, kind, row, _ in member_events(group, events):
        if kind in {MEMBER_CRASHED, LEFT}:
            spans[member] = (
                TimeSpan(spans[member].from_ns, row["at_ns"])
                if member in spans
                else TimeSpan(row["at_ns"], row["at_ns"])
            )
        else:
            spans.setdefault(member, TimeSpan(row["at_ns"], load.until_ns))
    return {member: span.within(load) for member, span in spans.items()}


# Measures of assignments.


def overlap_ns(assigned: Sequence[AssignmentSpan], load: TimeSpan) -> int:
    """Return how long partitions had more than one owner, summed over partitions."""
    return sum(
        span.length_ns
        for spans in _by_partition(assigned, load).values()
        for span, owners in _coverage(spans, load)
        if owners > 1
    )


def unassigned_ns(
    assigned: Sequence[AssignmentSpan], partitions: Iterable[int], load: TimeSpan
) -> int:
    """Return the longest time in which one of the partitions had no owner."""
    spans = _by_partition(assigned, load)
    return max(
        (
            span.length_ns
            for partition in partitions
            for span in _uncovered(spans.get(partition, []), load)
        ),
        default=0,
    )


def max_partitions(assigned: Sequence[AssignmentSpan], load: TimeSpan) -> int:
    """Return the most partitions that one member owned at once."""
    members = {span.member for span in assigned}
    return max(
        (
            owned
            for member in members
            for _, owned in _coverage(
                [span.during(load) for span in assigned if span.member == member], load
            )
        ),
        default=0,
    )


def idle_members(
    assigned: Sequence[AssignmentSpan], present: Mapping[MemberGeneration, TimeSpan], load: TimeSpan
) -> int:
    """Return the most members that were idle at the same time.

    A member is idle while it belongs to the group and owns no partition for `IDLE_NS` or longer.
    """
    idle = [
        span
        for member, membership in present.items()
        for span in _uncovered(
            [one.during(load).within(membership) for one in assigned if one.member == member],
            membership,
        )
        if span.length_ns >= IDLE_NS
    ]
    return max((members for _, members in _coverage(idle, load)), default=0)


def _by_partition(
    assigned: Sequence[AssignmentSpan], load: TimeSpan
) -> Mapping[int, list[TimeSpan]]:
    spans: defaultdict[int, list[TimeSpan]] = defaultdict(list)
    for one in assigned:
        spans[one.partition].append(one.during(load))
    return spans


def _coverage(spans: Sequence[TimeSpan], within: TimeSpan) -> Iterator[tuple[TimeSpan, int]]:
    """Yield the times between any two changes, and how many of the spans cover each."""
    changes = sorted({*within, *(moment for span in spans if span.length_ns for moment in span)})
    for part in (TimeSpan(*ends) for ends in pairwise(changes)):
        yield (
            part,
            sum(span.from_ns <= part.from_ns and part.until_ns <= span.until_ns for span in spans),
        )


def _uncovered(spans: Sequence[TimeSpan], within: TimeSpan) -> Iterator[TimeSpan]:
    """Yield the times that none of the spans covers."""
    covered_until = within.from_ns
    for span in sorted(span for span in spans if span.length_ns):
        if span.from_ns > covered_until:
            yield TimeSpan(covered_until, span.from_ns)
        covered_until = max(covered_until, span.until_ns)
    if covered_until < within.until_ns:
        yield TimeSpan(covered_until, within.until_ns)


@dataclass(frozen=True)
class GroupMeasure(Measure):
    """The records that consumer groups processed and missed, and the assignments of partitions."""

    counts: tuple[GroupCounts, ...]
    """In the order of `spark_jobs.workloads.groups.groups_of`."""

    @classmethod
    def of(cls, unit: MeasuredUnit) -> GroupMeasure:
        """Count what each group processed and missed."""
        return cls(
            tuple(
                count_group(
                    group,
                    by_group(unit.processed, group),
                    unit.arrays.log,
                    len(unit.arrays.ids),
                    unit.phases,
                    unit.manifest.begin_offsets,
                )
                for group in unit.groups
            )
        )

    def __add__(self, other: GroupMeasure) -> GroupMeasure:
        """Return the counts of two units of a trial."""
        return GroupMeasure(
            tuple(one.merge(two) for one, two in zip(self.counts, other.counts, strict=True))
        )

    def rows(self, trial: MeasuredTrial) -> Tables:
        """Return a trial's rows of `GROUPS` and `ASSIGNMENTS`, and columns, null without groups.

        The columns are the sum of the groups' counts, and the longest of their times; those of a
        trial with copiers are the copiers'.
        """
        events, found = trial.events, groups_of(trial.events)
        groups = [
            group_row(group, counts, events, trial.manifest.phases)
            for group, counts in zip(found, self.counts, strict=True)
        ]
        columns = {
            f"group_{name}": total([group[name] for group in groups]) if groups else None
            for name, total in _COLUMNS.items()
        }
        return {
            "trials": [columns],
            "groups": groups,
            "assignments": assignment_rows(found, events),
        }
