"""The events in librdkafka's log, from lines that it wrote in trials."""

import pytest
from support.golden_files import Says

from ackbench.experiments.trial.clients.librdkafka.log import read_client_log, timed_out_requests
from ackbench.experiments.trial.events.journal import Event

TOPIC = "trial-000"
FIRST = (
    f"1795263366134065071 7 BROKER [thrd:main]: {TOPIC} [0]: leader -1 epoch -1 -> leader 3 epoch 0"
)
SAME = (
    f"1795263370086769957 7 BROKER [thrd:main]: {TOPIC} [0]: leader 3 epoch 0 -> leader 3 epoch 0"
)
NEXT = (
    f"1795263375375982810 7 BROKER [thrd:main]: {TOPIC} [0]: leader 3 epoch 0 -> leader 1 epoch 1"
)
AGAIN = (
    f"1795263376341669331 7 BROKER [thrd:main]: {TOPIC} [0]: leader -1 epoch -1 -> leader 1 epoch 1"
)
NONE = (
    f"1795263376341669331 7 BROKER [thrd:main]: {TOPIC} [0]: leader 1 epoch 1 -> leader -1 epoch 2"
)
OTHER = (
    "1795263366360592751 7 BROKER [thrd:main]: ackbench-warm-up [0]: "
    "leader -1 epoch -1 -> leader 1 epoch 0"
)
TIMED_OUT = (
    "1795263387544968993 4 REQTMOUT [thrd:127.0.0.1:21753/1]: 127.0.0.1:21753/1: "
    "Timed out 42 in-flight, 0 retry-queued, 0 out-queue, 0 partially-sent requests"
)
ONE_TIMED_OUT = (
    "1795263387544421863 5 REQTMOUT [thrd:127.0.0.1:21753/1]: 127.0.0.1:21753/1: "
    "Timed out ProduceRequest in flight (after 1292ms, timeout #0)"
)
DISCONNECTED = (
    "1795263369998903216 4 FAIL [thrd:127.0.0.1:21759/3]: 127.0.0.1:21759/3: "
    "Disconnected: connection reset by peer (after 3660ms in state UP)"
)
REFUSED = (
    "1795263369999540312 3 FAIL [thrd:127.0.0.1:21759/3]: 127.0.0.1:21759/3: "
    "Connect to ipv4#127.0.0.1:21759 failed: Connection refused (after 0ms in state CONNECT)"
)


DRAIN = (
    "1795263369998903216 7 DRAIN [thrd:127.0.0.1:21753/1]: Beginning partition drain in state "
    "Assigned for PID{Id:1000,Epoch:0} epoch bump for 3 partition(s) with in-flight requests: "
    f"86 message(s) timed out on {TOPIC} [8]"
)
SKIPPED = (
    "1795263369998903217 7 DRAIN [thrd:127.0.0.1:21753/1]: Beginning partition drain in state "
    "DrainBump for PID{Id:1000,Epoch:0} epoch bump for 3 partition(s) with in-flight requests: "
    "skipped sequence numbers"
)
BUMPED = (
    "1795263369999903216 7 DRAIN [thrd:127.0.0.1:21753/1]: All partitions drained, bumped epoch to "
    "PID{Id:1000,Epoch:1}"
)


def events(*lines: str) -> list[Event]:
    """Return the events in a producer's log of these lines."""
    return list(read_client_log("\n".join(lines), "producer 0", TOPIC))


def test_a_leader_is_learned_when_it_changes() -> None:
    """Every metadata response repeats the leader; only the first yields an event."""
    learned = events(FIRST, SAME, NEXT, AGAIN)
    assert [
        (event.kind, event.at_ns, event.node, event.partition, event.leader_epoch)
        for event in learned
    ] == [
        ("leader_learned", 1795263366134065071, 3, 0, 0),
        ("leader_learned", 1795263375375982810, 1, 0, 1),
    ]


RESET = (
    f"1795263376341669331 4 OFFSET [thrd:main]: {TOPIC} [2]: "
    "offset reset (at offset 8 (leader epoch 8), broker 1) "
    "to offset BEGINNING (leader epoch -1): "
    "fetch failed due to requested offset not available on the broker: Broker: Offset out of range"
)


def test_an_offset_reset_has_the_offset_that_was_out_of_range() -> None:
    """A failed reset, and one without a committed offset, yield no event."""
    refused, first = (
        RESET.replace("to offset BEGINNING", "to offset INVALID"),
        RESET.replace("requested offset not available", "no previous committed offset available"),
    )
    assert [
        (event.kind, event.partition, event.offset) for event in events(RESET, refused, first)
    ] == [("offset_reset", 2, 8)]


def test_an_epoch_bump_has_the_first_reason_that_led_to_it(says: Says) -> None:
    """The drain waits for requests in flight, and more reasons may come up meanwhile."""
    one, other = events(DRAIN, SKIPPED, BUMPED, SKIPPED, BUMPED.replace("Epoch:1", "Epoch:2"))
    assert (one.kind, one.at_ns, one.node, one.partition) == (
        "epoch_bumped",
        1795263369999903216,
        None,
        None,
    )
    assert one.detail == (
        f"producer 0: producer epoch 1: 86 message(s) timed out on {TOPIC} [8], and 1 more"
    )
    says(other.detail)


def test_a_drain_without_a_bump_is_no_event() -> None:
    """A partition drains before every retry, and after a change of leader."""
    assert not events(DRAIN)


def test_losing_the_leader_is_a_change_too() -> None:
    """Leader -1 means no leader, not a node."""
    assert [event.node for event in events(NEXT, NONE)] == [1, None]


def test_leaders_of_other_topics_are_ignored() -> None:
    """The warm-up topic's leaders change too."""
    assert events(OTHER) == []


def test_timed_out_requests_are_counted_once() -> None:
    """The first few are also logged one by one; the summary line counts all."""
    (event,) = events(ONE_TIMED_OUT, TIMED_OUT)
    assert (event.kind, event.node, timed_out_requests(event)) == ("timed_out", 1, 42)


def test_a_lost_connection_is_an_event_and_a_refused_one_is_not() -> None:
    """A connection that was never up is not lost."""
    assert [(event.kind, event.node) for event in events(DISCONNECTED, REFUSED)] == [
        ("disconnected", 3)
    ]


def test_details_begin_with_the_client_and_contain_the_log_line() -> None:
    """This distinguishes a consumer's events from a producer's."""
    (event,) = events(DISCONNECTED)
    assert event.detail == f"producer 0: {DISCONNECTED.split(' ', 3)[3]}"


@pytest.mark.parametrize(
    ("line", "old", "new"),
    [
        (FIRST, "leader 3", "leader " + "9" * 5000),
        (FIRST, "1795263366134065071", "9" * 5000),
        (TIMED_OUT, "42", "9" * 20),
        (BUMPED, "Epoch:1", "Epoch:" + "9" * 11),
    ],
)
def test_a_line_with_a_number_beyond_its_type_is_no_event(line: str, old: str, new: str) -> None:
    """Brokers decide parts of what clients log."""
    assert events(line)
    assert not events(line.replace(old, new))


def test_a_line_made_of_beginnings_takes_no_more_than_linear_time() -> None:
    """Each beginning of a format was tried with each end."""
    text = "[thrd:a]: Beginning partition drain  epoch bump " * 200
    assert events(*[f"1795263366134065071 7 DRAIN {text}"] * 200) == []
