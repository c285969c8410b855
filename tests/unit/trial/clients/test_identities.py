"""A record's identity as text: in a header, as the key, or within the value. On mock brokers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from hypothesis import given
from hypothesis import strategies as st
from support.fakes.mock_brokers import MockBrokers
from support.reference import values
from support.reference.values import ValueFields

from ackbench.experiments.ledger.trial_manifest import Keys
from ackbench.experiments.sweep.workload import Identity
from ackbench.experiments.trial.clients.consumer.final_read import read_log
from ackbench.experiments.trial.clients.consumer.loop import IDENTITIES
from ackbench.experiments.trial.clients.librdkafka import value
from ackbench.experiments.trial.clients.producer.job import ProducerJob
from ackbench.experiments.trial.clients.producer.process import ProducerProcess
from ackbench.experiments.trial.clients.record.layout import HEADER_BYTES, IDENTITY_BYTES, Origin
from ackbench.experiments.trial.clients.settings.librdkafka import (
    consumer_settings,
    producer_settings,
)
from ackbench.experiments.trial.events.clock import now_ns

RECORDS, TOKEN = 50, 77
ORDER = '{"größe": 5, "order": "{id}"}'
FIELDS = st.builds(
    ValueFields, st.integers(0, 9), st.integers(0, 2**62), st.integers(0, 2**62), st.just(TOKEN)
)


def found_in(text: bytes, token: int = TOKEN) -> tuple[Origin, bytes]:
    """Return the origin of the identity in a text, and the value that it stands for."""
    words = value.allocate_words(HEADER_BYTES)
    octets = np.frombuffer(bytearray(text or b"0"), np.uint8)
    origin = Origin(value.find_identity(octets, len(text), words, token))
    return origin, words.tobytes()


def text_of(fields: ValueFields) -> bytes:
    """Return the text of an identity by the plain-Python reference."""
    return values.encode(fields, HEADER_BYTES).hex().encode()


@given(FIELDS)
def test_the_text_is_the_value_in_hexadecimal(fields: ValueFields) -> None:
    """As the reference writes it."""
    words = np.frombuffer(bytearray(values.encode(fields, HEADER_BYTES)), np.uint64)
    text = np.zeros(IDENTITY_BYTES, np.uint8)
    value.write_identity(words, text)
    assert text.tobytes() == text_of(fields)


@given(st.binary(max_size=30), FIELDS, st.binary(max_size=30))
def test_it_is_found_wherever_it_is(before: bytes, fields: ValueFields, after: bytes) -> None:
    """In a text of any format; also behind something that begins like it."""
    for ahead in (b"", b"4143424b"):
        assert found_in(ahead + before + text_of(fields) + after) == (
            Origin.TRIAL,
            values.encode(fields, HEADER_BYTES),
        )


@given(FIELDS, st.integers(8, IDENTITY_BYTES - 1), st.sampled_from(b"0123456789abcdefg "))
def test_a_changed_character_is_found(fields: ValueFields, at: int, letter: int) -> None:
    """Behind the magic, so that it is still recognized as one; shortened ones as well."""
    text = bytearray(text_of(fields))
    text[at] = letter
    assert found_in(bytes(text))[0] is (
        Origin.TRIAL if bytes(text) == text_of(fields) else Origin.CORRUPT
    )
    assert found_in(text_of(fields)[:at])[0] is Origin.CORRUPT


@given(st.binary(max_size=200), FIELDS)
def test_other_texts_and_those_of_other_trials_are_not_the_trials(
    text: bytes, fields: ValueFields
) -> None:
    """They have no magic, or another token."""
    assert found_in(text.replace(b"4143424b", b""))[0] is Origin.OTHER
    assert found_in(text_of(fields), TOKEN + 1)[0] is Origin.OTHER


@pytest.fixture
def brokers() -> Iterator[MockBrokers]:
    """One mock broker with a warm-up topic and the trial's topic."""
    with MockBrokers(1) as mock:
        mock.create_topic("warm-up", 1)
        mock.create_topic("trial", 1)
        yield mock


def produced(brokers: MockBrokers, folder: Path, identity: Identity, content: Any) -> Message:
    """Produce records with their identity in a place; return the first one, as a program has it."""
    job = ProducerJob(
        producer=0,
        bootstrap_servers=brokers.bootstrap_servers,
        topic="trial",
        warm_up_topic="warm-up",
        settings=producer_settings({}),
        records=RECORDS,
        rate_records_per_s=1_000,
        record_size_bytes=100,
        keys=Keys(count=0 if identity == "key" else 5),
        identity=identity,
        value=content,
        token=TOKEN,
        folder=folder,
    )
    with ProducerProcess(job) as producer:
        producer.wait_ready()
        producer.begin(now_ns())
        producer.wait_done(60)
        assert producer.acked_records() == RECORDS
    consumer = Consumer({"bootstrap.servers": brokers.bootstrap_servers, "group.id": "program"})
    consumer.assign([TopicPartition("trial", 0, 0)])
    (first,) = consumer.consume(1, 20)
    consumer.close()
    return first


@pytest.mark.parametrize(
    ("identity", "content"),
    [("value", None), ("header", None), ("header", "5 EUR"), ("key", "5 EUR"), ("text", ORDER)],
)
def test_each_record_is_identified_where_its_identity_is(
    brokers: MockBrokers, tmp_path: Path, identity: Identity, content: str | None
) -> None:
    """And nowhere else: a reader that looks elsewhere finds no record of the trial."""
    first = produced(brokers, tmp_path, identity, content)
    read, headers = first.value() or b"", dict(first.headers() or ())
    header = headers.get("ackbench-id")
    where = {
        "header": header if isinstance(header, bytes) else b"",
        "key": first.key() or b"",
        "text": read,
    }
    assert {place for place, text in where.items() if found_in(text)[0] is Origin.TRIAL} == (
        set() if identity == "value" else {identity}
    )
    assert identity == "key" or len(first.key() or b"") == 8
    if content is not None:
        before, _, after = content.partition("{id}")
        assert read.startswith(before.encode())
        assert read.endswith(after.encode())
        assert len(read) == len(content.replace("{id}", "0" * IDENTITY_BYTES).encode())
    for place in IDENTITIES:
        log = read_log(
            brokers.bootstrap_servers,
            "trial",
            {0: RECORDS},
            TOKEN,
            consumer_settings({}),
            20,
            identity=place,
        )
        has_it = place == identity or (place == "value" and content is None)
        assert log["seq"].to_pylist() == (list(range(RECORDS)) if has_it else [None] * RECORDS)
