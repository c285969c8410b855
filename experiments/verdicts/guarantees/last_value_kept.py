"""last-value-kept, of compacted topics: an absent record was replaced by a later one of its key.

"Log compaction ensures that Kafka will always retain at least the last known value for each message
key within the log of data for a single topic partition." So an acknowledged record that is absent
needs a later one of its key. Order within a key is that of no-duplicates and order: the cleaner
never reorders records, and never changes an offset. Tombstones, which stay for
delete.retention.ms, are not tested: no load writes a record without a value.
"""

from __future__ import annotations

from typing import Final

from ackbench.experiments.ledger.result_terms import Anomaly
from ackbench.experiments.messages.phrases import format_count
from ackbench.experiments.verdicts.guarantees.circumstances import Circumstances
from ackbench.experiments.verdicts.guarantees.guarantee import Answer, Guarantee, Words
from ackbench.experiments.verdicts.guarantees.loss import NO_ACKED_LOSS
from ackbench.experiments.verdicts.guarantees.rules import (
    CLEANUP,
    COMPACTION,
    REPLICATION,
    RETENTION,
    Rule,
    guaranteed,
    not_guaranteed,
    unknown,
)
from ackbench.experiments.verdicts.guarantees.violations import Count


def _loss_rule(circumstances: Circumstances) -> Rule:
    """Return the rule that would decide on no-acked-loss without compaction."""
    uncompacted = circumstances.model_copy(update={"compacted": False})
    return NO_ACKED_LOSS.rule_for(uncompacted)


_RULES: Final = (
    not_guaranteed(
        "the topic is not compacted",
        lambda c: not c.compacted,
        "no record replaces another one",
        CLEANUP,
    ),
    not_guaranteed(
        "records are retained for less than an hour, or up to a number of bytes",
        lambda c: c.expires,
        "with cleanup.policy=compact,delete the broker also deletes old segments, with the last "
        "values in them",
        RETENTION,
    ),
    unknown(
        "it is unknown whether no-acked-loss would be guaranteed without compaction",
        lambda c: _loss_rule(c).guaranteed is None,
        "whether the last value of a key may be lost depends on what that guarantee depends on",
        REPLICATION,
    ),
    not_guaranteed(
        "no-acked-loss would not be guaranteed without compaction",
        lambda c: not _loss_rule(c).guaranteed,
        "the last value of a key may be lost like any acknowledged record",
        REPLICATION,
    ),
    guaranteed(
        "anything else",
        lambda _c: True,
        "the cleaner keeps the record with the highest offset of each key, and acknowledged "
        "records stay in the log until it replaces them",
        COMPACTION,
    ),
)

LAST_VALUE_KEPT: Final = Guarantee(
    name="last-value-kept",
    text="compaction removes an acknowledged record only if the log keeps a later one of its key",
    applies=lambda c: c.compacted,
    measured_with="lost_values",
    rules=_RULES,
    violated_by=Count("lost_values", tested_by="compacted"),
    words=Words(
        head="compaction",
        legend=(
            "acknowledged records that are absent, and no later one of their key is in the log"
        ),
        matrix_head="last values lost",
        observed="the last values of keys were lost",
        violated="acknowledged records were absent without a later one of their key",
        counted=("lost last value", "lost last values"),
        untested="compaction removed no record",
    ),
    answer=Answer(
        none="The last value of every key was kept",
        never="kept the last value of every key",
        worst=lambda trial: (
            f"lost the last values of up to {format_count(trial.lost_values, 'key')}"
        ),
    ),
    in_controls="last values lost",
    anomaly=Anomaly.VALUE_LOST,
)
