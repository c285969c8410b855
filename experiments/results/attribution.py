"""Rows of the table `attribution` in words: what happened to how many records, under whose lead, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from experiments.ledger.result_tables import Anomaly, Cause, Phase
from experiments.messages.phrases import format_count, format_list
from experiments.results.rows import Row


@dataclass(frozen=True)
class AttributionRow:
    """One row of `experiments.ledger.result_tables.ATTRIBUTION`, which tells what each column means."""

    trial_id: str
    kind: str
    partition: int | None
    phase: str | None
    leader: int | None
    leader_epoch: int | None
    isr: str | None
    cause: str
    truncated_to: int | None
    truncated_by: int | None
    records: int
    first_offset: int | None
    last_offset: int | None
    first_at_ns: int | None
    last_at_ns: int | None


_WHAT: Final = {
    Anomaly.LOST: ("lost record", "lost records"),
    Anomaly.DUPLICATED: ("further copy", "further copies"),
    Anomaly.REORDERED: ("record behind later ones", "records behind later ones"),
    Anomaly.REJECTED_PRESENT: (
        "record that is there although it was refused",
        "records that are there although they were refused",
    ),
    Anomaly.UNKNOWN_ABSENT: (
        "record of unknown outcome that is not there",
        "records of unknown outcome that are not there",
    ),
    Anomaly.ABORTED_VISIBLE: (
        "record of an aborted transaction that consumers are shown",
        "records of aborted transactions that consumers are shown",
    ),
    Anomaly.PHANTOM: ("row that this trial never sent", "rows that this trial never sent"),
    Anomaly.CORRUPT: ("row whose checksum does not hold", "rows whose checksum does not hold"),
    Anomaly.MISSED: (
        "record that the consumer never received",
        "records that the consumer never received",
    ),
    Anomaly.REDELIVERED: ("record received again", "records received again"),
}
"""One of a kind, and several."""
_TIMED: Final = {
    Anomaly.LOST: "acknowledged",
    Anomaly.DUPLICATED: "acknowledged",
    Anomaly.REORDERED: "acknowledged",
    Anomaly.REJECTED_PRESENT: "refused",
    Anomaly.UNKNOWN_ABSENT: "given up",
    Anomaly.ABORTED_VISIBLE: "stored",
    Anomaly.MISSED: "acknowledged",
    Anomaly.REDELIVERED: "received",
}
"""What happened at the time by which a phase is told."""
_WHEN: Final = {
    Phase.BEFORE: "before the fault",
    Phase.DURING: "while the fault lasted",
    Phase.AFTER: "after the heal",
}
_LED: Final = {
    Anomaly.LOST: "acknowledged by leader",
    Anomaly.UNKNOWN_ABSENT: "while the leader was",
}
_APPENDED: Final = "appended by leader"


def describe_attribution(row: AttributionRow) -> str:
    """Say a row in one sentence; what is not known is said to be so, and null is left out."""
    told = ", ".join(
        part for part in (f"{_counted(row)}{_where(row)}", _leader(row), _time(row)) if part
    )
    return f"cause not known: {told}" if row.cause == Cause.UNATTRIBUTED else f"{told}: {_why(row)}"


def _counted(row: AttributionRow) -> str:
    one, several = _WHAT[Anomaly(row.kind)]
    return f"{row.records:,} {one if row.records == 1 else several}"


def _where(row: AttributionRow) -> str:
    if row.partition is None:
        return ""
    if row.first_offset is None or row.last_offset is None:
        return f" of partition {row.partition}"
    offsets = (
        f"offset {row.first_offset:,}"
        if row.first_offset == row.last_offset
        else f"offsets {row.first_offset:,} to {row.last_offset:,}"
    )
    return f" of partition {row.partition} ({offsets})"


def _leader(row: AttributionRow) -> str:
    """Say who led; where no offset was told, nobody acknowledged anything, and it is whom the producer took for the leader."""
    if row.leader is None:
        return "" if row.leader_epoch is None else f"in epoch {row.leader_epoch}"
    led = (
        "sent to leader"
        if row.kind == Anomaly.LOST and row.first_offset is None
        else _LED.get(Anomaly(row.kind), _APPENDED)
    )
    epoch = "" if row.leader_epoch is None else f" in epoch {row.leader_epoch}"
    return f"{led} {row.leader}{epoch}" + (f" with ISR {row.isr}" if row.isr else "")


def _time(row: AttributionRow) -> str:
    """Say in which phase; of a lost record that was acknowledged, who did it stands before."""
    if row.phase is None:
        return ""
    what = (
        ""
        if row.kind in {Anomaly.LOST, Anomaly.UNKNOWN_ABSENT}
        else f"{_TIMED.get(Anomaly(row.kind), '')} "
    )
    return f"{what}{_WHEN[Phase(row.phase)]}".strip()


_WHY: Final[Mapping[Cause, str]] = {
    Cause.DELETED: "their topic was deleted, and made again without them",
    Cause.NEVER_APPENDED: "the next leader never had them; they were on their way, or in the log of the one before alone (acks=0 tells no offset to say which)",
    Cause.RESENT: "the client gave up waiting for an answer and sent again",
    Cause.UNANSWERED: "the client gave up waiting for the leader's answer, or lost the connection on which it was to come",
    Cause.UNATTRIBUTED: "not known",
}


def _why(row: AttributionRow) -> str:
    cause = Cause(row.cause)
    if cause is not Cause.TRUNCATED:
        return _WHY[cause]
    if row.truncated_by is not None:
        return f"node {row.truncated_by} cut its log to offset {row.truncated_to:,} when it followed again"
    return f"in the log that survived, epoch {row.leader_epoch} ends at offset {row.truncated_to:,}"


# ---------- Why records were lost, repeated, reordered or missed, in sentences: from rows of the table `attribution`.


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
MAX_SENTENCES: Final = 12
"""Of one trial: the largest groups come first."""


def cause_summaries(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a sentence for each kind of anomaly: how many records there are, and how many of them each cause explains."""
    for kind in Anomaly:
        causes: Counter[Cause] = Counter()
        for row in rows:
            if row["kind"] == kind:
                causes[Cause(row["cause"])] += row["records"]
        if causes:
            told = [
                f"{records:,} {_CAUSES[cause]}"
                for cause, records in sorted(
                    causes.items(), key=lambda entry: (-entry[1], entry[0])
                )
            ]
            yield f"{causes.total():,} {_NAMES[kind]}: {format_list(told)}."


def attribution_sentences(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a sentence a group of records, the largest first, and then how many more there are."""
    ordered = sorted(
        rows,
        key=lambda row: (
            -row["records"],
            _KINDS.index(row["kind"]),
            str(row["partition"]),
            str(row["first_offset"]),
        ),
    )
    yield from (describe_attribution(AttributionRow(**row)) for row in ordered[:MAX_SENTENCES])
    left = ordered[MAX_SENTENCES:]
    if left:
        yield f"{format_count(sum(row['records'] for row in left), 'record')} in {format_count(len(left), 'smaller group')}"
