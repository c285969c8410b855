"""What became of a record, as far as Java's producer can tell: from the class of its exception. Pure.

Java tells no persistence status as librdkafka does: that an earlier attempt got through does not show in the last one's exception. So a record
counts as rejected only where every attempt would have been refused alike, for what the record is or because none was made; and, where there is
but one attempt (`retries=0`), for what the leader answers before it appends. All else is unknown. The numbers are Kafka's own
(https://kafka.apache.org/protocol#protocol_error_codes, `org.apache.kafka.common.protocol.Errors`), so both clients' errors are told alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from experiments.clients.record.layout import MAX_JAVA_PRODUCERS, TextValueFormat
from experiments.ledger.schema import ACKED, ATTEMPTS, READS, REJECTED, UNKNOWN

NO_CODE: Final = -1
"""`UNKNOWN_SERVER_ERROR`; also what an exception without a number of its own is given."""
CODES: Final[dict[str, int]] = {
    "CorruptRecordException": 2,
    "UnknownTopicOrPartitionException": 3,
    "LeaderNotAvailableException": 5,
    "NotLeaderOrFollowerException": 6,
    "TimeoutException": 7,
    "BufferExhaustedException": 7,
    "RecordTooLargeException": 10,
    "NetworkException": 13,
    "DisconnectException": 13,
    "InvalidTopicException": 17,
    "RecordBatchTooLargeException": 18,
    "NotEnoughReplicasException": 19,
    "NotEnoughReplicasAfterAppendException": 20,
    "InvalidRequiredAcksException": 21,
    "TopicAuthorizationException": 29,
    "ClusterAuthorizationException": 31,
    "InvalidTimestampException": 32,
    "UnsupportedForMessageFormatException": 43,
    "PolicyViolationException": 44,
    "OutOfOrderSequenceException": 45,
    "InvalidProducerEpochException": 47,
    "KafkaStorageException": 56,
    "UnknownProducerIdException": 59,
    "UnsupportedCompressionTypeException": 76,
    "InvalidRecordException": 87,
    "ProducerFencedException": 90,
}
"""By the class's own name."""

NEVER_TAKEN: Final = frozenset(
    {
        "BufferExhaustedException",  # the client had no room for it, and sent nothing
        "SerializationException",
        "RecordTooLargeException",
        "RecordBatchTooLargeException",
        "InvalidTopicException",
        "InvalidRequiredAcksException",
        "InvalidTimestampException",
        "UnsupportedForMessageFormatException",
        "UnsupportedCompressionTypeException",
        "PolicyViolationException",
        "InvalidRecordException",
    }
)
"""Refused for what the record is, so each attempt was refused."""

REFUSED_BEFORE_APPEND: Final = frozenset(
    {
        "UnknownTopicOrPartitionException",
        "LeaderNotAvailableException",
        "NotEnoughReplicasException",
        "TopicAuthorizationException",
        "ClusterAuthorizationException",
        "InvalidProducerEpochException",
    }
)
"""Answered by the leader before it appends; says nothing of an attempt before."""


def classify_exception(exception: str, retries: int) -> tuple[int, str]:
    """Return the number and the outcome of an exception.

    Args:
        exception: as `Class.toString` has it: `class org.apache.kafka.common.errors.TimeoutException`.
        retries: the producer's.
    """
    name = exception.rpartition(".")[2]
    refused = name in NEVER_TAKEN or (retries == 0 and name in REFUSED_BEFORE_APPEND)
    return CODES.get(name, NO_CODE), REJECTED if refused else UNKNOWN


# ---------- What Kafka's own programs reported, as the ledger's tables. Pure.
#
# Their clock is the wall clock by the millisecond, cut off, and so is a record's CreateTime: what is reckoned from them is as fine as that.


_NS_PER_MS: Final = 1_000_000
_OUTCOMES: Final = (ACKED, REJECTED, UNKNOWN)
Numbers = np.ndarray[tuple[int], np.dtype[np.int64]]
NONE: Final = -1
_FORM: Final = r"^(?P<prefix>0|[1-9][0-9]{0,9})\.(?P<seq>0|[1-9][0-9]{0,17})$"


@dataclass(frozen=True)
class JavaSchedule:
    """What a VerifiableProducer was to do, and when it began."""

    producer: int
    text: TextValueFormat
    records: int
    """That were due, the run-in apart."""
    rate_records_per_s: float
    keys: int
    retries: int
    begin_ns: int
    """By the program's word and the trial's clock; its throttler may have begun a little sooner."""
    ahead_ns: int
    """How far the trial's clock is before the wall clock."""

    def due_ns(self) -> Numbers:
        """Return when each record was due."""
        return self.begin_ns + (
            np.arange(self.records, dtype=np.int64) * 1e9 / self.rate_records_per_s
        ).astype(np.int64)


