"""The table of consumer groups: what Spark counted of each, and what its members told."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from experiments.ledger.workload_tables import ASSIGNMENTS, GROUPS
from spark_jobs.io.ledgers import Ledger
from spark_jobs.measures.counts import TrialCounts
from spark_jobs.workloads.groups import GroupOffsets, Groups

# ---------- Who of a consumer group held which partition when, by the members' own accounts, and what follows from it. Pure: a few hundred rows a trial.
#
# A member holds a partition from the moment at which it was given it until it gave it back, lost it, or its process was gone.


IDLE_NS: Final = 1_000_000_000
"""A member that holds nothing for so long is idle; while a group changes hands, each may hold nothing for a moment."""
ASSIGNED, REVOKED, JOINED, LEFT, GONE = "assigned", "revoked", "joined", "left", "member_crashed"
_WHO: Final = re.compile(r"^(?:member|copier) (\d+)\.(\d+)(?:: (.*))?$")
_Event = Mapping[str, Any]


class MemberLife(NamedTuple):
    """One life of a member."""

    consumer: int
    generation: int


class TimeSpan(NamedTuple):
    """From one moment to another, nanoseconds since the epoch."""

    from_ns: int
    until_ns: int

    @property
    def length_ns(self) -> int:
        """How long it is; of an empty one 0."""
        return max(0, self.until_ns - self.from_ns)

    def within(self, other: TimeSpan) -> TimeSpan:
        """Return what of it lies in the other."""
        return TimeSpan(max(self.from_ns, other.from_ns), min(self.until_ns, other.until_ns))


class AssignmentSpan(NamedTuple):
    """A life held a partition; `until_ns` and `ended` are `None` where it did to the end."""

    life: MemberLife
    partition: int
    from_ns: int
    until_ns: int | None
    ended: str | None

    def during(self, load: TimeSpan) -> TimeSpan:
        """Return when, within the load."""
        return TimeSpan(
            self.from_ns, load.until_ns if self.until_ns is None else self.until_ns
        ).within(load)


def holdings(events: pa.Table, ledgers: Sequence[Ledger], groups: Groups) -> pa.Table:
    """Return the table `ASSIGNMENTS` of all trials that had groups.

    Args:
        events: trial_id, at_ns, kind, partition, detail.
        ledgers: the trials, in the order of their numbers.
        groups: of `spark_jobs.workloads.groups.groups_of`.
    """
    of_trial = members_events(events)
    rows = [
        {
            "trial_id": trial_id,
            "group": group.number,
            **held.life._asdict(),
            **{name: getattr(held, name) for name in ("partition", "from_ns", "until_ns", "ended")},
        }
        for number, told in groups.items()
        for trial_id in (ledgers[number].record.trial_id,)
        for group in told
        for held in held_by(group, of_trial[trial_id])
    ]
    return pa.Table.from_pylist(
        [{name: row[name] for name in ASSIGNMENTS.names} for row in rows], schema=ASSIGNMENTS
    )


def members_events(events: pa.Table) -> Mapping[str, list[_Event]]:
    """Return what members told of who held what, and that they were gone, by trial and in its order."""
    return told_by_members(events, (ASSIGNED, REVOKED, JOINED, LEFT, GONE))


def told_by_members(events: pa.Table, kinds: Sequence[str]) -> Mapping[str, list[_Event]]:
    """Return the events of some kinds, by trial and in its order."""
    told: defaultdict[str, list[_Event]] = defaultdict(list)
    for row in events.filter(pc.field("kind").isin(list(kinds))).sort_by("at_ns").to_pylist():
        told[row["trial_id"]].append(row)
    return told


def held_by(group: GroupOffsets, events: Iterable[_Event]) -> Iterator[AssignmentSpan]:
    """Yield when members of a group held partitions.

    Args:
        group: whose members.
        events: of one trial, by time: at_ns, kind, partition, detail.
    """
    held: defaultdict[MemberLife, dict[int, int]] = defaultdict(dict)
    for life, kind, row, detail in of_members(group, events):
        if kind == ASSIGNED and row["partition"] is not None:
            held[life].setdefault(row["partition"], row["at_ns"])
        elif kind == REVOKED and row["partition"] in held[life]:
            yield AssignmentSpan(
                life, row["partition"], held[life].pop(row["partition"]), row["at_ns"], detail
            )
        elif kind in {GONE, LEFT}:
            yield from (
                AssignmentSpan(life, of, from_ns, row["at_ns"], "gone")
                for of, from_ns in held.pop(life, {}).items()
            )
    yield from (
        AssignmentSpan(life, of, from_ns, None, None)
        for life, partitions in held.items()
        for of, from_ns in partitions.items()
    )


def belonged(
    group: GroupOffsets, events: Iterable[_Event], load: TimeSpan
) -> Mapping[MemberLife, TimeSpan]:
    """Return when each life belonged to the group, within the load: from the first that it told of it, until it left or was gone."""
    spans: dict[MemberLife, TimeSpan] = {}
    for life, kind, row, _ in of_members(group, events):
        if kind in {GONE, LEFT}:
            spans[life] = (
                TimeSpan(spans[life].from_ns, row["at_ns"])
                if life in spans
                else TimeSpan(row["at_ns"], row["at_ns"])
            )
        else:
            spans.setdefault(life, TimeSpan(row["at_ns"], load.until_ns))
    return {life: span.within(load) for life, span in spans.items()}


def overlap_ns(held: Sequence[AssignmentSpan], load: TimeSpan) -> int:
    """Return how long, summed over partitions, more than one life held a partition."""
    return sum(
        span.length_ns
        for spans in _by_partition(held, load).values()
        for span, holders in _layers(spans, load)
        if holders > 1
    )


def unassigned_ns(held: Sequence[AssignmentSpan], partitions: Iterable[int], load: TimeSpan) -> int:
    """Return the longest time in which one of the partitions was held by nobody."""
    spans = _by_partition(held, load)
    return max(
        (span.length_ns for of in partitions for span in _stretches(spans.get(of, []), load)),
        default=0,
    )


def max_partitions(held: Sequence[AssignmentSpan], load: TimeSpan) -> int:
    """Return how many partitions one life held at once, at the most."""
    lives = {one.life for one in held}
    return max(
        (
            holders
            for life in lives
            for _, holders in _layers([one.during(load) for one in held if one.life == life], load)
        ),
        default=0,
    )


def idle_members(
    held: Sequence[AssignmentSpan], present: Mapping[MemberLife, TimeSpan], load: TimeSpan
) -> int:
    """Return how many lives were idle at the same time, at the most: in the group, and without a partition for `IDLE_NS` or longer."""
    idle = [
        stretch
        for life, span in present.items()
        for stretch in _stretches(
            [one.during(load).within(span) for one in held if one.life == life], span
        )
        if stretch.length_ns >= IDLE_NS
    ]
    return max((lives for _, lives in _layers(idle, load)), default=0)


def of_members(
    group: GroupOffsets, events: Iterable[_Event]
) -> Iterator[tuple[MemberLife, str, _Event, str | None]]:
    """Yield the events of a group's members: whose, of which kind, and the rest of the detail."""
    for row in events:
        who = _WHO.match(row["detail"])
        if who and (not group.consumers or int(who[1]) in group.consumers):
            yield MemberLife(int(who[1]), int(who[2])), row["kind"], row, who[3]


