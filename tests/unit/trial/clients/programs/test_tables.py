"""The reports and logs of Kafka's Java programs become the ledger's tables."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from ackbench.experiments.ledger.schema import LOG
from ackbench.experiments.ledger.terms import ACKED, REJECTED, UNKNOWN
from ackbench.experiments.trial.clients.java.log import (
    effective_settings,
    read_java_log,
    version_in,
)
from ackbench.experiments.trial.clients.java.outcomes import classify_exception
from ackbench.experiments.trial.clients.librdkafka.log import timed_out_requests
from ackbench.experiments.trial.clients.programs.program import OutputTail, parse_lines
from ackbench.experiments.trial.clients.programs.tables import (
    ProgramSchedule,
    report_problem,
    reported_attempts,
    reported_reads,
    trim_to_last_known,
)
from ackbench.experiments.trial.clients.record.layout import (
    TextValueFormat,
    trial_tag,
    value_prefix,
)
from ackbench.infra.errors import HarnessError

TOKEN = 99
WARM_UP = 2
TEXT = TextValueFormat(trial_tag(TOKEN), WARM_UP)
BEGIN_MS = 1_000_000
RETRYING = partial(classify_exception, retries=2**31 - 1)
SCHEDULE = ProgramSchedule(3, TEXT, 4, 100, 8, RETRYING, BEGIN_MS * 1_000_000, 0)
REPORTS = ("producer_send_success", "producer_send_error")


def value(seq: int) -> str:
    """Return the value that producer 3 writes for a record of the schedule."""
    return f"{value_prefix(TOKEN, 3)}.{seq + WARM_UP}"


def acked(seq: int, at_ms: int, offset: int | None = None) -> str:
    """Return the program's report of an acknowledged record."""
    report = {
        "name": "producer_send_success",
        "timestamp": BEGIN_MS + at_ms,
        "value": value(seq),
        "partition": 1,
        "topic": "t",
    }
    return json.dumps({**report, "key": "0", "offset": seq if offset is None else offset})


def failed(seq: int, at_ms: int, exception: str) -> str:
    """Return the program's report of a failed record."""
    report = {
        "name": "producer_send_error",
        "timestamp": BEGIN_MS + at_ms,
        "value": value(seq),
        "topic": "t",
        "key": "0",
        "message": "why",
    }
    return json.dumps({**report, "exception": f"class org.apache.kafka.common.errors.{exception}"})


def log(**sent_ms: int) -> pa.Table:
    """Return a final read with these records of producer 3 and their CreateTime."""
    rows = [
        (1, number, 3, int(seq[1:]), BEGIN_MS + at_ms, True, 0, True)
        for number, (seq, at_ms) in enumerate(sent_ms.items())
    ]
    return pa.table(
        [pa.array([row[at] for row in rows], field.type) for at, field in enumerate(LOG)],
        schema=LOG,
    )


def attempts(
    *lines: str, schedule: ProgramSchedule = SCHEDULE, final_read: pa.Table | None = None
) -> pa.Table:
    """Return the attempts of a program that reported these lines."""
    return reported_attempts(
        parse_lines("".join(f"{line}\n" for line in lines).encode(), *REPORTS), final_read, schedule
    )


def test_each_record_has_the_outcome_that_the_program_reported() -> None:
    """Acked with its offset, unknown with its error, unknown if never reported."""
    table = attempts(acked(0, 5), failed(1, 30_000, "TimeoutException"), acked(3, 40))
    assert table["outcome"].to_pylist() == [ACKED, UNKNOWN, UNKNOWN, ACKED]
    assert table["error"].to_pylist() == [0, 7, 0, 0]
    assert table["settled_ns"].to_pylist() == [
        (BEGIN_MS + 5) * 10**6,
        (BEGIN_MS + 30_000) * 10**6,
        None,
        (BEGIN_MS + 40) * 10**6,
    ]
    assert table["offset"].to_pylist() == [0, None, None, 3]
    assert table["partition"].to_pylist() == [1, None, None, 1]


def test_the_schedule_is_shifted_so_that_no_record_was_sent_early() -> None:
    """The throttler starts before the program reports it. Keys continue from the warm-up."""
    table = attempts(acked(0, 5), final_read=log(s0=0, s1=8, s2=25))
    assert table["intended_ns"].to_pylist() == [(BEGIN_MS + ms) * 10**6 for ms in (-2, 8, 18, 28)]
    assert table["sent_ns"].to_pylist() == [
        BEGIN_MS * 10**6,
        (BEGIN_MS + 8) * 10**6,
        (BEGIN_MS + 25) * 10**6,
        None,
    ]
    assert table["key"].to_pylist() == [2, 3, 4, 5]


