"""The reports of clients' programs as the ledger's tables.

A line's timestamp and a record's CreateTime are wall-clock milliseconds, rounded down. Times
derived from them have that resolution; a line's `sent_ns`, `acked_ns` and `received_ns` replace
them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ackbench.experiments.ledger.schema import ATTEMPTS, READS
from ackbench.experiments.ledger.terms import ACKED, REJECTED, UNKNOWN
from ackbench.experiments.trial.clients.record.layout import MAX_TEXT_PRODUCERS, TextValueFormat

NO_CODE: Final = -1
"""`UNKNOWN_SERVER_ERROR`; also for exceptions without an error number."""
SUCCESS: Final = "producer_send_success"
ERROR: Final = "producer_send_error"
_NS_PER_MS: Final = 1_000_000
_OUTCOMES: Final = (ACKED, REJECTED, UNKNOWN)
Numbers = np.ndarray[tuple[int], np.dtype[np.int64]]
NONE: Final = -1
"""In the place of a missing number."""
_TEXT_VALUE: Final = r"^(?P<prefix>0|[1-9][0-9]{0,9})\.(?P<seq>0|[1-9][0-9]{0,17})$"


@dataclass(frozen=True)
class ProgramSchedule:
    """The schedule of a program's records, and the meaning of its exceptions."""

    producer: int
    text: TextValueFormat
    records: int
    """The number of records, without the warm-up records."""
    rate_records_per_s: float
    keys: int
    classify: Callable[[str], tuple[int, str]]
    """Returns an exception's error number and its record's outcome."""
    begin_ns: int
    """When the program reported its start, on the trial's clock.

    Its throttler may have started slightly earlier.
    """
    ahead_ns: int
    """How far the trial's clock is ahead of the wall clock."""

    def due_ns(self) -> Numbers:
        """Return when each record was due."""
        return self.begin_ns + (
            np.arange(self.records, dtype=np.int64) * 1e9 / self.rate_records_per_s
        ).astype(np.int64)


def reported_attempts(lines: pa.Table, log: pa.Table | None, schedule: ProgramSchedule) -> pa.Table:
    """Return a producer's attempts; schema `ATTEMPTS`.

    The outcome of a record that was never reported is unknown. The sent time of a record is the
    program's own, or its CreateTime, if the log has the record.

    Args:
        lines: `producer_send_success` and `producer_send_error`; schema `LINE_SCHEMA`.
        log: the final read; `None` if its timestamps are not CreateTime
            (`message.timestamp.type`).
        schedule: the producer's schedule.
    """
    count = schedule.records
    row, line = _first_reports(lines, schedule)
    reported = np.zeros(count, np.bool_)
    reported[row] = True
    acked = _scatter(count, row, line, pc.equal(lines["name"], SUCCESS), False)
    error, outcome = _outcomes(count, row, line, lines, schedule.classify)
    offset = _scatter(count, row, line, lines["offset"], NONE)
    sent_ns = _precise(
        _sent_ns(log, schedule),
        _scatter(count, row, line, lines["sent_ns"], NONE),
        schedule.ahead_ns,
    )
    settled_ns = _precise(
        np.where(
            reported,
            _scatter(count, row, line, lines["timestamp"], NONE) * _NS_PER_MS + schedule.ahead_ns,
            NONE,
        ),
        _scatter(count, row, line, lines["acked_ns"], NONE),
        schedule.ahead_ns,
    )
    columns = {
        "producer": pa.array(np.full(count, schedule.producer, np.int32)),
        "seq": pa.array(np.arange(count, dtype=np.int64)),
        "key": _keys(schedule),
        "intended_ns": pa.array(_intended_ns(schedule.due_ns(), sent_ns, settled_ns)),
        "sent_ns": pa.array(sent_ns, mask=sent_ns < 0),
        "settled_ns": pa.array(settled_ns, mask=~reported),
        "outcome": pa.DictionaryArray.from_arrays(pa.array(outcome), pa.array(_OUTCOMES)),
        "error": pa.array(error),
        "partition": pa.array(_scatter(count, row, line, lines["partition"], NONE), mask=~acked),
        "offset": pa.array(offset, mask=~acked | (offset < 0)),
    }
    complete = {
        field.name: columns[field.name] if field.name in columns else pa.nulls(count, field.type)
        for field in ATTEMPTS
    }
    return pa.table([complete[field.name].cast(field.type) for field in ATTEMPTS], schema=ATTEMPTS)


