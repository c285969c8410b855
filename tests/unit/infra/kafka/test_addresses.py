"""Addresses in responses are replaced, in each version; nothing else of a response changes."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest

from ackbench.infra.errors import HarnessError
from ackbench.infra.kafka import addresses
from ackbench.infra.kafka.addresses import (
    Address,
    AddressTranslator,
    RequestHead,
    replace_addresses,
)
from ackbench.infra.kafka.wire import compact_string, varint

BROKERS = ((1, "kafka-1.example", 9093), (22, "kafka-22.example", 9094))
TAGS = b"\x01\x07\x03abc"
"""One tagged field that nobody knows."""
REST = b"the rest, which stays"


def relay_address(node_id: int, address: Address) -> Address:
    """Return the address of a node's relay, which says whom it stands in front of."""
    del address
    return "127.0.0.1", 40_000 + node_id


def string(text: str) -> bytes:
    """Return a STRING."""
    return struct.pack(">h", len(text)) + text.encode()


def address(host: str, port: int, *, flexible: bool) -> bytes:
    """Return a host and a port."""
    return (compact_string(host) if flexible else string(host)) + struct.pack(">i", port)


def array(items: Sequence[bytes], *, flexible: bool) -> bytes:
    """Return an array."""
    size = varint(len(items) + 1) if flexible else struct.pack(">i", len(items))
    return size + b"".join(items)


def metadata(brokers: Sequence[tuple[int, str, int]], version: int) -> bytes:
    """Return a Metadata response."""
    flexible = version >= 9
    rack = compact_string("r") if flexible else string("r")
    nodes = [
        struct.pack(">i", id_)
        + address(host, port, flexible=flexible)
        + (rack if version >= 1 else b"")
        + (TAGS if flexible else b"")
        for id_, host, port in brokers
    ]
    head = struct.pack(">i", 5) + (TAGS if flexible else b"")
    head += struct.pack(">i", 0) if version >= 3 else b""
    return frame(head + array(nodes, flexible=flexible) + REST)


def coordinator(brokers: Sequence[tuple[int, str, int]], version: int) -> bytes:
    """Return a FindCoordinator response; before version 4 it has one coordinator."""
    flexible = version >= 3
    head = struct.pack(">i", 5) + (TAGS if flexible else b"")
    head += struct.pack(">i", 0) if version >= 1 else b""
    if version >= 4:
        found = [
            compact_string("group")
            + struct.pack(">i", id_)
            + address(host, port, flexible=True)
            + struct.pack(">h", 0)
            + compact_string(None)
            + TAGS
            for id_, host, port in brokers
        ]
        return frame(head + array(found, flexible=True) + REST)
    message = compact_string(None) if flexible else struct.pack(">h", -1)
    (id_, host, port) = brokers[0]
    return frame(
        head
        + struct.pack(">h", 0)
        + (message if version >= 1 else b"")
        + struct.pack(">i", id_)
        + address(host, port, flexible=flexible)
        + REST
    )


def described(brokers: Sequence[tuple[int, str, int]], version: int) -> bytes:
    """Return a DescribeCluster response."""
    nodes = [
        struct.pack(">i", id_)
        + address(host, port, flexible=True)
        + compact_string("r")
        + (b"\x00" if version >= 2 else b"")
        + TAGS
        for id_, host, port in brokers
    ]
    head = struct.pack(">i", 5) + TAGS + struct.pack(">ih", 0, 0) + compact_string(None)
    head += b"\x01" if version >= 1 else b""
    head += compact_string("the id") + struct.pack(">i", 1)
    return frame(head + array(nodes, flexible=True) + REST)


def endpoints(brokers: Sequence[tuple[int, str, int]]) -> bytes:
    """Return tagged fields with NodeEndpoints, between two others."""
    nodes = [
        struct.pack(">i", id_) + address(host, port, flexible=True) + compact_string(None) + TAGS
        for id_, host, port in brokers
    ]
    content = array(nodes, flexible=True)
    return b"\x02\x00" + varint(len(content)) + content + b"\x09\x02xy"


def produced(brokers: Sequence[tuple[int, str, int]], version: int) -> bytes:
    """Return a Produce response of a node that is no longer the leader."""
    error = struct.pack(">i", 3) + compact_string("bad") + b"\x00"
    partition = (
        struct.pack(">ihqqq", 0, 6, -1, -1, -1)
        + array([error], flexible=True)
        + compact_string("not the leader")
        + TAGS
    )
    name = bytes(16) if version >= 13 else compact_string("topic")
    topic = name + array([partition], flexible=True) + TAGS
    return frame(
        struct.pack(">i", 5)
        + TAGS
        + array([topic], flexible=True)
        + struct.pack(">i", 0)
        + (endpoints(brokers) if brokers else TAGS)
    )


def fetched(brokers: Sequence[tuple[int, str, int]], version: int) -> bytes:
    """Return a Fetch response with records and an aborted transaction."""
    del version
    aborted = array([struct.pack(">qq", 1, 2) + TAGS], flexible=True)
    records = varint(1000 + 1) + bytes(1000)
    partitions = [
        struct.pack(">ihqqq", number, 6, 9, 9, 0)
        + (aborted if number else varint(0))
        + struct.pack(">i", -1)
        + (records if number else varint(0))
        + TAGS
        for number in (0, 1)
    ]
    topic = bytes(16) + array(partitions, flexible=True) + TAGS
    return frame(
        struct.pack(">i", 5)
        + TAGS
        + struct.pack(">ihi", 0, 0, 77)
        + array([topic], flexible=True)
        + (endpoints(brokers) if brokers else TAGS)
    )


