"""The three requests of Kafka's protocol, against bytes made by its layout."""

import struct

import pytest

from infra.cluster import ControllerView, PartitionState
from infra.errors import HarnessError
from infra.wire import BrokerView, log_ends_request, metadata_request, quorum_request, read_log_ends, read_metadata, read_quorum


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _ids(*numbers: int) -> bytes:
    return struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)


def _partition(error: int, number: int, leader: int, isr: tuple[int, ...]) -> bytes:
    return struct.pack(">hiii", error, number, leader, 7) + _ids(1, 2) + _ids(*isr) + _ids()


def _metadata() -> bytes:
    broker = struct.pack(">i", 1) + _text("127.0.0.1") + struct.pack(">i", 9092) + struct.pack(">h", -1)
    known = struct.pack(">h", 0) + _text("orders") + b"\x00" + struct.pack(">i", 2) + _partition(0, 0, 1, (1, 2)) + _partition(5, 1, -1, ())
    unknown = struct.pack(">h", 3) + _text("nothing") + b"\x00" + struct.pack(">i", 0)
    return struct.pack(">iii", 1, 0, 1) + broker + _text("cluster") + struct.pack(">ii", 1, 2) + known + unknown


def _quorum(error: int = 0, failed: int = 0, leader: int = 3) -> bytes:
    topic = b"\x13__cluster_metadata\x02" + struct.pack(">ihii", 0, failed, leader, 42)
    return struct.pack(">ibh", 1, 0, error) + b"\x02" + topic


def test_metadata_is_read() -> None:
    """Leaders, replicas, ISR and leader epoch; a partition without a leader has none, and an unknown topic has no partitions."""
    partitions = (PartitionState("orders", 0, 1, (1, 2), (1, 2), 7), PartitionState("orders", 1, None, (1, 2), (), 7))
    assert read_metadata(_metadata()) == BrokerView(frozenset({1}), partitions)


def test_an_answer_that_was_cut_short_is_told() -> None:
    """It must not be taken for a cluster with fewer partitions."""
    with pytest.raises(HarnessError, match="ended too soon"):
        read_metadata(_metadata()[:-8])


def test_the_active_controller_says_so() -> None:
    """Leader and epoch of the metadata quorum."""
    assert read_quorum(_quorum()) == ControllerView(leader=3, epoch=42)


@pytest.mark.parametrize("answer", [_quorum(error=6), _quorum(failed=6), _quorum(leader=-1)])
def test_others_do_not(answer: bytes) -> None:
    """NOT_LEADER_OR_FOLLOWER, or a leader that is not known."""
    assert read_quorum(answer) is None


def test_requests_state_their_own_size() -> None:
    """A broker closes the connection over one that does not."""
    for request in (metadata_request(None), metadata_request(["a", "näme"]), quorum_request()):
        assert struct.unpack(">i", request[:4]) == (len(request) - 4,)


def test_no_topics_is_not_all_topics() -> None:
    """An empty list asks for none, and nothing at all for every one."""
    assert metadata_request([])[-5:] == struct.pack(">ib", 0, 0)
    assert metadata_request(None)[-5:] == struct.pack(">ib", -1, 0)


def test_the_end_of_a_log_is_asked_for_as_no_consumer() -> None:
    """Replica -2, so that the answer is the log's end and not the high watermark."""
    asked = struct.pack(">iih", -2, 1, 6) + b"orders" + struct.pack(">iiqiq", 2, 0, -1, 3, -1)
    assert log_ends_request("orders", [0, 3]).endswith(asked)


def test_log_ends_are_read_and_a_partition_led_elsewhere_is_left_out() -> None:
    """NOT_LEADER_OR_FOLLOWER (6) is no end of a log."""
    answer = struct.pack(">ii", 1, 1) + _text("orders") + struct.pack(">i", 2) + struct.pack(">ihqq", 0, 0, -1, 42) + struct.pack(">ihqq", 3, 6, -1, -1)
    assert read_log_ends(answer) == {0: 42}
