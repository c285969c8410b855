"""What Spark makes of consumer groups: two tables of `results/`, of trials that had groups. `docs/metrics.md` has every column's formula."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from experiments.ledger.columns import count

_TRIAL: Final = pa.field("trial_id", pa.string(), nullable=False)

GROUPS: Final = pa.schema(
    [
        _TRIAL,
        count("group"),  # its number in the trial, from 1 on
        count("members"),  # how many there were in all
        count("shown_records"),  # distinct ids in the log
        count("processed_records"),  # distinct ids that a member processed
        count("missed_records"),  # passed by a commit, and processed by no member
        count("expired_records"),  # those of them that the log did not hold any more at the end
        count("redelivered_reads"),
        count("offset_resets"),  # how often a member went on elsewhere, as the log did not hold the offset any more at which it was to read on
        count("stuck_partitions"),  # of which a member was told that as an error instead, and read no further
        count("stood_still_ns"),  # longest time of a partition, under load, in which nothing of it was processed
        count("overlap_ns"),  # how long a partition was held by two members at once
        count("unheld_ns"),  # longest time, under load, in which a partition was held by no member
        count("most_partitions"),  # that one member held at once
        count("idle_members"),  # most that belonged to the group at the same time and held no partition for a second or longer
    ]
)

ASSIGNMENTS: Final = pa.schema(
    [
        _TRIAL,
        count("group"),
        count("consumer"),
        count("generation"),
        count("partition"),
        count("from_ns"),
        pa.field("until_ns", pa.int64()),  # null: it held it to the end
        pa.field("ended", pa.string()),  # `given back`, `lost` (its group had taken it away before) or `gone` (it had died); null: it held it to the end
    ]
)
"""A row for each time that a member was given a partition, by the members' own accounts."""
