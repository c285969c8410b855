"""The rules by which the evidence gives a record its cause; `docs/metrics.md` tells them in words.

A rule makes claims: which records of one partition it holds of, and what follows. A record takes the first claim that holds of it; of whom none
holds, the cause is not known. Records are columns, and a partition's evidence is a few rows, so every rule loops over evidence and never over records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from operator import attrgetter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from experiments.ledger.result_tables import Anomaly, Cause
from spark_jobs.causes.evidence import (
    DELETED,
    RECREATED,
    TRUNCATED,
    Leadership,
    TrialEvent,
    TrialEvidence,
)

NONE: Final = -1
"""In a column: null."""
_FAR: Final = int(np.iinfo(np.int64).max)
"""After every sequence number."""
_SENT_AGAIN: Final = (Anomaly.DUPLICATED, Anomaly.REORDERED, Anomaly.REJECTED_PRESENT)
_BROKEN_OFF: Final = ("timed_out", "disconnected")

Numbers = NDArray[np.int64]
Holds = NDArray[np.bool_]


@dataclass(frozen=True)
class Rows:
    """Anomalous records of one partition, as columns of equal length; what they hold is told at `spark_jobs.causes.explanations.FOUND`."""

    kind: NDArray[np.object_]
    producer: Numbers
    seq: Numbers
    offset: Numbers
    at_ns: Numbers
    sent_ns: Numbers
    first_offset: Numbers

    def of_kind(self, *kinds: Anomaly) -> Holds:
        """Tell which are of some kinds."""
        return np.isin(self.kind.astype(str), [kind.value for kind in kinds])


@dataclass(frozen=True)
class ReachTable:
    """Which part of a producer's schedule one leader epoch appended to a partition: everything it appended lies between the two."""

    producer: int
    leader_epoch: int | None
    first_seq: int
    last_seq: int


@dataclass(frozen=True)
class CauseClaim:
    """What a rule says, and of which records."""

    holds: Holds
    cause: Cause
    by: Leadership | None = None
    """Who acknowledged them, where that is known better than from the time alone."""
    truncated_to: int | None = None
    truncated_by: int | None = None


def claims(
    rows: Rows, evidence: TrialEvidence, partition: int, reaches: Sequence[ReachTable]
) -> Iterator[CauseClaim]:
    """Yield all rules' claims about the anomalies of one partition, the strongest first."""
    leaderships = evidence.leaderships(partition)
    yield from _deleted(rows, evidence)
    yield from _cut(rows, leaderships, list(evidence.of(partition, TRUNCATED)))
    yield from _outlived(rows, evidence, partition)
    yield from _in_a_seam(rows, evidence, partition, reaches)
    yield from _in_two_epochs(rows, evidence, partition)
    yield from _broken_off(
        rows, [event for event in evidence.events if _concerns(event, leaderships)]
    )


def _deleted(rows: Rows, evidence: TrialEvidence) -> Iterator[CauseClaim]:
    """The topic was deleted after the record was acknowledged.

    With an offset it was one of the old topic's, until the new one was there. Without one (acks=0) nobody acknowledged it: what was sent when the deletion
    had been asked for may have found no topic at all.
    """
    lost = rows.of_kind(Anomaly.LOST) & (rows.at_ns != NONE)
    for asked, made in zip(evidence.of(None, DELETED), evidence.of(None, RECREATED), strict=False):
        yield CauseClaim(
            lost & (rows.at_ns <= np.where(rows.offset == NONE, asked.at_ns, made.at_ns)),
            Cause.DELETED,
        )


def _cut(
    rows: Rows, leaderships: Sequence[Leadership], cuts: Sequence[TrialEvent]
) -> Iterator[CauseClaim]:
    """A broker that led until the acknowledgement cut its log, after the record was sent, to its offset or below.

    The latest such leader comes first. An earlier one can be right too: a leader that was stopped and does not know yet that it was replaced goes on
    acknowledging (acks=1), and its log is cut when it learns.
    """
    lost = rows.of_kind(Anomaly.LOST)  # a record without offset lies below every cut
    for led in reversed(leaderships):
        for cut in cuts:
            if (
                cut.node is None
                or cut.offset is None
                or cut.node != led.leader
                or cut.at_ns < led.since_ns
            ):
                continue
            place = rows.offset >= max(cut.offset, led.start_offset or cut.offset)
            time = (rows.at_ns >= led.since_ns) & (rows.sent_ns <= cut.at_ns)
            yield CauseClaim(lost & place & time, Cause.TRUNCATED, led, cut.offset, cut.node)


def _outlived(rows: Rows, evidence: TrialEvidence, partition: int) -> Iterator[CauseClaim]:
    """In the log that survived, the leader epoch that acknowledged the record ends at its offset or before (KIP-101, KIP-279)."""
    leaderships, eras = evidence.leaderships(partition), evidence.eras(partition)
    lost, led_by = (
        rows.of_kind(Anomaly.LOST),
        as_of([led.since_ns for led in leaderships], rows.at_ns),
    )
    for number, led in enumerate(leaderships):
        ends = [
            era.start_offset
            for era in eras
            if led.leader_epoch is not None and era.leader_epoch > led.leader_epoch
        ]
        if ends:
            yield CauseClaim(
                lost & (led_by == number) & (rows.offset >= min(ends)),
                Cause.TRUNCATED,
                led,
                min(ends),
            )


