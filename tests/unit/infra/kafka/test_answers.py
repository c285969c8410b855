"""Responses that are made from requests, read with kio in every version."""

from __future__ import annotations

import struct
from dataclasses import fields, is_dataclass, replace
from random import Random
from typing import Any

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader
from support.builders.kafka_messages import CORRELATION_ID, random_message

from ackbench.infra.kafka.addresses import RequestHead
from ackbench.infra.kafka.answers import ANSWERED, Unanswerable, answer_with_error
from ackbench.infra.kafka.frames import placeholder_request
from ackbench.infra.kafka.messages import API_KEYS, ERRORS, Selection, written

NOT_LEADER = ERRORS["NOT_LEADER_OR_FOLLOWER"]
VERSIONS = [
    (api, version)
    for api in sorted(ANSWERED)
    for version in sorted(schema_name_map[api_key_map[API_KEYS[api]]])
]


def request_frame(api: str, version: int, entity: Any) -> bytes:
    """Return a request as a client sends it."""
    header = struct.pack(">hhih", API_KEYS[api], version, CORRELATION_ID, 2) + b"me"
    if type(entity).__flexible__:
        header += b"\x00"
    body = header + written(entity)
    return len(body).to_bytes(4) + body


def errors_of(entity: Any) -> list[ErrorCode]:
    """Return all errors of an entity and its entries."""
    found: list[ErrorCode] = []
    for field in fields(entity):
        value = getattr(entity, field.name)
        found += [value] if isinstance(value, ErrorCode) else []
        found += [
            error
            for one in (value if isinstance(value, tuple) else ())
            if is_dataclass(one)
            for error in errors_of(one)
        ]
    return found


@pytest.mark.parametrize(("api", "version"), VERSIONS)
def test_a_response_is_what_kio_reads_and_writes_the_same(api: str, version: int) -> None:
    """With the request's correlation id and the error, in each version."""
    head = RequestHead(API_KEYS[api], version, CORRELATION_ID)
    answers = 0
    for seed in range(12):
        asked = random_message(load_request_schema(head.api_key, version), Random(seed))  # noqa: S311
        try:
            frame = answer_with_error(request_frame(api, version, asked), head, NOT_LEADER)
        except Unanswerable:
            continue
        kind: Any = load_response_schema(head.api_key, version)
        header, header_bytes = entity_reader(kind.__header_schema__)(frame, 4)
        made, body_bytes = entity_reader(kind)(frame, 4 + header_bytes)
        assert len(frame) == 4 + header_bytes + body_bytes == 4 + int.from_bytes(frame[:4])
        assert header.correlation_id == CORRELATION_ID
        assert ErrorCode(NOT_LEADER) in errors_of(made)
        assert frame.endswith(written(made))
        answers += 1
    assert answers or (api, version) == ("Fetch", 0)


def test_each_partition_that_a_produce_request_names_has_the_error() -> None:
    """And no offset."""
    head = RequestHead(API_KEYS["Produce"], 9, CORRELATION_ID)
    asked = next(
        one
        for seed in range(100)
        if (one := random_message(load_request_schema(0, 9), Random(seed))).topic_data  # noqa: S311
        and all(topic.partition_data for topic in one.topic_data)
    )
    asked = replace(asked, acks=-1)
    frame = answer_with_error(request_frame("Produce", 9, asked), head, NOT_LEADER)
    kind: Any = load_response_schema(0, 9)
    made, _ = entity_reader(kind)(frame, 9)
    assert [
        (topic.name, [(one.index, one.base_offset) for one in topic.partition_responses])
        for topic in made.responses
    ] == [
        (topic.name, [(one.index, -1) for one in topic.partition_data])
        for topic in asked.topic_data
    ]
    with pytest.raises(Unanswerable, match="acks=0"):
        answer_with_error(request_frame("Produce", 9, replace(asked, acks=0)), head, NOT_LEADER)
    with pytest.raises(Unanswerable, match="does not name"):
        answer_with_error(
            request_frame("Produce", 9, asked), head, NOT_LEADER, selection=Selection("other")
        )


def test_the_placeholder_is_a_request_for_api_versions() -> None:
    """With the correlation id and client id of the request."""
    head, begin = API_KEYS["ApiVersions"], 4
    made = placeholder_request(struct.pack(">ihhih", 30, 0, 9, 77, 2) + b"me" + bytes(18))
    assert made == struct.pack(">ihhih", 12, head, 0, 77, 2) + b"me"
    assert len(made) == begin + 12
