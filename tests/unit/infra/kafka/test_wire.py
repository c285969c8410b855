"""Requests and responses of Kafka's protocol, compared with bytes in its documented layout."""

import struct
from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

import pytest
from support.golden_files import Says

from ackbench.infra.errors import HarnessError
from ackbench.infra.kafka.spec import ControllerView, PartitionState
from ackbench.infra.kafka.wire import (
    BrokerView,
    ErrorResponse,
    LeaderCandidates,
    ResponseReader,
    compact_string,
    describe_partitions_request,
    list_offsets_request,
    metadata_request,
    quorum_request,
    read_leader_candidates,
    read_list_offsets,
    read_metadata,
    read_quorum,
    read_reassignment,
    reassignment_request,
)

TOPIC_ID = UUID("01234567-89ab-cdef-0123-456789abcdef")


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _ids(*numbers: int) -> bytes:
    return struct.pack(f">b{len(numbers)}i", len(numbers) + 1, *numbers)


def _compact(text: str) -> bytes:
    return bytes([len(text) + 1]) + text.encode()


def _partition(error: int, number: int, leader: int, isr: tuple[int, ...]) -> bytes:
    return (
        struct.pack(">hiii", error, number, leader, 7) + _ids(1, 2) + _ids(*isr) + _ids() + b"\x00"
    )


def _topic(error: int, name: str, *partitions: bytes) -> bytes:
    head = struct.pack(">h", error) + _compact(name) + TOPIC_ID.bytes + b"\x00"
    return head + bytes([len(partitions) + 1]) + b"".join(partitions) + struct.pack(">ib", -1, 0)


def _metadata() -> bytes:
    broker = (
        struct.pack(">i", 1)
        + _compact("127.0.0.1")
        + struct.pack(">i", 9092)
        + b"\x00"
        + b"\x01\x05\x02ab"
    )  # a null, and one tagged field
    known, unknown = (
        _topic(0, "orders", _partition(0, 0, 1, (1, 2)), _partition(5, 1, -1, ())),
        _topic(3, "nothing"),
    )
    return (
        struct.pack(">ibi", 1, 0, 0)
        + b"\x02"
        + broker
        + _compact("cluster")
        + struct.pack(">i", 1)
        + b"\x03"
        + known
        + unknown
        + b"\x00"
    )


def _quorum(error: int = 0, failed: int = 0, leader: int = 3) -> bytes:
    topic = b"\x13__cluster_metadata\x02" + struct.pack(">ihii", 0, failed, leader, 42)
    return struct.pack(">ibh", 1, 0, error) + b"\x02" + topic


def test_metadata_has_each_partition_with_its_leader_or_none() -> None:
    """With replicas, ISR, leader epoch and topic id. An unknown topic has no partitions."""
    led, leaderless = (
        PartitionState("orders", 0, 1, (1, 2), (1, 2), 7),
        PartitionState("orders", 1, None, (1, 2), (), 7),
    )
    partitions = tuple(
        replace(partition, topic_id=str(TOPIC_ID)) for partition in (led, leaderless)
    )
    assert read_metadata(_metadata()) == BrokerView(frozenset({1}), partitions, controller=1)


def test_a_truncated_response_is_an_error() -> None:
    """It is not read as a cluster with fewer partitions."""
    with pytest.raises(HarnessError, match="is too short"):
        read_metadata(_metadata()[:-8])


def test_the_active_controller_returns_leader_and_epoch_of_the_quorum() -> None:
    """As DescribeQuorum returns them for `__cluster_metadata`."""
    assert read_quorum(_quorum()) == ControllerView(leader=3, epoch=42)


@pytest.mark.parametrize("response", [_quorum(error=6), _quorum(failed=6), _quorum(leader=-1)])
def test_a_controller_that_is_not_active_returns_no_view(response: bytes) -> None:
    """It answers NOT_LEADER_OR_FOLLOWER, or with an unknown leader."""
    assert read_quorum(response) is None


def test_requests_state_their_own_size() -> None:
    """A broker closes the connection on a wrong size."""
    others = (reassignment_request("a", {0: (1, 2)}, 5), describe_partitions_request("a"))
    for request in (
        metadata_request(None),
        metadata_request(["a", "näme"]),
        quorum_request(),
        *others,
    ):
        assert struct.unpack(">i", request[:4]) == (len(request) - 4,)


def test_no_topics_is_not_all_topics() -> None:
    """An empty list requests no topic, and a null list all topics."""
    assert metadata_request([])[-4:] == b"\x01\x00\x00\x00"
    assert metadata_request(None)[-4:] == b"\x00\x00\x00\x00"


def test_log_end_offsets_are_requested_as_the_debugging_replica() -> None:
    """With replica id -2 the leader returns the log end offset, not the high watermark."""
    body = struct.pack(">iih", -2, 1, 6) + b"orders" + struct.pack(">iiqiq", 2, 0, -1, 3, -1)
    assert list_offsets_request("orders", [0, 3]).endswith(body)


