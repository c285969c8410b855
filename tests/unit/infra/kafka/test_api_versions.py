"""ApiVersions, compared with bytes in its documented layout (version 3)."""

from __future__ import annotations

import struct

import pytest

from ackbench.infra.errors import HarnessError
from ackbench.infra.kafka.api_versions import BrokerFeatures, api_versions_request, read_features


def _name(text: str) -> bytes:
    return bytes([len(text) + 1]) + text.encode()


def _tagged(number: int, content: bytes) -> bytes:
    return bytes([number, len(content)]) + content


def _response(*tagged: bytes, error: int = 0) -> bytes:
    apis = b"\x02" + struct.pack(">hhh", 18, 0, 4) + b"\x00"
    throttle_ms = struct.pack(">i", 0)
    head = struct.pack(">ih", 1, error)  # without tagged fields, whatever the version
    return head + apis + throttle_ms + bytes([len(tagged)]) + b"".join(tagged)


def test_the_request_has_the_name_and_version_of_the_software() -> None:
    """Version 3, in a flexible header."""
    head = struct.pack(">hhih", 18, 3, 1, 8) + b"ackbench" + b"\x00"
    body = _name("ackbench") + _name("1") + b"\x00"
    request = api_versions_request()
    assert request == struct.pack(">i", len(head) + len(body)) + head + body


def test_supported_and_finalized_levels_are_read_in_their_own_order() -> None:
    """Of a supported feature the lowest level comes first, of a finalized one the highest."""
    supported = b"\x02" + _name("metadata.version") + struct.pack(">hh", 7, 30) + b"\x00"
    epoch = struct.pack(">q", 5)
    finalized = b"\x02" + _name("transaction.version") + struct.pack(">hh", 2, 1) + b"\x00"
    response = _response(_tagged(0, supported), _tagged(1, epoch), _tagged(2, finalized))
    assert read_features(response) == BrokerFeatures(
        highest={"metadata.version": 30}, finalized={"transaction.version": 2}
    )


def test_a_cluster_without_features_has_none() -> None:
    """As one with ZooKeeper."""
    assert read_features(_response()) == BrokerFeatures({}, {})


def test_a_broker_that_does_not_know_the_version_tells_nothing() -> None:
    """UNSUPPORTED_VERSION comes in the layout of version 0."""
    assert read_features(struct.pack(">ihi", 1, 35, 0)) is None


def test_a_response_that_ends_early_is_an_error() -> None:
    """Not a cluster without features."""
    with pytest.raises(HarnessError, match="too short"):
        read_features(_response()[:-1])


def test_a_feature_whose_name_is_not_utf_8_is_an_error() -> None:
    """A broker may send any bytes."""
    supported = b"\x02" + b"\x03\xff\xfe" + struct.pack(">hh", 0, 1) + b"\x00"
    with pytest.raises(HarnessError, match="not UTF-8"):
        read_features(_response(_tagged(0, supported)))


def test_a_number_that_never_ends_is_an_error() -> None:
    """Reading on would exhaust the stack."""
    with pytest.raises(HarnessError, match="more than 5 bytes"):
        read_features(struct.pack(">ih", 1, 0) + b"\xff" * 100_000)
