"""Why records were lost, repeated, reordered or missed, in sentences: from rows of the table `attribution`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from experiments.attribution_text import Attributed, sentence
from experiments.ledger.measured_causes import Anomaly, Cause
from experiments.plurals import counted, listed
from experiments.results.rows import Row

_NAMES: Final = {
    Anomaly.LOST: "lost records",
    Anomaly.DUPLICATED: "further copies",
    Anomaly.REORDERED: "records behind later ones",
    Anomaly.REJECTED_PRESENT: "refused records that are there",
    Anomaly.UNKNOWN_ABSENT: "records of unknown outcome that are not there",
    Anomaly.PHANTOM: "rows that no trial sent",
    Anomaly.CORRUPT: "rows whose checksum does not hold",
    Anomaly.MISSED: "records that the consumer passed over",
    Anomaly.REDELIVERED: "records received again",
}
_CAUSES: Final = {
    Cause.DELETED: "deleted with their topic",
    Cause.TRUNCATED: "cut from the log of the leader that had acknowledged them",
    Cause.NEVER_APPENDED: "on their way when the leader ceased to lead, or cut with its log",
    Cause.RESENT: "sent again by a client that waited in vain for an answer",
    Cause.UNANSWERED: "never answered, or their connection broke",
    Cause.UNATTRIBUTED: "of a cause that is not known",
}
_KINDS: Final = tuple(Anomaly)
MOST_SENTENCES: Final = 12
"""Of one trial: the largest groups come first."""


def causes_of(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a sentence for each kind of anomaly: how many records there are, and how many of them each cause explains."""
    for kind in Anomaly:
        causes: Counter[Cause] = Counter()
        for row in rows:
            if row["kind"] == kind:
                causes[Cause(row["cause"])] += row["records"]
        if causes:
            told = [f"{records:,} {_CAUSES[cause]}" for cause, records in sorted(causes.items(), key=lambda entry: (-entry[1], entry[0]))]
            yield f"{causes.total():,} {_NAMES[kind]}: {listed(told)}."


def reasons_of(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a sentence a group of records, the largest first, and then how many more there are."""
    ordered = sorted(rows, key=lambda row: (-row["records"], _KINDS.index(row["kind"]), str(row["partition"]), str(row["first_offset"])))
    yield from (sentence(Attributed(**row)) for row in ordered[:MOST_SENTENCES])
    left = ordered[MOST_SENTENCES:]
    if left:
        yield f"{counted(sum(row['records'] for row in left), 'record')} in {counted(len(left), 'smaller group')}"
