"""Named fields that a relay changes in responses, compared with the response as kio writes it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_response_schema
from kio.schema.errors import ErrorCode
from support.builders.kafka_messages import CORRELATION_ID, framed, random_message
from support.tiers import examples

from ackbench.infra.errors import HarnessError
from ackbench.infra.kafka.addresses import RequestHead
from ackbench.infra.kafka.field_changes import FieldMissing, check_changes, with_changes
from ackbench.infra.kafka.messages import ALL, API_KEYS, Selection

METADATA_12 = RequestHead(API_KEYS["Metadata"], 12, CORRELATION_ID)


@given(random=st.randoms(use_true_random=True))
@settings(max_examples=examples(60))
def test_one_topic_is_removed_and_nothing_else(random: Random) -> None:
    """By its name; byte for byte what a broker would write."""
    response = random_message(load_response_schema(METADATA_12.api_key, 12), random)
    gone = response.topics[0].name or "" if response.topics else "none"
    left = tuple(one for one in response.topics if gone and one.name != gone)

    changed = with_changes(framed(response), METADATA_12, "topics:removed", Selection(gone))

    assert changed == framed(replace(response, topics=left))


@given(random=st.randoms(use_true_random=True))
@settings(max_examples=examples(60))
def test_fields_of_one_partition_and_of_none_are_changed(random: Random) -> None:
    """A stale epoch, an error and another throttle time, in one response."""
    response = random_message(load_response_schema(METADATA_12.api_key, 12), random)
    topics = tuple(
        replace(
            topic,
            partitions=tuple(
                replace(
                    one,
                    leader_epoch=one.leader_epoch - 1,
                    error_code=ErrorCode.leader_not_available,
                )
                if one.partition_index == 1
                else one
                for one in topic.partitions
            ),
        )
        for topic in response.topics
    )
    changes = (
        "topics.partitions.leader_epoch:by-1;"
        "topics.partitions.error_code:LEADER_NOT_AVAILABLE;throttle_time_ms:70"
    )

    changed = with_changes(framed(response), METADATA_12, changes, Selection(partition=1))

    expected = replace(response, topics=topics, throttle_time=timedelta(milliseconds=70))
    assert changed == framed(expected)


def test_a_version_without_the_field_is_an_error_of_its_own() -> None:
    """Metadata 5 has no leader epochs."""
    old = RequestHead(API_KEYS["Metadata"], 5, CORRELATION_ID)
    response = random_message(load_response_schema(old.api_key, 5), Random(1))  # noqa: S311
    with pytest.raises(FieldMissing, match="no field leader_epoch"):
        with_changes(framed(response), old, "topics.partitions.leader_epoch:3", ALL)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ("topics.partition.leader_epoch:3", "has a field partition; did you mean partitions"),
        ("throttle_time:3", "did you mean throttle_time_ms"),
        ("topics:3", "allowed: removed"),
        ("cluster_id:removed", "is no array"),
        ("throttle_time_ms:soon", "soon is no number"),
        ("throttle_time_ms:3000000000", "beyond the field's limits"),
        ("topics.error_code:UNKNOWN_TOPIC", "no error of Kafka; did you mean"),
        ("topics.is_internal:1", "neither true nor false"),
        ("topics.topic_id:1", "no UUID"),
        ("throttle_time_ms", "is no change"),
        (";".join(["throttle_time_ms:1"] * 17), "17 changes"),
    ],
)
def test_what_no_version_can_have_is_one_line(changes: str, reason: str) -> None:
    """With the nearest name."""
    with pytest.raises(HarnessError, match=reason) as caught:
        check_changes("Metadata", changes)
    assert "\n" not in str(caught.value)


def test_a_field_of_some_versions_is_accepted() -> None:
    """The client chooses the version."""
    check_changes("Metadata", "topics.partitions.leader_epoch:by-1;topics:removed")
    check_changes("Produce", "responses.partition_responses.base_offset:7;throttle_time_ms:500")