def java_attempts(lines: pa.Table, log: pa.Table | None, schedule: JavaSchedule) -> pa.Table:
    """Return what a producer attempted; schema `ATTEMPTS`.

    A record that was never reported is unknown. When one was sent is told by its CreateTime, where the log has it.

    Args:
        lines: schema `java_lines.LINES`, of `producer_send_success` and `producer_send_error`.
        log: the final read; `None` where its timestamps are not the producer's (`message.timestamp.type`).
        schedule: what was to be done.
    """
    count = schedule.records
    row, line = _first_reports(lines, schedule)
    reported = np.zeros(count, np.bool_)
    reported[row] = True
    acked = _spread(count, row, line, pc.is_null(lines["exception"]), False)
    error, outcome = _endings(count, row, line, lines["exception"], schedule.retries)
    offset = _spread(count, row, line, lines["offset"], NONE)
    sent_ns = _sent_ns(log, schedule)
    settled_ns = np.where(
        reported,
        _spread(count, row, line, lines["timestamp"], NONE) * _NS_PER_MS + schedule.ahead_ns,
        NONE,
    )
    columns = {
        "producer": pa.array(np.full(count, schedule.producer, np.int32)),
        "seq": pa.array(np.arange(count, dtype=np.int64)),
        "key": pa.array(
            (np.arange(count, dtype=np.int64) + schedule.text.warm_up_records) % schedule.keys
        )
        if schedule.keys
        else pa.nulls(count, pa.int64()),
        "intended_ns": pa.array(_intended(schedule.due_ns(), sent_ns, settled_ns)),
        "sent_ns": pa.array(sent_ns, mask=sent_ns < 0),
        "settled_ns": pa.array(settled_ns, mask=~reported),
        "outcome": pa.DictionaryArray.from_arrays(pa.array(outcome), pa.array(_OUTCOMES)),
        "error": pa.array(error),
        "partition": pa.array(_spread(count, row, line, lines["partition"], NONE), mask=~acked),
        "offset": pa.array(offset, mask=~acked | (offset < 0)),
    }
    made = {
        field.name: columns[field.name] if field.name in columns else pa.nulls(count, field.type)
        for field in ATTEMPTS
    }
    return pa.table([made[field.name].cast(field.type) for field in ATTEMPTS], schema=ATTEMPTS)


def trim_to_last_known(attempts: pa.Table, log: pa.Table) -> pa.Table:
    """Return the attempts of a producer that was killed: up to the last one that it reported or that the log has; seq stays dense.

    Which it had handed to its client behind that, it took with it.
    """
    told = pc.or_(
        pc.is_valid(attempts["settled_ns"]),
        pc.is_in(attempts["seq"], pc.drop_null(_of(log, attempts)["seq"])),
    )
    last = pc.max(pc.filter(attempts["seq"], told)).as_py()
    return attempts.slice(0, 0 if last is None else last + 1)


def _of(log: pa.Table, attempts: pa.Table) -> pa.Table:
    return log.filter(pc.is_in(log["producer"], pc.unique(attempts["producer"])))


def java_reads(
    lines: pa.Table, attempts: pa.Table, consumer: int, text: TextValueFormat, ahead_ns: int
) -> pa.Table:
    """Return what a consumer read, the run-in left out; schema `READS`.

    Args:
        lines: schema `java_lines.LINES`, of `record_data`.
        attempts: of all producers: a value of this form does not say itself when it was meant to be sent.
        consumer: its number.
        text: how our values look.
        ahead_ns: how far the trial's clock is before the wall clock.
    """
    lines = lines.filter(pa.array(~_is_warm_up(lines["value"], text)))
    producer, seq = _marks(lines["value"], text)
    intended_ns = _meant_ns(attempts, producer, seq)
    columns = {
        "consumer": pa.array(np.full(len(lines), consumer, np.int32)),
        "generation": pa.array(np.zeros(len(lines), np.int32)),
        "partition": lines["partition"],
        "offset": lines["offset"],
        "producer": pa.array(producer, mask=producer < 0),
        "seq": pa.array(seq, mask=producer < 0),
        "intended_ns": pa.array(intended_ns, mask=intended_ns < 0),
        "received_ns": pa.array(_numbers(lines["timestamp"], 0) * _NS_PER_MS + ahead_ns),
    }
    return pa.table([columns[field.name].cast(field.type) for field in READS], schema=READS)


