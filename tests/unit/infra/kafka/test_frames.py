"""Tests of Kafka's frames: a stream in any pieces, and what is read of requests and responses."""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackbench.infra.kafka.frames import (
    API_KEYS,
    FrameSplitter,
    TransactionalApi,
    TransactionalRequest,
    read_correlation_id,
    read_error,
    read_transactional_request,
)
from ackbench.infra.kafka.wire import NO_TAGS, compact_string

FRAMES = st.lists(st.binary(max_size=40), min_size=1, max_size=8)


def frame(content: bytes) -> bytes:
    """Return the content with its size before it."""
    return struct.pack(">i", len(content)) + content


def string(text: str) -> bytes:
    """Return a STRING."""
    return struct.pack(">h", len(text)) + text.encode()


@st.composite
def arrivals(draw: st.DrawFn) -> tuple[list[bytes], list[bytes]]:
    """Return frames, and the pieces in which their stream arrives."""
    frames = [frame(content) for content in draw(FRAMES)]
    stream = b"".join(frames)
    cuts = sorted(draw(st.sets(st.integers(1, len(stream)), max_size=10)) | {0, len(stream)})
    return frames, [stream[begin:end] for begin, end in pairwise(cuts)]


@given(arrivals())
def test_frames_are_found_in_whatever_pieces_they_arrive(
    arrived: tuple[list[bytes], list[bytes]],
) -> None:
    """Each is returned once, in order, and nothing else is."""
    frames, pieces = arrived
    splitter = FrameSplitter()
    found = [piece for data in pieces for piece in splitter.split(data)]
    assert [piece.data for piece in found] == frames
    assert all(piece.is_frame for piece in found)


@given(arrivals(), st.data())
def test_no_byte_is_lost_or_moved_when_splitting_begins_and_ends(
    arrived: tuple[list[bytes], list[bytes]], data: st.DataObject
) -> None:
    """What is called a frame is one, wherever splitting began; the stream stays the same."""
    frames, pieces = arrived
    splitter, passed = FrameSplitter(), b""
    for piece in pieces:
        if data.draw(st.booleans()):
            for part in splitter.split(piece):
                assert not part.is_frame or part.data in frames
                passed += part.data
        else:
            passed += splitter.track(piece)
    assert passed + splitter.track(b"") == b"".join(frames)


@given(arrivals(), st.integers(0, 8))
def test_splitting_finds_all_frames_that_begin_after_it_began(
    arrived: tuple[list[bytes], list[bytes]], begins: int
) -> None:
    """A frame that had begun before is passed on as the rest of one."""
    frames, pieces = arrived
    splitter = FrameSplitter()
    tracked = sum(len(splitter.track(piece)) for piece in pieces[:begins])
    found = [part for piece in pieces[begins:] for part in splitter.split(piece)]
    ends = [sum(map(len, frames[:count])) for count in range(len(frames) + 1)]
    later = [one for one, begin in zip(frames, ends, strict=False) if begin >= tracked]
    assert [part.data for part in found if part.is_frame] == later


@pytest.mark.parametrize("size_bytes", [-1, (1 << 30) + 1])
def test_a_stream_that_is_not_kafkas_is_passed_on(size_bytes: int) -> None:
    """Nothing is kept while waiting for the rest of an impossible frame."""
    splitter, stream = FrameSplitter(), struct.pack(">i", size_bytes) + b"rest"
    assert b"".join(piece.data for piece in splitter.split(stream)) == stream
    assert splitter.track(b"more") == b"more"


def request_frame(api: TransactionalApi, version: int, transactional_id: bytes) -> bytes:
    """Return a request with correlation id 7; the id is encoded with the flexible header's tags."""
    header = struct.pack(">hhi", API_KEYS[api], version, 7) + string("client")
    return frame(header + transactional_id + bytes(30))