def _in_a_seam(
    rows: Rows, evidence: TrialEvidence, partition: int, reaches: Sequence[ReachTable]
) -> Iterator[CauseClaim]:
    """Nobody told an offset, and the record lies in its producer's order just where one leader's part of the log ends and the next one's begins."""
    lost, known_epochs = (
        rows.of_kind(Anomaly.LOST) & (rows.offset == NONE),
        _known_epochs(evidence, partition),
    )
    for producer in np.unique(rows.producer[lost]).tolist():
        for after, before in _seams(
            [reach for reach in reaches if reach.producer == producer], known_epochs
        ):
            holds = lost & (rows.producer == producer) & (rows.seq > after) & (rows.seq < before)
            yield from _sent_to(rows, holds, evidence.believed(partition, producer))
            yield CauseClaim(holds, Cause.NEVER_APPENDED)


def _sent_to(rows: Rows, holds: Holds, believed: Sequence[Leadership]) -> Iterator[CauseClaim]:
    """A record that nobody acknowledged was sent to whom its producer took for the leader, whoever led by then."""
    then = as_of([leader.since_ns for leader in believed], rows.at_ns)
    return (
        CauseClaim(holds & (then == number), Cause.NEVER_APPENDED, leader)
        for number, leader in enumerate(believed)
    )


def _seams(reaches: Sequence[ReachTable], known_epochs: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the sequence numbers, both exclusive, between what the epochs up to one appended and what later ones did.

    Also before the first and after the last epoch that appended anything, where there was another one that appended nothing.
    """
    epochs = sorted(reach.leader_epoch for reach in reaches if reach.leader_epoch is not None)
    if len(epochs) < len(reaches) or not known_epochs:
        return
    by_epoch = sorted(reaches, key=attrgetter("leader_epoch"))
    highest = [NONE, *accumulate((reach.last_seq for reach in by_epoch), max)]
    lowest = [
        *reversed(list(accumulate((reach.first_seq for reach in reversed(by_epoch)), min))),
        _FAR,
    ]
    bounds = [min(known_epochs), *epochs, max(known_epochs)]
    changed = [earlier < later for earlier, later in pairwise(bounds)]
    yield from (
        (after, before)
        for after, before, moved in zip(highest, lowest, changed, strict=True)
        if moved
    )


def _in_two_epochs(rows: Rows, evidence: TrialEvidence, partition: int) -> Iterator[CauseClaim]:
    """Two leaders appended a copy each: the client sent it to both."""
    starts = [era.start_offset for era in evidence.eras(partition)]
    first, copy = as_of(starts, rows.first_offset), as_of(starts, rows.offset)
    yield CauseClaim(
        rows.of_kind(Anomaly.DUPLICATED) & (first != NONE) & (copy != NONE) & (first != copy),
        Cause.RESENT,
    )


def _broken_off(rows: Rows, broken_off: Sequence[TrialEvent]) -> Iterator[CauseClaim]:
    """While the record was with the client, the client gave up on a request to the partition's leader, or lost its connection."""
    again, absent = rows.of_kind(*_SENT_AGAIN), rows.of_kind(Anomaly.UNKNOWN_ABSENT)
    for event in broken_off:
        meanwhile = (
            _of_producer(rows, event)
            & (rows.sent_ns != NONE)
            & (rows.sent_ns <= event.at_ns)
            & ((rows.at_ns >= event.from_ns) | (rows.at_ns == NONE))
        )
        yield CauseClaim(again & meanwhile, Cause.RESENT)
        yield CauseClaim(absent & meanwhile, Cause.UNANSWERED)


def _of_producer(rows: Rows, event: TrialEvent) -> Holds:
    """Tell which records are of the producer whose log told the event."""
    who, _, number = event.detail.partition(":")[0].partition(" ")
    return (
        rows.producer == int(number)
        if who == "producer" and number.isdecimal()
        else np.zeros(len(rows.producer), bool)
    )


def _concerns(event: TrialEvent, leaderships: Sequence[Leadership]) -> bool:
    """Tell whether an event is of a client that broke off with a broker which led the partition until then."""
    return (
        event.kind in _BROKEN_OFF
        and event.node is not None
        and event.node in {led.leader for led in leaderships if led.since_ns <= event.at_ns}
    )


def _known_epochs(evidence: TrialEvidence, partition: int) -> list[int]:
    told = {led.leader_epoch for led in evidence.leaderships(partition)} | {
        era.leader_epoch for era in evidence.eras(partition)
    }
    return sorted(epoch for epoch in told if epoch is not None)


def as_of(starts: Sequence[int], values: Numbers) -> Numbers:
    """Return for each value the number of the last start that is not after it; `NONE` before the first, and for null."""
    return np.where(
        values == NONE,
        NONE,
        np.searchsorted(np.asarray(starts, np.int64), values, side="right") - 1,
    )