def frame(body: bytes) -> bytes:
    """Return a response with its size."""
    return struct.pack(">i", len(body)) + body


RESPONSES = [
    *((addresses.METADATA, metadata, version) for version in range(14)),
    *((addresses.FIND_COORDINATOR, coordinator, version) for version in range(7)),
    *((addresses.DESCRIBE_CLUSTER, described, version) for version in range(3)),
    *((addresses.PRODUCE, produced, version) for version in range(10, 14)),
    *((addresses.FETCH, fetched, version) for version in range(16, 19)),
]


@pytest.mark.parametrize(
    ("api_key", "response", "version"), RESPONSES, ids=lambda one: getattr(one, "__name__", one)
)
def test_each_address_becomes_that_of_the_relay_and_all_else_stays(
    api_key: int, response: object, version: int
) -> None:
    """Racks, errors, records, tagged fields and what follows."""
    assert callable(response)
    relayed = [(id_, *relay_address(id_, (host, port))) for id_, host, port in BROKERS]
    request = RequestHead(api_key, version, 5)
    assert replace_addresses(response(BROKERS, version), request, relay_address) == response(
        relayed, version
    )


@pytest.mark.parametrize("response", [produced, fetched])
def test_a_response_that_names_no_new_leader_stays_as_it_is(response: object) -> None:
    """Nearly all of them."""
    assert callable(response)
    api_key = addresses.PRODUCE if response is produced else addresses.FETCH
    version = addresses.NEWEST_READABLE[api_key]
    sent = response((), version)
    assert replace_addresses(sent, RequestHead(api_key, version, 5), relay_address) == sent


def test_a_coordinator_that_is_not_available_has_no_address_to_replace() -> None:
    """Kafka sends no host, and port -1."""
    missing = coordinator([(-1, "", -1)], 4)
    request = RequestHead(addresses.FIND_COORDINATOR, 4, 5)
    assert replace_addresses(missing, request, relay_address) == missing


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_a_response_that_is_cut_short_is_not_passed_on(cut: int) -> None:
    """It may name the address of a broker."""
    request = RequestHead(addresses.FETCH, 17, 5)
    with pytest.raises(HarnessError):
        replace_addresses(fetched(BROKERS, 17)[:-cut], request, relay_address)


def request(api_key: int, version: int, correlation_id: int, body: bytes = b"") -> bytes:
    """Return a request of a client without a name."""
    head = struct.pack(">hhih", api_key, version, correlation_id, 2) + b"me"
    return frame(head + TAGS + body)


def produce_request(correlation_id: int, acks: int) -> bytes:
    """Return a Produce request in version 12."""
    body = compact_string(None) + struct.pack(">h", acks)
    return request(addresses.PRODUCE, 12, correlation_id, body)


def test_a_response_is_matched_with_its_request_by_the_correlation_id() -> None:
    """Responses to other requests stay as they are, even if they look like one with addresses."""
    translator = AddressTranslator(relay_address)
    translator.saw_request(request(addresses.METADATA, 12, 5))
    translator.saw_request(request(12, 4, 6))  # Heartbeat
    heartbeat = frame(struct.pack(">i", 6) + metadata(BROKERS, 12)[8:])
    assert translator.translate(heartbeat) == heartbeat
    relayed = [(id_, *relay_address(id_, (host, port))) for id_, host, port in BROKERS]
    assert translator.translate(metadata(BROKERS, 12)) == metadata(relayed, 12)


def test_a_request_that_is_not_acknowledged_is_not_remembered() -> None:
    """With acks=0 there is no response, and a trial has millions of requests."""
    translator = AddressTranslator(relay_address)
    for correlation_id in range(10):
        translator.saw_request(produce_request(correlation_id, acks=0))
    assert not translator._unanswered
    translator.saw_request(produce_request(5, acks=-1))
    assert 5 in translator._unanswered


def test_a_request_whose_response_cannot_be_translated_is_refused() -> None:
    """Share consumers are not tested here; a newer version was not offered."""
    translator = AddressTranslator(relay_address)
    with pytest.raises(HarnessError, match="does not pass on ShareFetch"):
        translator.saw_request(request(78, 1, 5))
    translator.saw_request(request(addresses.METADATA, 99, 5))
    with pytest.raises(HarnessError, match="in version 99; a relay reads up to 13"):
        translator.translate(metadata(BROKERS, 13))


def api_versions(version: int, error: int) -> bytes:
    """Return an ApiVersions response with Metadata, Heartbeat and Fetch."""
    compact = version >= 3 and not error
    tags = TAGS if compact else b""
    apis = [
        struct.pack(">hhh", key, 0, newest) + tags for key, newest in ((3, 99), (12, 99), (1, 17))
    ]
    return frame(struct.pack(">ih", 5, error) + array(apis, flexible=compact) + REST)


@pytest.mark.parametrize(("version", "error"), [(0, 0), (2, 0), (3, 0), (4, 0), (4, 35)])
def test_no_version_is_offered_whose_addresses_cannot_be_replaced(version: int, error: int) -> None:
    """A broker that does not know the version of the request answers in version 0."""
    translator = AddressTranslator(relay_address)
    translator.saw_request(request(addresses.API_VERSIONS, version, 5))
    answer = translator.translate(api_versions(version, error))
    expected = api_versions(version, error).replace(
        struct.pack(">hhh", 3, 0, 99), struct.pack(">hhh", 3, 0, 13)
    )
    assert answer == expected
