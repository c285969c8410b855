"""The rules that attribute a cause to an anomalous record; `docs/metrics.md` explains them.

A rule yields matches: which records of one partition it applies to, and what follows for them. The
first match of a record decides; a record without a match is `UNATTRIBUTED`. Records are columns and
a partition's evidence is a few rows, so rules loop over the evidence and never over records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from operator import attrgetter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ackbench.experiments.ledger.result_terms import Anomaly, Cause
from ackbench.spark_jobs.causes.evidence import (
    TOPIC_DELETED,
    TOPIC_RECREATED,
    TRUNCATED,
    Leadership,
    TrialEvent,
    TrialEvidence,
)

NULL: Final = -1
"""What stands for null in an `IntColumn`."""
_MAX_SEQ: Final = int(np.iinfo(np.int64).max)
"""Greater than every sequence number."""
_RESENT_KINDS: Final = (Anomaly.DUPLICATED, Anomaly.REORDERED, Anomaly.REJECTED_PRESENT)
_LOST_KINDS: Final = (Anomaly.LOST, Anomaly.READ_LOST, Anomaly.READ_CONFLICT, Anomaly.VALUE_LOST)
"""Records that were in a log, at the offset that the anomaly has, and are not there any more."""
_REQUEST_FAILURES: Final = ("timed_out", "disconnected")

IntColumn = NDArray[np.int64]
BoolColumn = NDArray[np.bool_]


@dataclass(frozen=True)
class AnomalyColumns:
    """Anomalous records of one partition, as columns of equal length.

    `spark_jobs.causes.anomalous_records.ANOMALOUS_RECORDS` describes the columns.
    """

    kind: IntColumn
    """Index in `Anomaly`."""
    producer: IntColumn
    seq: IntColumn
    offset: IntColumn
    at_ns: IntColumn
    sent_ns: IntColumn
    first_offset: IntColumn
    bumped_epoch: IntColumn

    def has_kind(self, *kinds: Anomaly) -> BoolColumn:
        """Return which records are of one of the given kinds."""
        return np.isin(self.kind, [list(Anomaly).index(kind) for kind in kinds])


@dataclass(frozen=True)
class AppendedRange:
    """The sequence numbers that one leader epoch appended to a partition, of one producer."""

    producer: int
    leader_epoch: int | None
    first_seq: int
    last_seq: int


@dataclass(frozen=True)
class RuleMatch:
    """The cause that a rule attributes, and to which records."""

    matches: BoolColumn
    cause: Cause
    leadership: Leadership | None = None
    """The leader that acknowledged them, if a rule knows it better than the time alone does."""
    truncated_to: int | None = None
    truncated_by: int | None = None


def rule_matches(
    rows: AnomalyColumns, evidence: TrialEvidence, partition: int, ranges: Sequence[AppendedRange]
) -> Iterator[RuleMatch]:
    """Yield the matches of all rules for the anomalies of one partition, the strongest first.

    Args:
        rows: the partition's anomalous records.
        evidence: of the trial.
        partition: its number.
        ranges: what each leader epoch appended to the partition.
    """
    leaderships = evidence.leaderships(partition)
    yield from _topic_deleted(rows, evidence)
    yield from _log_truncated(
        rows, leaderships, list(evidence.partition_events(partition, TRUNCATED))
    )
    yield from _beyond_epoch_end(rows, evidence, partition)
    yield from _between_epochs(rows, evidence, partition, ranges)
    yield from _epoch_bumped(rows, evidence)
    yield from _appended_in_two_epochs(rows, evidence, partition)
    yield from _request_failed(
        rows, [event for event in evidence.events if _failed_at_leader(event, leaderships)]
    )


def _topic_deleted(rows: AnomalyColumns, evidence: TrialEvidence) -> Iterator[RuleMatch]:
    """Match lost records whose topic was deleted after their acknowledgement.

    A record with an offset was appended to the old topic, if it was acknowledged before the new
    one existed. A record without an offset (acks=0) was never acknowledged by a broker: if it was
    sent after the deletion was requested, there may have been no topic at all.
    """
    lost = rows.has_kind(*_LOST_KINDS) & (rows.at_ns != NULL)
    deletions = evidence.partition_events(None, TOPIC_DELETED)
    recreations = evidence.partition_events(None, TOPIC_RECREATED)
    for deleted, recreated in zip(deletions, recreations, strict=False):
        yield RuleMatch(
            lost & (rows.at_ns <= np.where(rows.offset == NULL, deleted.at_ns, recreated.at_ns)),
            Cause.DELETED,
        )


def _log_truncated(
    rows: AnomalyColumns, leaderships: Sequence[Leadership], truncations: Sequence[TrialEvent]
) -> Iterator[RuleMatch]:
    """Match lost records at or past an offset to which their leader truncated its log.

    The broker led at some time before the acknowledgement, and truncated after the record was sent.
    The latest such leader comes first. An earlier one is possible too: a leader that was paused and
    does not yet know that it was replaced continues to acknowledge (acks=1), and truncates its log
    once it learns.
    """
    lost = rows.has_kind(*_LOST_KINDS)  # a record without offset (NULL) is below every truncation
    for led in reversed(leaderships):
        for truncation in truncations:
            if (
                truncation.node is None
                or truncation.offset is None
                or truncation.node != led.leader
                or truncation.at_ns < led.since_ns
            ):
                continue
            truncated = rows.offset >= max(truncation.offset, led.start_offset or truncation.offset)
            in_time = (rows.at_ns >= led.since_ns) & (rows.sent_ns <= truncation.at_ns)
            yield RuleMatch(
                lost & truncated & in_time, Cause.TRUNCATED, led, truncation.offset, truncation.node
            )


def _beyond_epoch_end(
    rows: AnomalyColumns, evidence: TrialEvidence, partition: int
) -> Iterator[RuleMatch]:
    """Match lost records at or past the end of the leader epoch that acknowledged them.

    The epoch's end is the one in the log that survived (KIP-101, KIP-279).
    """
    leaderships, ranges = evidence.leaderships(partition), evidence.epoch_ranges(partition)
    lost, led_by = (
        rows.has_kind(*_LOST_KINDS),
        interval_index([led.since_ns for led in leaderships], rows.at_ns),
    )
    for number, led in enumerate(leaderships):
        ends = [
            later.start_offset
            for later in ranges
            if led.leader_epoch is not None and later.leader_epoch > led.leader_epoch
        ]
        if ends:
            yield RuleMatch(
                lost & (led_by == number) & (rows.offset >= min(ends)),
                Cause.TRUNCATED,
                led,
                min(ends),
            )


def _between_epochs(
    rows: AnomalyColumns, evidence: TrialEvidence, partition: int, ranges: Sequence[AppendedRange]
) -> Iterator[RuleMatch]:
    """Match lost records without an offset that were sent between two leader epochs.

    In the order of their producer, they are exactly between what one leader epoch appended and what
    the next one did.
    """
    lost, known_epochs = (
        rows.has_kind(Anomaly.LOST) & (rows.offset == NULL),
        _known_epochs(evidence, partition),
    )
    for producer in np.unique(rows.producer[lost]).tolist():
        for after, before in _epoch_boundaries(
            [appended for appended in ranges if appended.producer == producer], known_epochs
        ):
            matches = lost & (rows.producer == producer) & (rows.seq > after) & (rows.seq < before)
            yield from _sent_to(rows, matches, evidence.leaders_known_to(partition, producer))
            yield RuleMatch(matches, Cause.NEVER_APPENDED)


def _sent_to(
    rows: AnomalyColumns, matches: BoolColumn, known_leaders: Sequence[Leadership]
) -> Iterator[RuleMatch]:
    """Attribute records without acknowledgement to the leader that their producer knew then.

    The producer sent them there, even if another broker led by that time.
    """
    known_then = interval_index([leader.since_ns for leader in known_leaders], rows.at_ns)
    return (
        RuleMatch(matches & (known_then == number), Cause.NEVER_APPENDED, leader)
        for number, leader in enumerate(known_leaders)
    )


def _epoch_boundaries(
    ranges: Sequence[AppendedRange], known_epochs: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """Yield the gaps in a producer's sequence numbers that lie between two leader epochs.

    Each is a pair of sequence numbers, both exclusive: the last that the epochs so far appended,
    and the first that later ones did. This includes the gap before the first and the one after the
    last epoch that appended anything, if there was another epoch that appended nothing.
    """
    epochs = sorted(
        appended.leader_epoch for appended in ranges if appended.leader_epoch is not None
    )
    if len(epochs) < len(ranges) or not known_epochs:
        return
    by_epoch = sorted(ranges, key=attrgetter("leader_epoch"))
    highest = [NULL, *accumulate((appended.last_seq for appended in by_epoch), max)]
    lowest = [
        *reversed(list(accumulate((appended.first_seq for appended in reversed(by_epoch)), min))),
        _MAX_SEQ,
    ]
    bounds = [min(known_epochs), *epochs, max(known_epochs)]
    changed = [earlier < later for earlier, later in pairwise(bounds)]
    yield from (
        (after, before)
        for after, before, leader_changed in zip(highest, lowest, changed, strict=True)
        if leader_changed
    )


def _epoch_bumped(rows: AnomalyColumns, evidence: TrialEvidence) -> Iterator[RuleMatch]:
    """Match duplicates that were stored under two epochs of one producer id.

    No broker can recognize the second copy (KIP-98). The client's own log has the reason for which
    it bumped the epoch; a time-out is named.
    """
    bumped = rows.has_kind(Anomaly.DUPLICATED) & (rows.bumped_epoch != NULL)
    for bump in evidence.epoch_bumps():
        if bump.after_timeout:
            yield RuleMatch(
                bumped & (rows.producer == bump.producer) & (rows.bumped_epoch == bump.epoch),
                Cause.EPOCH_BUMPED_AFTER_TIMEOUT,
            )
    yield RuleMatch(bumped, Cause.EPOCH_BUMPED)


def _appended_in_two_epochs(
    rows: AnomalyColumns, evidence: TrialEvidence, partition: int
) -> Iterator[RuleMatch]:
    """Match duplicates that two leaders appended: the client sent the record to both."""
    starts = [epoch.start_offset for epoch in evidence.epoch_ranges(partition)]
    first, copy = interval_index(starts, rows.first_offset), interval_index(starts, rows.offset)
    yield RuleMatch(
        rows.has_kind(Anomaly.DUPLICATED) & (first != NULL) & (copy != NULL) & (first != copy),
        Cause.RESENT,
    )


def _request_failed(rows: AnomalyColumns, failures: Sequence[TrialEvent]) -> Iterator[RuleMatch]:
    """Match records that their client held while a request to the leader failed.

    The client gave up waiting for an answer, or lost its connection to the leader.
    """
    resent, absent = rows.has_kind(*_RESENT_KINDS), rows.has_kind(Anomaly.UNKNOWN_ABSENT)
    for event in failures:
        held = (
            _is_from_client(rows, event)
            & (rows.sent_ns != NULL)
            & (rows.sent_ns <= event.at_ns)
            & ((rows.at_ns >= event.earliest_ns) | (rows.at_ns == NULL))
        )
        yield RuleMatch(resent & held, Cause.RESENT)
        yield RuleMatch(absent & held, Cause.UNANSWERED)


def _is_from_client(rows: AnomalyColumns, event: TrialEvent) -> BoolColumn:
    """Return which records were sent by the producer whose log reports the event."""
    client, _, number = event.detail.partition(":")[0].partition(" ")
    return (
        rows.producer == int(number)
        if client == "producer" and number.isdecimal()
        else np.zeros(len(rows.producer), bool)
    )


def _failed_at_leader(event: TrialEvent, leaderships: Sequence[Leadership]) -> bool:
    """Return whether the event is a failed request to a broker that led the partition by then."""
    return (
        event.kind in _REQUEST_FAILURES
        and event.node is not None
        and event.node in {led.leader for led in leaderships if led.since_ns <= event.at_ns}
    )


def _known_epochs(evidence: TrialEvidence, partition: int) -> list[int]:
    epochs = {led.leader_epoch for led in evidence.leaderships(partition)} | {
        appended.leader_epoch for appended in evidence.epoch_ranges(partition)
    }
    return sorted(epoch for epoch in epochs if epoch is not None)


def interval_index(starts: Sequence[int], values: IntColumn) -> IntColumn:
    """Return for each value the index of the last start that is not greater.

    Args:
        starts: ascending.
        values: to look up, in the unit of `starts`.

    Returns:
        One index per value; `NULL` for values before the first start, and for `NULL`.
    """
    return np.where(
        values == NULL,
        NULL,
        np.searchsorted(np.asarray(starts, np.int64), values, side="right") - 1,
    )