def test_partitions_of_another_leader_have_no_log_end_offset() -> None:
    """The broker returns NOT_LEADER_OR_FOLLOWER (6) for them."""
    response = (
        struct.pack(">ii", 1, 1)
        + _string("orders")
        + struct.pack(">i", 2)
        + struct.pack(">ihqq", 0, 0, -1, 42)
        + struct.pack(">ihqq", 3, 6, -1, -1)
    )
    assert read_list_offsets(response) == {0: 42}


def test_a_long_topic_name_has_a_length_of_two_bytes() -> None:
    """Kafka allows 249 characters, and each byte of a variable length holds seven bits."""
    assert compact_string("t" * 249)[:2] == bytes([250 & 0x7F | 0x80, 250 >> 7])
    response = struct.pack(">ibi", 1, 0, 0) + b"\x01\x00" + struct.pack(">i", 1) + b"\x02"
    response += (
        struct.pack(">h", 0)
        + compact_string("t" * 249)
        + TOPIC_ID.bytes
        + b"\x00\x02"
        + _partition(0, 0, 1, (1, 2))
        + struct.pack(">ib", -1, 0)
        + b"\x00"
    )
    assert [partition.topic for partition in read_metadata(response).partitions] == ["t" * 249]


def test_a_reassignment_keeps_the_order_of_the_replicas() -> None:
    """The first replica is the preferred leader."""
    one = struct.pack(">i", 3) + _ids(2, 3, 1) + b"\x00"
    assert reassignment_request("orders", {3: (2, 3, 1)}, 5).endswith(
        struct.pack(">i", 5000) + b"\x02" + _compact("orders") + b"\x02" + one + b"\x00\x00"
    )


def _reassigned(request_error: int, partition_error: int) -> bytes:
    one = (
        struct.pack(">ih", 3, partition_error)
        + (_compact("no such node") if partition_error else b"\x00")
        + b"\x00"
    )
    return (
        struct.pack(">ibih", 1, 0, 0, request_error)
        + b"\x00"
        + b"\x02"
        + _compact("orders")
        + b"\x02"
        + one
        + b"\x00\x00"
    )


def test_a_refused_reassignment_returns_the_first_error() -> None:
    """The error of the request or of a partition, with its message where it has one."""
    assert read_reassignment(_reassigned(0, 0)) is None
    assert read_reassignment(_reassigned(41, 0)) == ErrorResponse(41, "error 41")
    assert read_reassignment(_reassigned(0, 39)) == ErrorResponse(39, "no such node")


def test_eligible_leader_replicas_are_returned_where_the_isr_is_empty() -> None:
    """As after a crash of the last in-sync replica. A null array is empty."""
    one = (
        struct.pack(">hiii", 5, 0, -1, 7)
        + _ids(1, 2, 3)
        + _ids()
        + _ids(1, 2)
        + b"\x00"
        + _ids(1)
        + b"\x00"
    )
    topic = (
        struct.pack(">h", 0)
        + _compact("orders")
        + TOPIC_ID.bytes
        + b"\x00\x02"
        + one
        + struct.pack(">ib", -1, 0)
    )
    assert read_leader_candidates(struct.pack(">ibi", 1, 0, 0) + b"\x02" + topic + b"\xff\x00") == (
        LeaderCandidates(0, None, (), (1, 2)),
    )


ENDLESS = b"\xff" * 100_000
"""The beginning of a number that never ends."""


@pytest.mark.parametrize(
    ("read", "head"),
    [
        (read_metadata, bytes(4)),
        (read_metadata, bytes(9)),
        (read_quorum, bytes(7) + b"\x02"),
        (read_reassignment, bytes(11)),
        (read_leader_candidates, bytes(9)),
    ],
)
def test_a_number_that_never_ends_is_an_error_of_one_line(
    says: Says, read: Callable[[bytes], object], head: bytes
) -> None:
    """A varint has at most five bytes; reading on exhausted the stack."""
    with pytest.raises(HarnessError) as caught:
        read(head + ENDLESS)
    says(str(caught.value))


def test_a_name_that_is_not_utf_8_is_an_error() -> None:
    """A broker may send any bytes for its host."""
    with pytest.raises(HarnessError, match="not UTF-8"):
        read_metadata(_metadata().replace(b"127.0.0.1", b"127.0.\xff.1"))


@pytest.mark.parametrize("size_bytes", [-1, 3, 1 << 40])
def test_nothing_is_skipped_beyond_the_end(size_bytes: int) -> None:
    """Nor back to what has been read, which could go on for ever."""
    reader = ResponseReader(b"ab")
    with pytest.raises(HarnessError, match="too short"):
        reader.skip(size_bytes)
    reader.skip(2)
    assert reader.position == 2
