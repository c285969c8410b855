"""Responses whose errors a relay replaces, compared with the changed response as kio writes it."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_response_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import schema_name_map
from support.builders.kafka_messages import CORRELATION_ID, framed, random_message
from support.tiers import examples

from ackbench.infra.errors import HarnessError
from ackbench.infra.kafka.addresses import RequestHead
from ackbench.infra.kafka.messages import API_KEYS, ERRORS, Selection, with_error

NOT_LEADER = ERRORS["NOT_LEADER_OR_FOLLOWER"]
PRODUCE = API_KEYS["Produce"]
VERSIONS = [
    (api, version)
    for api in ("Produce", "Fetch", "OffsetCommit", "EndTxn", "Heartbeat", "FindCoordinator")
    for version in schema_name_map["".join(f"_{c.lower()}" if c.isupper() else c for c in api)[1:]]
]


def test_the_names_are_those_of_kafkas_protocol() -> None:
    """https://kafka.apache.org/protocol: keys and codes of some."""
    some = ("Produce", "Fetch", "InitProducerId", "EndTxn", "ConsumerGroupHeartbeat")
    assert [API_KEYS[name] for name in some] == [0, 1, 22, 26, 68]
    assert ERRORS["NOT_ENOUGH_REPLICAS_AFTER_APPEND"] == 20
    assert ERRORS["UNKNOWN_TOPIC_OR_PARTITION"] == 3
    assert "NONE" not in ERRORS


@pytest.mark.parametrize("partition", [None, 1])
@given(random=st.randoms(use_true_random=True))
@settings(max_examples=examples(60))
def test_the_errors_of_partitions_are_replaced_and_nothing_else(
    partition: int | None, random: Random
) -> None:
    """Of all of them, or of one number; byte for byte what a broker would write."""
    response = random_message(load_response_schema(PRODUCE, 9), random)

    def is_meant(one: Any) -> bool:
        return partition is None or one.index == partition

    topics = tuple(
        replace(
            topic,
            partition_responses=tuple(
                replace(one, error_code=ErrorCode(NOT_LEADER)) if is_meant(one) else one
                for one in topic.partition_responses
            ),
        )
        for topic in response.responses
    )
    meant = any(is_meant(one) for topic in topics for one in topic.partition_responses)

    changed = with_error(
        framed(response), head("Produce", 9), NOT_LEADER, Selection(partition=partition)
    )

    assert changed == (framed(replace(response, responses=topics)) if meant else None)


@given(random=st.randoms(use_true_random=True))
@settings(max_examples=examples(60))
def test_a_topic_that_seems_gone_has_no_partitions(random: Random) -> None:
    """As a broker answers of a topic that it does not know."""
    response = random_message(load_response_schema(API_KEYS["Metadata"], 12), random)
    gone = tuple(
        replace(topic, error_code=ErrorCode.unknown_topic_or_partition, partitions=())
        for topic in response.topics
    )

    changed = with_error(
        framed(response), head("Metadata", 12), ERRORS["UNKNOWN_TOPIC_OR_PARTITION"]
    )

    assert changed == (framed(replace(response, topics=gone)) if gone else None)


@pytest.mark.parametrize(("api", "version"), VERSIONS)
def test_a_response_that_already_has_the_error_stays_as_it_is(api: str, version: int) -> None:
    """So no other byte of any version is changed."""
    kind = load_response_schema(API_KEYS[api], version)
    for seed in range(20):
        frame = framed(random_message(kind, Random(seed)))  # noqa: S311 - a sample, no secret
        once = with_error(frame, head(api, version), NOT_LEADER)
        assert once is None or with_error(once, head(api, version), NOT_LEADER) == once


@pytest.mark.parametrize("broken", [b"", bytes(4), bytes(9), b"\x00" * 4 + b"\xff" * 40])
def test_a_response_that_cannot_be_read_is_one_error(broken: bytes) -> None:
    """Of this project, so that the relay forwards it as it is."""
    with pytest.raises(HarnessError, match="cannot be changed"):
        with_error(broken, head("Produce", 9), NOT_LEADER)


def test_a_version_that_does_not_exist_is_one_error() -> None:
    """As that of a client newer than kio."""
    with pytest.raises(HarnessError, match="version=99"):
        with_error(bytes(40), head("Produce", 99), NOT_LEADER)


def head(api: str, version: int) -> RequestHead:
    """Return the header of a request."""
    return RequestHead(API_KEYS[api], version, CORRELATION_ID)
