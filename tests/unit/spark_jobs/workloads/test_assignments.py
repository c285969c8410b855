"""Partition assignments: a small planted history, and random spans against a brute-force count."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ackbench.spark_jobs.measures.consumers import GroupOffsets
from ackbench.spark_jobs.workloads import assignments
from ackbench.spark_jobs.workloads.assignments import AssignmentSpan, MemberGeneration, TimeSpan

S = 1_000_000_000
LOAD = TimeSpan(10 * S, 20 * S)
GROUP = GroupOffsets(1, (1, 2, 3), {0: 100, 1: 100})


def event(
    at_s: float, kind: str, member: str, partition: int | None = None, detail: str = ""
) -> dict[str, Any]:
    """Return a member's event as the ledger has it."""
    return {
        "at_ns": round(at_s * S),
        "kind": kind,
        "partition": partition,
        "detail": f"{member}: {detail}".removesuffix(": "),
    }


HISTORY = [
    event(1, "assigned", "member 1.0", 0),
    event(1, "assigned", "member 1.0", 1),
    event(2, "assigned", "member 2.0", None, "none"),
    event(3, "assigned", "member 9.0", 0),  # of another group
    event(12, "revoked", "member 1.0", 1, "released"),
    event(12.5, "assigned", "member 2.0", 1),
    event(14, "member_crashed", "member 1.0"),
    event(16, "assigned", "member 2.0", 0),
    event(16.5, "assigned", "member 1.1", None, "none"),
    event(17, "revoked", "member 2.0", 0, "lost"),
    event(16.9, "assigned", "member 1.1", 0),
]


def history() -> list[dict[str, Any]]:
    """Return the planted events by time."""
    return sorted(HISTORY, key=lambda row: row["at_ns"])


def test_assignments_follow_from_the_members_events() -> None:
    """A crash ends a member's assignments; one that is never revoked lasts to the end."""
    assigned = set(assignments.assignment_spans(GROUP, history()))
    assert assigned == {
        AssignmentSpan(MemberGeneration(1, 0), 0, 1 * S, 14 * S, "member_exited"),
        AssignmentSpan(MemberGeneration(1, 0), 1, 1 * S, 12 * S, "released"),
        AssignmentSpan(MemberGeneration(2, 0), 0, 16 * S, 17 * S, "lost"),
        AssignmentSpan(MemberGeneration(2, 0), 1, round(12.5 * S), None, None),
        AssignmentSpan(MemberGeneration(1, 1), 0, round(16.9 * S), None, None),
    }


def test_overlap_gaps_and_idleness_are_measured_under_load() -> None:
    """Partition 0 has two owners for 0.1 s and none for 2 s; member 2 is idle until it gets 1."""
    assigned, present = (
        tuple(assignments.assignment_spans(GROUP, history())),
        assignments.membership_spans(GROUP, history(), LOAD),
    )
    assert assignments.overlap_ns(assigned, LOAD) == S // 10
    assert assignments.unassigned_ns(assigned, (0, 1), LOAD) == 2 * S
    assert assignments.unassigned_ns(assigned, (0, 1, 2), LOAD) == 10 * S
    assert assignments.max_partitions(assigned, LOAD) == 2
    assert assignments.idle_members(assigned, present, LOAD) == 1
    assert present == {
        MemberGeneration(1, 0): TimeSpan(10 * S, 14 * S),
        MemberGeneration(2, 0): LOAD,
        MemberGeneration(1, 1): TimeSpan(round(16.5 * S), 20 * S),
    }


MOMENTS = 30
SPANS = (
    st.tuples(st.integers(0, MOMENTS), st.integers(0, MOMENTS))
    .map(sorted)
    .map(lambda ends: (ends[0], ends[1]))
)


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2), SPANS, st.booleans()), max_size=12))
def test_random_assignments_are_measured_as_a_count_of_every_moment(
    chosen: list[tuple[int, int, tuple[int, int], bool]],
) -> None:
    """The reference finds the owners of each partition at each moment."""
    load = TimeSpan(5, 25)
    assigned = [
        AssignmentSpan(
            MemberGeneration(member, 0), partition, begin, None if open_end else end, None
        )
        for member, partition, (begin, end), open_end in chosen
    ]
    owners = [
        [
            {n for n, span in enumerate(assigned) if span.partition == of and _covers(span, moment)}
            for of in range(3)
        ]
        for moment in range(*load)
    ]
    assert assignments.overlap_ns(assigned, load) == sum(
        len(at) > 1 for moment in owners for at in moment
    )
    assert assignments.unassigned_ns(assigned, range(3), load) == max(
        _longest(not moment[of] for moment in owners) for of in range(3)
    )
    counts = [
        [n for at in moment for n in at if assigned[n].member == MemberGeneration(member, 0)]
        for moment in owners
        for member in (1, 2, 3)
    ]
    assert assignments.max_partitions(assigned, load) == max(map(len, counts))


def _covers(span: AssignmentSpan, moment: int) -> bool:
    return span.from_ns <= moment and (span.until_ns is None or moment < span.until_ns)


def _longest(flags: Any) -> int:
    longest = run = 0
    for flag in flags:
        run = run + 1 if flag else 0
        longest = max(longest, run)
    return longest
