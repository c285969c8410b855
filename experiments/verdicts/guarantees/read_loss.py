"""no-read-loss: a record that a consumer received stays in the log, where it was received."""

from __future__ import annotations

from typing import Final

from ackbench.experiments.ledger.result_terms import Anomaly
from ackbench.experiments.messages.phrases import format_count
from ackbench.experiments.verdicts.guarantees.consumers_agree import CONSUMERS_AGREE
from ackbench.experiments.verdicts.guarantees.guarantee import Answer, Guarantee, Words
from ackbench.experiments.verdicts.guarantees.rules import CLEANUP, RETENTION, not_guaranteed
from ackbench.experiments.verdicts.guarantees.violations import Count

_REMOVED: Final = (
    not_guaranteed(
        "the topic is compacted",
        lambda c: c.compacted,
        "of records with the same key, compaction keeps only the last, whether or not a consumer "
        "received the others",
        CLEANUP,
    ),
    not_guaranteed(
        "records are retained for less than an hour, or up to a number of bytes",
        lambda c: c.expires,
        "the broker deletes old segments, whether or not a consumer received their records",
        RETENTION,
    ),
)
"""The settings and faults that remove records, and never put another one at their offset."""

NO_READ_LOSS: Final = Guarantee(
    name="no-read-loss",
    text="a record that a consumer received stays in the log, at the offset where it was received",
    rules=(*_REMOVED, *CONSUMERS_AGREE.rules),
    violated_by=Count("lost_reads"),
    words=Words(
        head="read loss",
        legend="received by a consumer, then lost",
        matrix_head="received, then lost",
        observed="records that consumers had received were lost",
        violated="records that consumers had received were lost",
        counted=("record received and lost", "records received and lost"),
    ),
    answer=Answer(
        of=lambda trial: trial.compacted is None,  # compaction removes records by design
        never="lost no record that a consumer had received",
        worst=lambda trial: (
            f"lost up to {format_count(trial.lost_reads, 'record')} that a consumer had received"
        ),
    ),
    in_controls="received and lost",
    always_measured=True,
    anomaly=Anomaly.READ_LOST,
)