def _by_partition(held: Sequence[AssignmentSpan], load: TimeSpan) -> Mapping[int, list[TimeSpan]]:
    spans: defaultdict[int, list[TimeSpan]] = defaultdict(list)
    for one in held:
        spans[one.partition].append(one.during(load))
    return spans


def _layers(spans: Sequence[TimeSpan], within: TimeSpan) -> Iterator[tuple[TimeSpan, int]]:
    """Yield the stretches between any two moments at which something changes, and how many of the spans cover each."""
    steps = sorted({*within, *(moment for span in spans if span.length_ns for moment in span)})
    for stretch in (TimeSpan(*ends) for ends in pairwise(steps)):
        yield (
            stretch,
            sum(
                span.from_ns <= stretch.from_ns and stretch.until_ns <= span.until_ns
                for span in spans
            ),
        )


def _stretches(spans: Sequence[TimeSpan], within: TimeSpan) -> Iterator[TimeSpan]:
    """Yield the stretches that none of the spans covers, each as long as it is."""
    reached = within.from_ns
    for span in sorted(span for span in spans if span.length_ns):
        if span.from_ns > reached:
            yield TimeSpan(reached, span.from_ns)
        reached = max(reached, span.until_ns)
    if reached < within.until_ns:
        yield TimeSpan(reached, within.until_ns)


