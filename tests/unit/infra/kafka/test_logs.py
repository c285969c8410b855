"""Events of broker logs, from lines that Kafka 4.3.1 logged.

The leader crashed while its followers were paused.
"""

import pytest

from ackbench.infra.kafka.logs import BrokerLogEvent, read_broker_log

TOPIC = "trial-000-leader-crash-behind"
FENCED = (
    "[2026-11-21T12:24:54,612Z] INFO [QuorumController id=1] Fencing broker 3 at epoch 11 because "
    "its session has timed out. "
    "(org.apache.kafka.controller.ReplicationControlManager)"
)
UNFENCED = (
    "[2026-11-21T12:24:57,154Z] INFO [QuorumController id=1] The request from broker 3 to unfence "
    "has been granted because it has caught up with the "
    "offset of its register broker record 83. (org.apache.kafka.controller.BrokerHeartbeatManager)"
)
LEADS = (
    f"[2026-11-21T12:24:54,664Z] INFO [Broker id=1] Leader {TOPIC}-0 with topic id "
    "Some(WaBK6XjFTaW_QtALuDIUqA) starts at leader epoch 1 from offset "
    "15103 with partition epoch 1, high watermark 15045, ISR [1,2], adding replicas [] and "
    "removing replicas [] . Previous leader Some(3) and previous "
    "leader epoch was 0. (state.change.logger)"
)
SKIPPED = (
    "[2026-11-21T12:24:57,292Z] INFO [Broker id=1] Skipped the become-leader state change for "
    f"{TOPIC}-0 with topic id Some(WaBK6XjFTaW_QtALuDIUqA), "
    "partition registration PartitionRegistration(replicas=[3, 1, 2], "
    "directories=[KN7Yle_-SZC5x-f0CwWmPg, cLPgPOGSTwSfFmAnGhgWFQ, "
    "l5JV7mLjTWuG5vv0tpA5Ig], isr=[1, 2, 3], removingReplicas=[], addingReplicas=[], elr=[], "
    "lastKnownElr=[], leader=1, "
    "leaderRecoveryState=RECOVERED, leaderEpoch=1, partitionEpoch=2) and isNew=false since it is "
    "already the leader with leader epoch 1. Current high "
    "watermark 77054, ISR [1,2,3], adding replicas [] and removing replicas []. "
    "(state.change.logger)"
)
UPDATED = (
    f"[2026-11-21T12:24:57,290Z] INFO [Partition {TOPIC}-0 broker=1] ISR updated to 2,1,3  and "
    "version updated to 2 (kafka.cluster.Partition)"
)
TRUNCATED = (
    f"[2026-11-21T12:24:57,093Z] INFO [UnifiedLog partition={TOPIC}-0, dir=/a "
    "folder/nodes/3/data] Truncating to offset 15103 "
    "(org.apache.kafka.storage.internals.log.UnifiedLog)"
)
RECOVERING = (
    f"[2026-11-21T14:36:23,894Z] INFO [LogLoader partition={TOPIC}-0, dir=/a folder/nodes/1/data] "
    "Recovering unflushed segment 0. 0 recovered for "
    f"{TOPIC}-0. (org.apache.kafka.storage.internals.log.LogLoader)"
)
LOADED = (
    f"[2026-11-21T14:36:23,914Z] INFO Completed load of Log(dir=/a folder/nodes/1/data/{TOPIC}-0, "
    f"topicId=MAtMjQ14Rhyhs27HGtRW1w, topic={TOPIC}, "
    "partition=0, highWatermark=0, lastStableOffset=0, logStartOffset=0, logEndOffset=15082) with "
    "1 segments, local-log-start-offset 0 and "
    "log-end-offset 15082 in 31ms (6/6 completed in /a folder/nodes/1/data) (kafka.log.LogManager)"
)
CORRUPT = (
    f"[2026-11-21T14:36:23,899Z] WARN [LogLoader partition={TOPIC}-0, dir=/a folder/nodes/1/data] "
    "Corruption found in segment 0, truncating to offset "
    "4711 (org.apache.kafka.storage.internals.log.LogLoader)"
)
SHUT_DOWN = (
    "[2026-11-21T15:57:23,812Z] INFO [BrokerServer id=1] shut down completed "
    "(kafka.server.BrokerServer)"
)
CONTROLLER_SHUT_DOWN = (
    "[2026-11-23T07:17:35,693Z] INFO [QuorumController id=4] closed event queue. "
    "(org.apache.kafka.queue.KafkaEventQueue)"
)
IRRELEVANT = (
    (
        f"[2026-11-21T12:24:45,315Z] INFO [UnifiedLog partition={TOPIC}-0, dir=/a "
        "folder/nodes/2/data] Truncating to 0 has no effect as the largest offset in "
        "the log is -1 (org.apache.kafka.storage.internals.log.UnifiedLog)"
    ),
    (
        "[2026-11-21T12:24:55,160Z] INFO [UnifiedLog partition=__consumer_offsets-1, dir=/a "
        "folder/nodes/2/data] Truncating to offset 7 "
        "(org.apache.kafka.storage.internals.log.UnifiedLog)"
    ),
    (
        "[2026-11-21T12:24:58,409Z] INFO [QuorumController id=3] Replayed "
        "BrokerRegistrationChangeRecord modifying the registration for broker 3: "
        "BrokerRegistrationChangeRecord(brokerId=3, brokerEpoch=10, fenced=1, "
        "inControlledShutdown=0, logDirs=[], cordonedLogDirs=null) "
        "(org.apache.kafka.controller.ClusterControlManager)"
    ),
    (
        f"[2026-11-21T12:24:57,003Z] INFO [Broker id=3] Follower {TOPIC}-0 starts at leader epoch "
        "1 from offset 19969 with partition epoch 1 and high "
        "watermark 0. Current leader is 1. Previous leader None and previous leader epoch was -1. "
        "(state.change.logger)"
    ),
    "java.io.IOException: Connection to 127.0.0.1:21760 (id: 3 rack: null isFenced: false) failed.",
)


