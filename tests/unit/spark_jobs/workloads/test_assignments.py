"""Who held which partition when: told in a small history by hand, and by chance as a plain count of every moment has it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.workloads import assignments
from spark_jobs.workloads.assignments import AssignmentSpan, MemberLife, TimeSpan
from spark_jobs.workloads.groups import GroupOffsets

S = 1_000_000_000
LOAD = TimeSpan(10 * S, 20 * S)
GROUP = GroupOffsets(1, (1, 2, 3), {0: 100, 1: 100}, {})


def told(
    at_s: float, kind: str, who: str, partition: int | None = None, detail: str = ""
) -> dict[str, Any]:
    """What a member told, as the ledger has it."""
    return {
        "at_ns": round(at_s * S),
        "kind": kind,
        "partition": partition,
        "detail": f"{who}: {detail}".removesuffix(": "),
    }


HISTORY = [
    told(1, "assigned", "member 1.0", 0),
    told(1, "assigned", "member 1.0", 1),
    told(2, "assigned", "member 2.0", None, "none"),
    told(3, "assigned", "member 9.0", 0),  # of another group
    told(12, "revoked", "member 1.0", 1, "given back"),
    told(12.5, "assigned", "member 2.0", 1),
    told(14, "member_crashed", "member 1.0"),
    told(16, "assigned", "member 2.0", 0),
    told(16.5, "assigned", "member 1.1", None, "none"),
    told(17, "revoked", "member 2.0", 0, "lost"),
    told(16.9, "assigned", "member 1.1", 0),
]


def history() -> list[dict[str, Any]]:
    """By time."""
    return sorted(HISTORY, key=lambda row: row["at_ns"])


def test_who_held_what_is_read_off_what_the_members_told() -> None:
    """A life ends with its process; what it still held ends there too, and what nobody gave back is held to the end."""
    held = set(assignments.held_by(GROUP, history()))
    assert held == {
        AssignmentSpan(MemberLife(1, 0), 0, 1 * S, 14 * S, "gone"),
        AssignmentSpan(MemberLife(1, 0), 1, 1 * S, 12 * S, "given back"),
        AssignmentSpan(MemberLife(2, 0), 0, 16 * S, 17 * S, "lost"),
        AssignmentSpan(MemberLife(2, 0), 1, round(12.5 * S), None, None),
        AssignmentSpan(MemberLife(1, 1), 0, round(16.9 * S), None, None),
    }


def test_overlap_gaps_and_idleness_are_measured_under_load() -> None:
    """Partition 0 was held by two for 0.1 s and by none for 2 s; member 2 was idle until it was given partition 1."""
    held, present = (
        tuple(assignments.held_by(GROUP, history())),
        assignments.belonged(GROUP, history(), LOAD),
    )
    assert assignments.overlap_ns(held, LOAD) == S // 10
    assert assignments.unassigned_ns(held, (0, 1), LOAD) == 2 * S
    assert assignments.unassigned_ns(held, (0, 1, 2), LOAD) == 10 * S
    assert assignments.max_partitions(held, LOAD) == 2
    assert assignments.idle_members(held, present, LOAD) == 1
    assert present == {
        MemberLife(1, 0): TimeSpan(10 * S, 14 * S),
        MemberLife(2, 0): LOAD,
        MemberLife(1, 1): TimeSpan(round(16.5 * S), 20 * S),
    }


MOMENTS = 30
SPANS = (
    st.tuples(st.integers(0, MOMENTS), st.integers(0, MOMENTS))
    .map(sorted)
    .map(lambda ends: (ends[0], ends[1]))
)


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2), SPANS, st.booleans()), max_size=12))
def test_holdings_by_chance_are_measured_as_a_count_of_every_moment(
    chosen: list[tuple[int, int, tuple[int, int], bool]],
) -> None:
    """Moment by moment: who holds the partition then."""
    load = TimeSpan(5, 25)
    held = [
        AssignmentSpan(MemberLife(life, 0), of, begin, None if open_end else end, None)
        for life, of, (begin, end), open_end in chosen
    ]
    holders = [
        [
            {n for n, one in enumerate(held) if one.partition == of and _then(one, moment)}
            for of in range(3)
        ]
        for moment in range(*load)
    ]
    assert assignments.overlap_ns(held, load) == sum(
        len(at) > 1 for moment in holders for at in moment
    )
    assert assignments.unassigned_ns(held, range(3), load) == max(
        _longest(not moment[of] for moment in holders) for of in range(3)
    )
    counts = [
        [n for at in moment for n in at if held[n].life == MemberLife(life, 0)]
        for moment in holders
        for life in (1, 2, 3)
    ]
    assert assignments.max_partitions(held, load) == max(map(len, counts))


def _then(one: AssignmentSpan, moment: int) -> bool:
    return one.from_ns <= moment and (one.until_ns is None or moment < one.until_ns)


def _longest(flags: Any) -> int:
    longest = run = 0
    for flag in flags:
        run = run + 1 if flag else 0
        longest = max(longest, run)
    return longest