def report_problem(lines: pa.Table, schedule: ProgramSchedule) -> str | None:
    """Return why a producer's reports cannot be trusted; `None`: each is of one record of its own.

    Args:
        lines: as of `reported_attempts`.
        schedule: the producer's schedule.
    """
    prefix, number = _parts(lines["value"])
    own = prefix == schedule.text.tag * MAX_TEXT_PRODUCERS + schedule.producer
    asked = own & (number >= 0) & (number < schedule.records + schedule.text.warm_up_records)
    if not asked.all():
        value = lines["value"][int(np.flatnonzero(~asked)[0])].as_py()
        return f"it reports {str(value)[:40]!r}, which it was not asked to send"
    numbers, counts = np.unique(number, return_counts=True)
    if (counts > 1).any():
        return f"it reports record {numbers[counts > 1][0]} {counts[counts > 1][0]} times"
    return None


def trim_to_last_known(attempts: pa.Table, log: pa.Table) -> pa.Table:
    """Return a crashed producer's attempts up to the last one that was reported or is in the log.

    The sequence numbers stay dense. Whether later records were attempted is not measurable.
    """
    stored = log.filter(pc.is_in(log["producer"], pc.unique(attempts["producer"])))
    known = pc.or_(
        pc.is_valid(attempts["settled_ns"]), pc.is_in(attempts["seq"], pc.drop_null(stored["seq"]))
    )
    last = pc.max(pc.filter(attempts["seq"], known)).as_py()
    return attempts.slice(0, 0 if last is None else last + 1)


def reported_reads(
    lines: pa.Table,
    attempts: pa.Table,
    consumer: int,
    text: TextValueFormat,
    ahead_ns: int,
    generation: int = 0,
) -> pa.Table:
    """Return the records that a consumer received, without warm-up records; schema `READS`.

    Args:
        lines: `record_data`; schema `LINE_SCHEMA`.
        attempts: of all producers, for the intended times: text values do not carry them.
        consumer: the consumer's number.
        text: the format of the trial's values.
        ahead_ns: how far the trial's clock is ahead of the wall clock.
        generation: of a member, its process.
    """
    lines = lines.filter(pa.array(~_is_warm_up(lines["value"], text)))
    producer, seq = _record_ids(lines["value"], text)
    intended_ns = _lookup_intended_ns(attempts, producer, seq)
    columns = {
        "consumer": pa.array(np.full(len(lines), consumer, np.int32)),
        "generation": pa.array(np.full(len(lines), generation, np.int32)),
        "partition": lines["partition"],
        "offset": lines["offset"],
        "producer": pa.array(producer, mask=producer < 0),
        "seq": pa.array(seq, mask=producer < 0),
        "intended_ns": pa.array(intended_ns, mask=intended_ns < 0),
        "received_ns": pa.array(
            _precise(
                _numbers(lines["timestamp"], 0) * _NS_PER_MS + ahead_ns,
                _numbers(lines["received_ns"], NONE),
                ahead_ns,
            )
        ),
    }
    return pa.table([columns[field.name].cast(field.type) for field in READS], schema=READS)


def _first_reports(lines: pa.Table, schedule: ProgramSchedule) -> tuple[Numbers, Numbers]:
    """Return the records that were reported, and the index of each one's first line.

    A record whose send raised an exception may be reported twice.
    """
    producer, seq = _record_ids(lines["value"], schedule.text)
    own = np.flatnonzero((producer == schedule.producer) & (seq < schedule.records))
    row, first = np.unique(seq[own], return_index=True)
    return row, own[first]


def _keys(schedule: ProgramSchedule) -> pa.Array:
    """Return each record's key. A program counts keys from its first warm-up record on."""
    if not schedule.keys:
        return pa.nulls(schedule.records, pa.int64())
    numbers = np.arange(schedule.records, dtype=np.int64) + schedule.text.warm_up_records
    return pa.array(numbers % schedule.keys)


def _scatter(count: int, row: Numbers, line: Numbers, column: Any, missing: Any) -> Any:
    """Return a column of the lines as a column of the records."""
    values = pc.fill_null(column, missing).to_numpy()
    scattered = np.full(count, missing, values.dtype)
    scattered[row] = values[line]
    return scattered