def only_event(line: str, logged_by: int = 1) -> BrokerLogEvent:
    """Return the only event of a log."""
    (event,) = read_broker_log(line + "\n", logged_by, TOPIC)
    return event


def facts(event: BrokerLogEvent) -> tuple[str, int | None, int | None, int | None, int | None]:
    """Return an event without its time and line."""
    return event.kind, event.node, event.partition, event.leader_epoch, event.offset


@pytest.mark.parametrize(
    ("line", "logged_by", "expected"),
    [
        (FENCED, 1, ("fenced", 3, None, None, None)),
        (UNFENCED, 1, ("unfenced", 3, None, None, None)),
        (LEADS, 1, ("became_leader", 1, 0, 1, 15103)),
        (SKIPPED, 1, ("isr_changed", 1, 0, 1, None)),
        (UPDATED, 1, ("isr_changed", 1, 0, None, None)),
        (TRUNCATED, 3, ("truncated", 3, 0, None, 15103)),
        (CORRUPT, 1, ("truncated", 1, 0, None, 4711)),
        (RECOVERING, 1, ("recovering", 1, 0, None, 0)),
        (LOADED, 1, ("loaded", 1, 0, None, 15082)),
        (SHUT_DOWN, 1, ("shut_down", 1, None, None, None)),
        (CONTROLLER_SHUT_DOWN, 4, ("shut_down", 4, None, None, None)),
    ],
)
def test_each_line_becomes_an_event_with_its_own_values(
    line: str, logged_by: int, expected: tuple[str, int, int | None, int | None, int | None]
) -> None:
    """Node, partition, leader epoch and offset come from the line; missing ones are `None`."""
    assert facts(only_event(line, logged_by)) == expected