def _first_reports(lines: pa.Table, schedule: JavaSchedule) -> tuple[Numbers, Numbers]:
    """Return which records have a report, and the first line of each; a record whose send raised may be reported twice."""
    producer, seq = _marks(lines["value"], schedule.text)
    ours = np.flatnonzero((producer == schedule.producer) & (seq < schedule.records))
    row, first = np.unique(seq[ours], return_index=True)
    return row, ours[first]


def _spread(count: int, row: Numbers, line: Numbers, column: Any, missing: Any) -> Any:
    """Return a column of the lines as one of the records."""
    values = pc.fill_null(column, missing).to_numpy()
    spread = np.full(count, missing, values.dtype)
    spread[row] = values[line]
    return spread


def _endings(
    count: int, row: Numbers, line: Numbers, exceptions: Any, retries: int
) -> tuple[Any, Any]:
    """Return each record's error and outcome; the handful of exceptions is judged once each."""
    error, outcome = np.zeros(count, np.int32), np.full(count, _OUTCOMES.index(UNKNOWN), np.int8)
    outcome[row] = _OUTCOMES.index(ACKED)
    told = np.array(exceptions.to_pylist(), dtype=object)[line]
    for exception in {name for name in told if name is not None}:
        code, judged = classify_exception(str(exception), retries)
        failed = row[told == exception]
        error[failed], outcome[failed] = code, _OUTCOMES.index(judged)
    return error, outcome


def _intended(due_ns: Numbers, *known_ns: Numbers) -> Numbers:
    """Return the schedule, moved forward to where none of its records was sent or settled before it was due.

    The throttler began to count some tens of milliseconds before the program says that it has begun, and it sends nothing sooner than some
    milliseconds before its own schedule: so the earliest record of all tells when that began.
    """
    early_ns = min((int((ns - due_ns)[ns >= 0].min(initial=0)) for ns in known_ns), default=0)
    return due_ns + early_ns


def _sent_ns(log: pa.Table | None, schedule: JavaSchedule) -> Numbers:
    """Return the CreateTime of each record that the log has, -1 of the others."""
    sent_ns = np.full(schedule.records, NONE, np.int64)
    if log is None:
        return sent_ns
    seq, mine = _numbers(log["seq"], NONE), _numbers(log["producer"], NONE) == schedule.producer
    within = mine & (seq >= 0) & (seq < schedule.records)
    sent_ns[seq[within]] = (
        _numbers(log["timestamp_ms"], NONE)[within] * _NS_PER_MS + schedule.ahead_ns
    )
    return sent_ns


def _marks(values: Any, text: TextValueFormat) -> tuple[Numbers, Numbers]:
    """Return the producer and the seq in each value of this trial, -1 in others and of the run-in; see `java_value.decode`."""
    prefix, number = _parts(values)
    ours = (prefix // MAX_JAVA_PRODUCERS == text.tag) & (number >= text.warm_up_records)
    return np.where(ours, prefix % MAX_JAVA_PRODUCERS, NONE), np.where(
        ours, number - text.warm_up_records, NONE
    )


def _is_warm_up(values: Any, text: TextValueFormat) -> Any:
    prefix, number = _parts(values)
    return (prefix // MAX_JAVA_PRODUCERS == text.tag) & (number < text.warm_up_records)


def _parts(values: Any) -> tuple[Numbers, Numbers]:
    """Return the prefix and the number behind it; -1 and -1 where a value is of another form."""
    parts = pc.extract_regex(values, _FORM)
    prefix, number = (
        _numbers(pc.struct_field(parts, name).cast(pa.int64()), NONE) for name in ("prefix", "seq")
    )
    return prefix, number


def _meant_ns(attempts: pa.Table, producer: Numbers, seq: Numbers) -> Numbers:
    """Return when each record was meant to be sent, -1 of those that nobody attempted."""
    intended_ns = np.full(seq.size, NONE, np.int64)
    for number in np.unique(producer[producer >= 0]):
        schedule = _numbers(
            attempts.filter(pc.equal(attempts["producer"], int(number)))["intended_ns"], NONE
        )
        known = (producer == number) & (seq < schedule.size)
        intended_ns[known] = schedule[seq[known]]
    return intended_ns


def _numbers(column: Any, missing: int) -> Numbers:
    """Return whole numbers, with something in the place of nulls."""
    found: Numbers = pc.fill_null(column, missing).to_numpy().astype(np.int64)
    return found
