"""The table of consumer groups: what Spark counted of each, and what its members told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from experiments.ledger.measured_groups import GROUPS
from spark_jobs import assignment
from spark_jobs.assignment import Span
from spark_jobs.counted import Found
from spark_jobs.group import Groups, ToldGroup
from spark_jobs.ledgers import Ledger

RESET, OUT_OF_RANGE = "offset_reset", "out_of_range"
_COUNTED = ("shown_records", "processed_records", "missed_records", "expired_records")


def group_rows(ledgers: Sequence[Ledger], groups: Groups, found: Found, events: pa.Table) -> pa.Table:
    """Return the table `GROUPS`.

    Args:
        ledgers: the trials, in the order of their numbers.
        groups: of `spark_jobs.group.groups_of`.
        found: what Spark found.
        events: all trials', with trial_id.
    """
    counted, again = (_by_group(table) for table in (found.group, found.processed_again))
    stood = _longest(found.stood_still)
    told, offsets = assignment.members_events(events), assignment.told_by_members(events, (RESET, OUT_OF_RANGE))
    rows = [
        {
            "trial_id": trial_id,
            "group": group.number,
            **{name: counted.get((trial_id, group.number), {}).get(name, 0) for name in _COUNTED},
            "redelivered_reads": again.get((trial_id, group.number), {}).get("redelivered_reads", 0),
            **_told_of_offsets(group, offsets[trial_id]),
            "stood_still_ns": stood.get((trial_id, group.number), 0),
            **_of_members(group, told[trial_id], _load(ledgers[number])),
        }
        for number, of_trial in groups.items()
        for trial_id in (ledgers[number].record.trial_id,)
        for group in of_trial
    ]
    return pa.Table.from_pylist(rows, schema=GROUPS)


def _of_members(group: ToldGroup, events: Sequence[Mapping[str, Any]], load: Span) -> dict[str, int]:
    held, present = tuple(assignment.held_by(group, events)), assignment.belonged(group, events, load)
    return {
        "members": len({life.consumer for life in present}),
        "overlap_ns": assignment.overlap_ns(held, load),
        "unheld_ns": assignment.unheld_ns(held, group.committed, load),
        "most_partitions": assignment.most_partitions(held, load),
        "idle_members": assignment.idle_members(held, present, load),
    }


def _told_of_offsets(group: ToldGroup, events: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    kinds = [(row["kind"], row["partition"]) for _, _, row, _ in assignment.of_members(group, events)]
    resets = sum(kind == RESET for kind, _ in kinds)
    return {"offset_resets": resets, "stuck_partitions": len({partition for kind, partition in kinds if kind == OUT_OF_RANGE})}


def _load(ledger: Ledger) -> Span:
    return Span(ledger.record.phases.load_begin_ns, ledger.record.phases.load_end_ns)


def _by_group(table: pa.Table) -> Mapping[tuple[str, int], Mapping[str, Any]]:
    return {(row["trial_id"], row["group"]): row for row in table.to_pylist()}


def _longest(stood_still: pa.Table) -> Mapping[tuple[str, int], int]:
    longest: dict[tuple[str, int], int] = {}
    for row in stood_still.to_pylist():
        of = (row["trial_id"], row["group"])
        longest[of] = max(longest.get(of, 0), row["stood_still_ns"])
    return longest
