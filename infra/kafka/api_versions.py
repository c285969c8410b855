"""The feature levels of a cluster, as a broker reports them in its ApiVersions response. No I/O.

A broker answers ApiVersions before authentication (KIP-152), and from version 3 on with the
features (KIP-511, KIP-584): those that its software supports, and the levels that the cluster has.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from ackbench.infra.kafka.wire import NO_TAGS, ResponseReader, compact_string, encode_request

METADATA_VERSION: Final = "metadata.version"
_API_VERSIONS: Final = (18, 3)
_CORRELATION_ID_BYTES: Final = 4
_SUPPORTED_TAG, _FINALIZED_TAG = 0, 2


@dataclass(frozen=True)
class BrokerFeatures:
    """What one broker reports."""

    highest: Mapping[str, int]
    """The highest level of each feature that its software supports, if 0 is not the lowest."""
    finalized: Mapping[str, int]
    """The level of each feature of the cluster that is above 0."""


def api_versions_request() -> bytes:
    """Return the request for what a broker supports."""
    body = compact_string("ackbench") + compact_string("1") + NO_TAGS
    return encode_request(_API_VERSIONS, body, flexible=True)


def read_features(response: bytes) -> BrokerFeatures | None:
    """Return the features in a response; `None`: the broker does not know version 3 (before 2.4).

    Its header has no tagged fields, whatever its version (KIP-511).

    Raises:
        HarnessError: the response is too short.
    """
    reader = ResponseReader(response)
    reader.skip(_CORRELATION_ID_BYTES)
    if reader.number(">h"):
        return None
    reader.compact_array(_skip_api)
    reader.skip(struct.calcsize(">i"))  # the throttle time
    found: dict[int, dict[str, int]] = {}
    for _ in range(reader.varint()):
        tag, size_bytes = reader.varint(), reader.varint()
        if tag == _SUPPORTED_TAG:
            found[tag] = dict(reader.compact_array(_level_reader(highest_first=False)))
        elif tag == _FINALIZED_TAG:
            found[tag] = dict(reader.compact_array(_level_reader(highest_first=True)))
        else:
            reader.skip(size_bytes)
    return BrokerFeatures(found.get(_SUPPORTED_TAG, {}), found.get(_FINALIZED_TAG, {}))


def _skip_api(reader: ResponseReader) -> None:
    reader.skip(struct.calcsize(">hhh"))
    reader.tags()


def _level_reader(*, highest_first: bool) -> Callable[[ResponseReader], tuple[str, int]]:
    """Return the reader of a feature and its highest level, which comes before or after another."""

    def read(reader: ResponseReader) -> tuple[str, int]:
        name, levels = reader.compact_string(), (reader.number(">h"), reader.number(">h"))
        reader.tags()
        return str(name), levels[0] if highest_first else levels[1]

    return read