@pytest.mark.parametrize(
    ("api", "version", "encoded"),
    [
        ("EndTxn", 1, string("t-0")),
        ("EndTxn", 5, NO_TAGS + compact_string("t-0")),
        ("AddPartitionsToTxn", 0, string("t-0")),
        ("AddPartitionsToTxn", 3, NO_TAGS + compact_string("t-0")),
        ("Produce", 7, string("t-0")),
        ("Produce", 13, NO_TAGS + compact_string("t-0")),
    ],
)
def test_a_request_is_read_with_its_version_and_transactional_id(
    api: TransactionalApi, version: int, encoded: bytes
) -> None:
    """The first versions have another encoding than the flexible ones (KIP-482)."""
    assert read_transactional_request(request_frame(api, version, encoded)) == TransactionalRequest(
        api, version, 7, "t-0"
    )


def test_a_produce_request_without_transactions_has_no_id() -> None:
    """The null string, in both encodings."""
    for version, null in ((7, struct.pack(">h", -1)), (9, NO_TAGS + b"\x00")):
        request = read_transactional_request(request_frame("Produce", version, null))
        assert request is not None
        assert request.transactional_id is None


def test_batches_of_brokers_are_no_request_of_a_client() -> None:
    """AddPartitionsToTxn 4 and later have several transactions (KIP-890)."""
    request = read_transactional_request(
        request_frame("AddPartitionsToTxn", 4, NO_TAGS + b"\x02" + compact_string("t-0"))
    )
    assert request is not None
    assert request.transactional_id is None


@pytest.mark.parametrize(
    "unreadable",
    [
        frame(b""),
        frame(b"\x00"),
        frame(struct.pack(">hhi", 26, 1, 7)),
        frame(struct.pack(">hhih", 3, 9, 1, -1)),
    ],
)
def test_other_requests_are_not_read(unreadable: bytes) -> None:
    """Neither other kinds nor truncated ones."""
    assert read_transactional_request(unreadable) is None


def response_frame(body: bytes, tags: bytes = b"") -> bytes:
    """Return a response with correlation id 7."""
    return frame(struct.pack(">i", 7) + tags + body)


THROTTLED = struct.pack(">i", 250)
PARTITION_3 = struct.pack(">ih", 3, 48)


@pytest.mark.parametrize(
    ("api", "version", "response"),
    [
        ("EndTxn", 1, response_frame(THROTTLED + struct.pack(">h", 48))),
        ("EndTxn", 5, response_frame(THROTTLED + struct.pack(">h", 48), NO_TAGS)),
        (
            "AddPartitionsToTxn",
            0,
            response_frame(
                THROTTLED
                + struct.pack(">i", 1)
                + string("topic")
                + struct.pack(">i", 1)
                + PARTITION_3
            ),
        ),
        (
            "AddPartitionsToTxn",
            3,
            response_frame(
                THROTTLED + b"\x02" + compact_string("topic") + b"\x02" + PARTITION_3, NO_TAGS
            ),
        ),
        (
            "Produce",
            7,
            response_frame(
                struct.pack(">i", 1) + string("topic") + struct.pack(">i", 1) + PARTITION_3
            ),
        ),
        (
            "Produce",
            10,
            response_frame(b"\x02" + compact_string("topic") + b"\x02" + PARTITION_3, NO_TAGS),
        ),
        ("Produce", 13, response_frame(b"\x02" + bytes(16) + b"\x02" + PARTITION_3, NO_TAGS)),
    ],
)
def test_the_error_of_a_response_is_read(
    api: TransactionalApi, version: int, response: bytes
) -> None:
    """INVALID_TXN_STATE, in every layout."""
    assert read_correlation_id(response) == 7
    assert read_error(TransactionalRequest(api, version, 7, "t-0"), response) == 48


@pytest.mark.parametrize("version", [0, 9])
def test_a_response_without_partitions_or_too_short_has_no_known_error(version: int) -> None:
    """It is never taken for success."""
    request = TransactionalRequest("Produce", version, 7, "t-0")
    assert read_error(request, response_frame(bytes(8))) is None
    assert read_error(request, response_frame(b"")) is None
    assert read_correlation_id(frame(b"")) is None