def _outcomes(
    count: int,
    row: Numbers,
    line: Numbers,
    lines: pa.Table,
    classify: Callable[[str], tuple[int, str]],
) -> tuple[Any, Any]:
    """Return each record's error and outcome; each distinct report of an error is read once.

    What a line says itself, in `code` and `outcome`, stands before what its exception means.
    """
    error, outcome = np.zeros(count, np.int32), np.full(count, _OUTCOMES.index(UNKNOWN), np.int8)
    outcome[row] = _OUTCOMES.index(ACKED)
    failed = np.flatnonzero(pc.not_equal(lines["name"], SUCCESS).to_numpy()[line])
    fields = lines.select(["exception", "code", "outcome"]).take(line[failed])
    reports = list(zip(*fields.to_pydict().values(), strict=True))
    known = {report: _read_error(report, classify) for report in set(reports)}
    for place, report in zip(row[failed], reports, strict=True):
        error[place], outcome[place] = known[report]
    return error, outcome


def _read_error(
    report: tuple[Any, ...], classify: Callable[[str], tuple[int, str]]
) -> tuple[int, int]:
    """Return the error number and the place in `_OUTCOMES` of a line's report of an error."""
    exception, code, outcome = report
    known_code, meant = classify(str(exception))
    stated = outcome if outcome in (REJECTED, UNKNOWN) else meant
    return known_code if code is None else code, _OUTCOMES.index(stated)


def _precise(by_ms: Numbers, own_ns: Numbers, ahead_ns: int) -> Numbers:
    """Return the program's own times, and where it reports none, those in milliseconds."""
    return np.where(own_ns < 0, by_ms, own_ns + ahead_ns)


def _intended_ns(due_ns: Numbers, *known_ns: Numbers) -> Numbers:
    """Return the schedule, shifted so that no record was sent or settled before it was due.

    The throttler starts to count some tens of milliseconds before the program reports its start,
    and sends no record more than a few milliseconds early. So the earliest record shows when the
    schedule began.
    """
    early_ns = min((int((ns - due_ns)[ns >= 0].min(initial=0)) for ns in known_ns), default=0)
    return due_ns + early_ns


def _sent_ns(log: pa.Table | None, schedule: ProgramSchedule) -> Numbers:
    """Return the CreateTime of each record in the log, -1 for the others."""
    sent_ns = np.full(schedule.records, NONE, np.int64)
    if log is None:
        return sent_ns
    seq, own = _numbers(log["seq"], NONE), _numbers(log["producer"], NONE) == schedule.producer
    within = own & (seq >= 0) & (seq < schedule.records)
    sent_ns[seq[within]] = (
        _numbers(log["timestamp_ms"], NONE)[within] * _NS_PER_MS + schedule.ahead_ns
    )
    return sent_ns


def _record_ids(values: Any, text: TextValueFormat) -> tuple[Numbers, Numbers]:
    """Return producer and seq of each value of this trial; -1 for others and warm-up records."""
    prefix, number = _parts(values)
    is_record = (prefix // MAX_TEXT_PRODUCERS == text.tag) & (number >= text.warm_up_records)
    producer = np.where(is_record, prefix % MAX_TEXT_PRODUCERS, NONE)
    return producer, np.where(is_record, number - text.warm_up_records, NONE)


def _is_warm_up(values: Any, text: TextValueFormat) -> Any:
    prefix, number = _parts(values)
    return (prefix // MAX_TEXT_PRODUCERS == text.tag) & (number < text.warm_up_records)


def _parts(values: Any) -> tuple[Numbers, Numbers]:
    """Return prefix and number of each text value; -1 and -1 for values of another format."""
    parts = pc.extract_regex(values, _TEXT_VALUE)
    prefix, number = (
        _numbers(pc.struct_field(parts, name).cast(pa.int64()), NONE) for name in ("prefix", "seq")
    )
    return prefix, number


def _lookup_intended_ns(attempts: pa.Table, producer: Numbers, seq: Numbers) -> Numbers:
    """Return each record's intended time, -1 for records that no producer attempted."""
    intended_ns = np.full(seq.size, NONE, np.int64)
    for number in np.unique(producer[producer >= 0]):
        schedule = _numbers(
            attempts.filter(pc.equal(attempts["producer"], int(number)))["intended_ns"], NONE
        )
        known = (producer == number) & (seq < schedule.size)
        intended_ns[known] = schedule[seq[known]]
    return intended_ns


def _numbers(column: Any, missing: int) -> Numbers:
    """Return a column as 64-bit integers, with `missing` in the place of nulls."""
    numbers: Numbers = pc.fill_null(column, missing).to_numpy().astype(np.int64)
    return numbers
