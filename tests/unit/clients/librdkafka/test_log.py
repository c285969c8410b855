"""What librdkafka's own log tells, read from lines that it wrote in trials."""

from experiments.clients.librdkafka.log import read_client_log, timed_out_requests
from experiments.events.journal import Event

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
OTHER = "1795263366360592751 7 BROKER [thrd:main]: ackbench-warm-up [0]: leader -1 epoch -1 -> leader 1 epoch 0"
GAVE_UP = "1795263387544968993 4 REQTMOUT [thrd:127.0.0.1:21753/1]: 127.0.0.1:21753/1: Timed out 42 in-flight, 0 retry-queued, 0 out-queue, 0 partially-sent requests"
ONE_OF_THEM = "1795263387544421863 5 REQTMOUT [thrd:127.0.0.1:21753/1]: 127.0.0.1:21753/1: Timed out ProduceRequest in flight (after 1292ms, timeout #0)"
LOST = "1795263369998903216 4 FAIL [thrd:127.0.0.1:21759/3]: 127.0.0.1:21759/3: Disconnected: connection reset by peer (after 3660ms in state UP)"
REFUSED = (
    "1795263369999540312 3 FAIL [thrd:127.0.0.1:21759/3]: 127.0.0.1:21759/3: Connect to ipv4#127.0.0.1:21759 failed: Connection refused "
    "(after 0ms in state CONNECT)"
)


def told(*lines: str) -> list[Event]:
    """Return what a producer's log of these lines tells."""
    return list(read_client_log("\n".join(lines), "producer 0", TOPIC))


def test_a_leader_is_learned_when_it_is_news() -> None:
    """Every answer of a broker repeats it; the first one counts, on the trial's clock."""
    learned = told(FIRST, SAME, NEXT, AGAIN)
    assert [
        (event.kind, event.at_ns, event.node, event.partition, event.leader_epoch)
        for event in learned
    ] == [
        ("leader_learned", 1795263366134065071, 3, 0, 0),
        ("leader_learned", 1795263375375982810, 1, 0, 1),
    ]


RESET = (
    f"1795263376341669331 4 OFFSET [thrd:main]: {TOPIC} [2]: offset reset (at offset 8 (leader epoch 8), broker 1) to offset BEGINNING (leader epoch -1): "
    "fetch failed due to requested offset not available on the broker: Broker: Offset out of range"
)


def test_a_jump_to_where_the_log_begins_is_told_with_the_offset_that_was_not_there() -> None:
    """One that ends in an error is no jump, and one for want of any offset is none either."""
    refused, first = (
        RESET.replace("to offset BEGINNING", "to offset INVALID"),
        RESET.replace("requested offset not available", "no previous committed offset available"),
    )
    assert [
        (event.kind, event.partition, event.offset) for event in told(RESET, refused, first)
    ] == [("offset_reset", 2, 8)]


def test_that_there_is_no_leader_is_news_too() -> None:
    """-1 is nobody, and no node of that number."""
    assert [event.node for event in told(NEXT, NONE)] == [1, None]


def test_other_topics_leaders_are_of_no_interest() -> None:
    """The warm-up's partitions move as well."""
    assert told(OTHER) == []


def test_requests_that_were_given_up_are_counted_once() -> None:
    """The first few of them are named one by one as well; the sum has all."""
    (event,) = told(ONE_OF_THEM, GAVE_UP)
    assert (event.kind, event.node, timed_out_requests(event)) == ("timed_out", 1, 42)


def test_a_lost_connection_is_told_and_one_that_was_not_made_is_not() -> None:
    """Who was never connected cannot be disconnected."""
    assert [(event.kind, event.node) for event in told(LOST, REFUSED)] == [("disconnected", 3)]


def test_details_begin_with_the_client_and_hold_its_words() -> None:
    """A reader's and a producer's are told apart by it."""
    (event,) = told(LOST)
    assert event.detail == f"producer 0: {LOST.split(' ', 3)[3]}"