def test_without_acknowledgements_the_offset_is_null() -> None:
    """Java reports -1."""
    assert attempts(acked(0, 1, offset=-1))["offset"].to_pylist()[0] is None


def test_warm_up_records_other_lines_and_incomplete_lines_are_ignored() -> None:
    """Output of the JVM in between is ignored too."""
    lines = [
        acked(-1, 1),
        acked(0, 5).replace(str(value_prefix(TOKEN, 3)), "77"),
        "[warning] of the JVM",
        '{"name":"startup_complete","timestamp":1}',
    ]
    table = reported_attempts(
        parse_lines(("\n".join(lines) + "\n" + acked(1, 9)[:-4]).encode(), *REPORTS), None, SCHEDULE
    )
    assert set(table["outcome"].to_pylist()) == {UNKNOWN}


def test_without_any_report_all_outcomes_are_unknown() -> None:
    """An empty output is not an error."""
    assert attempts()["outcome"].to_pylist() == [UNKNOWN] * 4


def test_a_killed_producers_attempts_end_at_the_last_known_record() -> None:
    """The last record that was reported or is in the log; sequence numbers stay dense."""
    assert trim_to_last_known(attempts(acked(1, 9)), log())["seq"].to_pylist() == [0, 1]
    assert trim_to_last_known(attempts(acked(1, 9)), log(s2=7))["seq"].to_pylist() == [0, 1, 2]
    assert trim_to_last_known(attempts(), log()).num_rows == 0


def test_received_records_get_their_intended_time_from_the_attempts() -> None:
    """Null for foreign values and records without attempt; warm-up records are left out."""
    report = {
        "name": "record_data",
        "timestamp": BEGIN_MS + 50,
        "partition": 1,
        "topic": "t",
        "key": "0",
    }
    read = [
        {**report, "offset": at, "value": text}
        for at, text in enumerate([value(-1), value(1), "foreign", value(7)])
    ]
    lines = parse_lines("".join(json.dumps(line) + "\n" for line in read).encode(), "record_data")
    table = reported_reads(lines, attempts(), 0, TEXT, 0)
    assert table["offset"].to_pylist() == [1, 2, 3]
    assert table["seq"].to_pylist() == [1, None, 7]
    assert table["intended_ns"].to_pylist() == [(BEGIN_MS + 10) * 10**6, None, None]
    assert table["received_ns"].to_pylist() == [(BEGIN_MS + 50) * 10**6] * 3


@pytest.mark.parametrize(
    ("exception", "retries", "outcome"),
    [
        ("TimeoutException", 0, UNKNOWN),
        ("NetworkException", 0, UNKNOWN),
        ("NotEnoughReplicasAfterAppendException", 0, UNKNOWN),
        ("NotEnoughReplicasException", 5, UNKNOWN),
        ("NotEnoughReplicasException", 0, REJECTED),
        ("RecordTooLargeException", 5, REJECTED),
        ("BufferExhaustedException", 5, REJECTED),
        ("SomethingNewException", 0, UNKNOWN),
    ],
)
def test_a_record_is_rejected_only_if_no_attempt_can_have_been_stored(
    exception: str, retries: int, outcome: str
) -> None:
    """Earlier attempts may have been stored, unless every attempt would have been refused."""
    assert (
        classify_exception(f"class org.apache.kafka.common.errors.{exception}", retries)[1]
        == outcome
    )


def test_a_growing_output_is_read_by_complete_lines(tmp_path: Path) -> None:
    """An incomplete line is returned once it is complete."""
    path = tmp_path / "out"
    line = acked(0, 1) + "\n"
    path.write_text(line + line[:10])
    tail = OutputTail(path, "producer_send_success")
    assert len(tail.new_lines()) == 1
    path.write_text(line + line)
    assert len(tail.new_lines()) == 1
    assert tail.new_lines() == []