RESET, OUT_OF_RANGE = "offset_reset", "out_of_range"
_COUNTED = ("shown_records", "processed_records", "missed_records", "expired_records")


def group_rows(
    ledgers: Sequence[Ledger], groups: Groups, found: TrialCounts, events: pa.Table
) -> pa.Table:
    """Return the table `GROUPS`.

    Args:
        ledgers: the trials, in the order of their numbers.
        groups: of `spark_jobs.workloads.groups.groups_of`.
        found: what Spark found.
        events: all trials', with trial_id.
    """
    counted, again = (_by_group(table) for table in (found.group, found.processed_again))
    stood = _longest(found.processing_gaps)
    told, offsets = members_events(events), told_by_members(events, (RESET, OUT_OF_RANGE))
    rows = [
        {
            "trial_id": trial_id,
            "group": group.number,
            **{name: counted.get((trial_id, group.number), {}).get(name, 0) for name in _COUNTED},
            "redelivered_reads": again.get((trial_id, group.number), {}).get(
                "redelivered_reads", 0
            ),
            **_told_of_offsets(group, offsets[trial_id]),
            "processing_gap_ns": stood.get((trial_id, group.number), 0),
            **_of_members(group, told[trial_id], _load(ledgers[number])),
        }
        for number, of_trial in groups.items()
        for trial_id in (ledgers[number].record.trial_id,)
        for group in of_trial
    ]
    return pa.Table.from_pylist(rows, schema=GROUPS)


def _of_members(
    group: GroupOffsets, events: Sequence[Mapping[str, Any]], load: TimeSpan
) -> dict[str, int]:
    held, present = tuple(held_by(group, events)), belonged(group, events, load)
    return {
        "members": len({life.consumer for life in present}),
        "overlap_ns": overlap_ns(held, load),
        "unassigned_ns": unassigned_ns(held, group.committed, load),
        "max_partitions": max_partitions(held, load),
        "idle_members": idle_members(held, present, load),
    }


def _told_of_offsets(group: GroupOffsets, events: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    kinds = [(row["kind"], row["partition"]) for _, _, row, _ in of_members(group, events)]
    resets = sum(kind == RESET for kind, _ in kinds)
    return {
        "offset_resets": resets,
        "stuck_partitions": len({partition for kind, partition in kinds if kind == OUT_OF_RANGE}),
    }


def _load(ledger: Ledger) -> TimeSpan:
    return TimeSpan(ledger.record.phases.load_begin_ns, ledger.record.phases.load_end_ns)


def _by_group(table: pa.Table) -> Mapping[tuple[str, int], Mapping[str, Any]]:
    return {(row["trial_id"], row["group"]): row for row in table.to_pylist()}


def _longest(processing_gaps: pa.Table) -> Mapping[tuple[str, int], int]:
    longest: dict[tuple[str, int], int] = {}
    for row in processing_gaps.to_pylist():
        of = (row["trial_id"], row["group"])
        longest[of] = max(longest.get(of, 0), row["processing_gap_ns"])
    return longest