def test_a_log_that_was_recovered_while_it_was_loaded_is_recovered() -> None:
    """At the next start, after a clean shutdown, the same log is only loaded."""
    events = read_broker_log(f"{RECOVERING}\n{LOADED}\n{LOADED}", 1, TOPIC)
    assert [(event.kind, event.offset) for event in events] == [
        ("recovering", 0),
        ("recovered", 15082),
        ("loaded", 15082),
    ]


@pytest.mark.parametrize("line", IRRELEVANT)
def test_an_irrelevant_line_is_no_event(line: str) -> None:
    """No-op truncation, another topic, a replayed metadata record, a follower, a stack trace."""
    assert read_broker_log(line, 1, TOPIC) == ()


def test_the_time_of_an_event_is_the_end_of_its_millisecond() -> None:
    """Timestamps are rounded down, so the event happened within the millisecond before it."""
    assert only_event(FENCED).wall_ns == 1_795_263_894_613_000_000


def test_an_isr_change_that_is_logged_twice_is_one_event() -> None:
    """The leader logs it when the controller accepts it, and again when the metadata arrives."""
    events = read_broker_log(f"{LEADS}\n{UPDATED}\n{SKIPPED}", 1, TOPIC)
    assert [(event.kind, event.isr) for event in events] == [
        ("became_leader", (1, 2)),
        ("isr_changed", (1, 2, 3)),
    ]


@pytest.mark.parametrize(
    "line", [LEADS, SKIPPED, UPDATED, TRUNCATED, FENCED, RECOVERING, LOADED, CORRUPT, SHUT_DOWN]
)
def test_a_truncated_line_is_an_unparsed_event(line: str) -> None:
    """The broker crashed while it wrote it: it is neither dropped nor read as another number."""
    assert only_event(line[:-25]).kind == "unparsed"


def test_a_line_that_was_appended_to_half_a_line_is_parsed() -> None:
    """A crashed broker leaves no line end, and the next process appends to its line."""
    events = read_broker_log(
        "[2026-11-21T12:24:50,000Z] INFO [Partition broker" + TRUNCATED, 3, TOPIC
    )
    assert [event.offset for event in events] == [15103]


def test_a_timestamp_without_a_time_zone_is_unparsed() -> None:
    """It could be local time."""
    assert only_event(FENCED.replace("612Z", "612")).kind == "unparsed"


def test_a_topic_is_not_confused_with_one_that_has_it_as_prefix() -> None:
    """Partition 0 of topic `a-1` is no partition of topic `a`."""
    line = TRUNCATED.replace(f"{TOPIC}-0", f"{TOPIC}-1-0")
    assert not [event for event in read_broker_log(line, 3, TOPIC) if event.kind == "truncated"]


@pytest.mark.parametrize(
    "line",
    [
        FENCED.replace("2026-11-21", "2026-13-32"),
        FENCED.replace("broker 3", "broker " + "9" * 5000),
        LEADS.replace("[1,2]", "[1,,2]"),
        UPDATED.replace("2,1,3", ",,"),
        LOADED.replace("15082", "9" * 30),
        LOADED + " " * 9000 + ")",
    ],
)
def test_a_line_with_impossible_values_is_an_unparsed_event(line: str) -> None:
    """A day that no month has, a number beyond 64 bits, a line that is too long."""
    (event,) = read_broker_log(line, 1, TOPIC)
    assert event.kind == "unparsed"


def test_a_line_made_of_beginnings_takes_no_more_than_linear_time() -> None:
    """Each beginning of a format was tried with each end: for one line of 8 kB, for minutes."""
    beginning = f"Completed load of Log(dir=, topic={TOPIC}, partition=0, logEndOffset=1) with "
    line = ("[2026-11-21T14:36:23,914Z] INFO " + beginning * 100)[:8190]
    events = read_broker_log("\n".join([line] * 200), 1, TOPIC)
    assert {event.kind for event in events} == {"unparsed"}