LINES = """\
[2026-11-21T15:36:28,046Z] INFO C values: \n\tacks = -1\n\tbootstrap.servers = [a:1, \
b:2]\n\tssl.protocol = TLSv1.3\n\ttransactional.id = null
 (org.apache.kafka.common.config.AbstractConfig)
[2026-11-21T15:36:28,046Z] INFO Kafka version: 4.3.1 \
(org.apache.kafka.common.utils.AppInfoParser)
[2026-11-21T15:36:28,047Z] DEBUG [Producer clientId=p] Updated cluster metadata \
updateVersion 2 to MetadataSnapshot{clusterId='x', nodes={}, \
partitions=[PartitionMetadata(error=NONE, partition=t1-0, leader=Optional[3], \
leaderEpoch=Optional[5], replicas=3,1,2, isr=3,1,2, offlineReplicas=), \
PartitionMetadata(error=NONE, partition=t1-1, leader=Optional.empty, \
leaderEpoch=Optional.empty, replicas=1, isr=1, offlineReplicas=), \
PartitionMetadata(error=NONE, partition=t11-0, leader=Optional[9], \
leaderEpoch=Optional[0], replicas=9, isr=9, offlineReplicas=)], controller=null} (M)
[2026-11-21T15:36:31,062Z] INFO [Producer clientId=p] Disconnecting from node 3 due to \
request timeout. (org.apache.kafka.clients.NetworkClient)
[2026-11-21T15:36:31,071Z] INFO [Producer clientId=p] Cancelled in-flight PRODUCE request \
with correlation id 260 due to node 3 being disconnected (e: 1ms) (N)
[2026-11-21T15:36:31,071Z] INFO [Producer clientId=p] Cancelled in-flight PRODUCE request \
with correlation id 261 due to node 3 being disconnected (e: 1ms) (N)
[2026-11-21T15:36:31,073Z] WARN [Producer clientId=p] Got error produce response with \
correlation id 260 on topic-partition t1-0, retrying (9 left).
[2026-11-21T15:36:32,000Z] INFO [Producer clientId=p] Node 1 disconnected. \
(org.apache.kafka.clients.NetworkClient)
[2026-11-21T15:36:33,000Z] INFO [Producer clientId=p] Cancelled in-flight PRODUCE request \
with correlation id 9 due to node 1 being disconnected (e: 1ms) (N)
"""
"""Shortened lines of Kafka 4.3.1."""


def test_the_java_log_yields_the_same_events_as_librdkafkas() -> None:
    """Changed leaders, timed-out requests with their number, lost connections."""
    events = list(read_java_log(LINES, "producer 0", "t1", 0))
    assert [(event.kind, event.node, event.partition, event.leader_epoch) for event in events] == [
        ("leader_learned", 3, 0, 5),
        ("leader_learned", None, 1, None),
        ("timed_out", 3, None, None),
        ("disconnected", 1, None, None),
    ]
    assert timed_out_requests(events[2]) == 2
    assert all(event.detail.startswith("producer 0: ") for event in events)


BEFORE_3_0 = """\
[2026-11-27T00:01:53,937Z] DEBUG [Producer clientId=a] Disconnecting from node 2 due to request \
timeout. (org.apache.kafka.clients.NetworkClient)
[2026-11-27T00:01:54,006Z] WARN [Producer clientId=a] Got error produce response with correlation \
id 10 on topic-partition t1-0, retrying (9 attempts left). Error: NETWORK_EXCEPTION (o.a.k.Sender)
[2026-11-27T00:01:54,018Z] WARN [Producer clientId=a] Received invalid metadata error in produce \
request on partition t1-0 due to org.apache.kafka.common.errors.NetworkException: (o.a.k.Sender)
[2026-11-27T00:01:54,024Z] WARN [Producer clientId=a] Got error produce response with correlation \
id 11 on topic-partition t1-0, retrying (9 attempts left). Error: NETWORK_EXCEPTION (o.a.k.Sender)
[2026-11-27T00:01:54,025Z] WARN [Producer clientId=a] Got error produce response with correlation \
id 11 on topic-partition t1-1, retrying (9 attempts left). Error: NETWORK_EXCEPTION (o.a.k.Sender)
[2026-11-27T00:01:55,100Z] INFO [Producer clientId=a] Something else (o.a.k.Sender)
[2026-11-27T00:01:55,101Z] WARN [Producer clientId=a] Got error produce response with correlation \
id 12 on topic-partition t1-0, retrying (9 attempts left). Error: NETWORK_EXCEPTION (o.a.k.Sender)
"""


def test_the_log_of_an_old_java_client_has_the_number_of_requests_that_timed_out() -> None:
    """Before 3.0 it names each partition of a failed request, and no cancelled request."""
    (event,) = read_java_log(BEFORE_3_0, "producer 0", "t1", 0)
    assert (event.kind, event.node, timed_out_requests(event)) == ("timed_out", 2, 2)


