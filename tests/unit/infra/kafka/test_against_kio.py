"""The relay's edits of Kafka's responses, compared with kio: classes made from Kafka's own schemas.

kio reads a response entirely and writes it again, which takes a relay up to 400 times as long
(docs/decisions/0046-the-relay-edits-frames-itself.md); so it is a reference here only.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from importlib import import_module
from random import Random
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader
from support.builders.kafka_messages import CORRELATION_ID, framed, random_message
from support.tiers import examples

from ackbench.infra.kafka.addresses import (
    DESCRIBE_CLUSTER,
    FETCH,
    FIND_COORDINATOR,
    METADATA,
    NEWEST_READABLE,
    PRODUCE,
    RequestHead,
    replace_addresses,
)
from ackbench.infra.kafka.wire import metadata_request, read_metadata

NAMES: Final = {
    PRODUCE: "produce",
    FETCH: "fetch",
    METADATA: "metadata",
    FIND_COORDINATOR: "find_coordinator",
    DESCRIBE_CLUSTER: "describe_cluster",
}
FIRST: Final = {PRODUCE: 10, FETCH: 16}
"""The first version with addresses; of the others each has them."""
VERSIONS: Final = [
    (api_key, version)
    for api_key, newest in NEWEST_READABLE.items()
    for version in range(FIRST.get(api_key, 0), newest + 1)
]


@pytest.mark.parametrize(("api_key", "version"), VERSIONS)
@given(random=st.randoms(use_true_random=True))
@settings(max_examples=examples(30))
def test_a_relay_changes_the_addresses_of_a_response_and_nothing_else(
    api_key: int, version: int, random: Random
) -> None:
    """Byte for byte what the response is with other addresses."""
    kind = response_class(api_key, version)
    response = random_message(kind, random)

    translated = replace_addresses(
        framed(response), RequestHead(api_key, version, CORRELATION_ID), relay_address
    )

    assert translated == framed(moved(response))


@given(random=st.randoms(use_true_random=True))
@settings(max_examples=examples(60))
def test_the_metadata_that_is_polled_are_those_of_the_response(random: Random) -> None:
    """Brokers, leaders, replicas and ISR."""
    response = random_message(response_class(METADATA, 12), random)
    view = read_metadata(framed(response)[4:])

    assert view.brokers == {broker.node_id for broker in response.brokers}
    assert [(one.partition, one.replicas, one.isr) for one in view.partitions] == [
        (one.partition_index, one.replica_nodes, one.isr_nodes)
        for topic in response.topics
        for one in topic.partitions
    ]


def test_the_request_for_metadata_creates_no_topic() -> None:
    """It names the topics; both of its flags are false."""
    request = import_module("kio.schema.metadata.v12.request").MetadataRequest
    sent = metadata_request(["orders"])
    decoded, size_bytes = entity_reader(request)(sent[4 + 8 + 2 + len("ackbench") + 1 :], 0)

    assert [topic.name for topic in decoded.topics] == ["orders"]
    assert not decoded.allow_auto_topic_creation
    assert not decoded.include_topic_authorized_operations
    assert size_bytes == len(sent) - (4 + 8 + 2 + len("ackbench") + 1)


def relay_address(node_id: int, address: tuple[str, int]) -> tuple[str, int]:
    """Return an address that depends on both."""
    return f"relay-of-{address[0]}", (node_id * 31 + address[1]) % 65_536


def response_class(api_key: int, version: int) -> Any:
    """Return kio's class of a response."""
    name = NAMES[api_key]
    module = import_module(f"kio.schema.{name}.v{version}.response")
    return getattr(module, "".join(map(str.capitalize, name.split("_"))) + "Response")


def moved(entity: Any) -> Any:
    """Return a response with the relays' addresses."""
    changed: dict[str, Any] = {
        field.name: tuple(map(moved, value))
        for field in fields(entity)
        if isinstance(value := getattr(entity, field.name), tuple)
        and value
        and is_dataclass(value[0])
    }
    if getattr(entity, "host", ""):  # without a host there is no node
        node_id = entity.node_id if hasattr(entity, "node_id") else entity.broker_id
        changed["host"], changed["port"] = relay_address(node_id, (entity.host, entity.port))
    return replace(entity, **changed)