def test_the_java_log_contains_settings_and_version() -> None:
    """Lists are comma-separated as in properties files; null settings are left out."""
    assert effective_settings(LINES, {}) == {
        "acks": "-1",
        "bootstrap.servers": "a:1,b:2",
        "ssl.protocol": "TLSv1.3",
    }
    assert version_in(LINES) == "4.3.1"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Optional[", "Optional[x"),
        ("2026-", "2026-99"),
        ("partition=t1-0", "partition=t1-" + "9" * 5000),
    ],
)
def test_a_line_of_the_java_log_with_impossible_values_is_no_event(old: str, new: str) -> None:
    """Of the node's number, of a day, of a partition: brokers decide what clients log."""
    assert old in LINES
    damaged = list(read_java_log(LINES.replace(old, new), "producer 0", "t1", 0))
    assert len(damaged) < len(list(read_java_log(LINES, "producer 0", "t1", 0)))


def test_a_java_log_line_made_of_beginnings_takes_no_more_than_linear_time() -> None:
    """Each beginning was searched to the end of the line."""
    disconnecting = "Disconnecting from node 1 due to request timeout."
    cancelled = "Cancelled in-flight x request " * 100_000
    lines = [f"[2026-11-21T14:36:23,914Z] INFO {text}" for text in (disconnecting, cancelled)]
    (event,) = read_java_log("\n".join(lines), "producer 0", "t1", 0)
    assert event.kind == "timed_out"


def exact(line: str, **fields: object) -> str:
    """Return a report with further fields."""
    return json.dumps({**json.loads(line), **fields})


def test_a_program_that_reports_exact_times_has_them_in_the_ledger() -> None:
    """In the place of milliseconds, and of the record's CreateTime."""
    line = exact(acked(1, 5), sent_ns=BEGIN_MS * 10**6 + 123, acked_ns=BEGIN_MS * 10**6 + 456)
    table = attempts(acked(0, 5), line, final_read=log(s0=1, s1=2))
    assert table["sent_ns"].to_pylist()[:2] == [(BEGIN_MS + 1) * 10**6, BEGIN_MS * 10**6 + 123]
    assert table["settled_ns"].to_pylist()[:2] == [(BEGIN_MS + 5) * 10**6, BEGIN_MS * 10**6 + 456]


@pytest.mark.parametrize(
    ("fields", "outcome", "error"),
    [
        ({"outcome": "rejected", "code": 10}, REJECTED, 10),
        ({"outcome": "unknown", "code": 19}, UNKNOWN, 19),
        ({"outcome": "acked"}, UNKNOWN, 7),
        ({}, UNKNOWN, 7),
    ],
)
def test_what_a_line_says_of_its_outcome_stands_before_its_exception(
    fields: dict[str, object], outcome: str, error: int
) -> None:
    """But no error line makes a record acknowledged."""
    table = attempts(exact(failed(0, 5, "TimeoutException"), **fields))
    assert (table["outcome"][0].as_py(), table["error"][0].as_py()) == (outcome, error)


def test_an_error_without_an_exception_is_no_acknowledgement() -> None:
    """A line's name says what it is."""
    line = json.loads(failed(0, 5, "TimeoutException"))
    del line["exception"]
    table = attempts(json.dumps(line))
    assert (table["outcome"][0].as_py(), table["partition"][0].as_py()) == (UNKNOWN, None)


@pytest.mark.parametrize(
    ("reported", "problem"),
    [([0, 1, 2], None), ([0, 1, 1], "it reports record 3 2 times"), ([0, 4], "it reports '")],
)
def test_reports_that_cannot_be_are_found(reported: list[int], problem: str | None) -> None:
    """A record twice, or one that nobody asked for."""
    lines = parse_lines("".join(f"{acked(seq, 5)}\n" for seq in reported).encode(), *REPORTS)
    found = report_problem(lines, SCHEDULE)
    assert found == problem or (problem is not None and found is not None and problem in found)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"name": "producer_send_success", "timestamp": "x"}', "a line that cannot be read"),
        (b'{"name": "producer_send_success", "timestamp":', "a line that cannot be read"),
        (b'{"name": "producer_send_success", "v": "' + b"x" * 10**6 + b'"}', "a line of 1,000,0"),
    ],
)
def test_a_line_that_cannot_be_read_is_an_error_of_the_program(line: bytes, message: str) -> None:
    """Not a record less."""
    with pytest.raises(HarnessError, match=message):
        parse_lines(line + b"\n", *REPORTS)
