"""A cell whose records are too large for its client or its topic is refused with what would do."""

from __future__ import annotations

import re
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from hypothesis import given, settings
from hypothesis import strategies as st
from support.golden_files import Says

from ackbench.experiments.planning.experiment import parse_experiment
from ackbench.experiments.planning.planner import plan
from ackbench.experiments.sweep.plan import Plan

LARGEST = 999_956
"""With librdkafka's default of 1,000,000 bytes, a key of 8 and its overhead of 36."""


def planned(
    size: int, keys: int = 64, axes: dict[str, Any] | None = None, **sections: dict[str, Any]
) -> Plan:
    """Return the plan of an experiment with one cell."""
    workload = {"duration_s": 10, "record_size_bytes": size}
    return plan(
        parse_experiment(
            {
                "name": "small",
                "title": "t",
                "question": "q",
                "controls": False,
                "axes": {"acks": [1], "fault": "none", **(axes or {})},
                "workload": workload | sections.pop("workload", {}),
                "keys": {"count": keys},
                **sections,
            },
            "small.yaml",
        ),
        "small-1",
    )


def refusal(size: int, **options: Any) -> str | None:
    """Return why the only cell is refused."""
    found = planned(size, **options)
    assert len(found.trials) + len(found.refused) == 1
    return found.refused[0].reason if found.refused else None


def largest(**options: Any) -> int:
    """Return the largest size that the refusal of a larger one names."""
    reason = refusal(1_000_000, **options)
    assert reason is not None
    found = re.search(r"allowed: at most (\d+)", reason)
    assert found is not None, reason
    return int(found[1])


def test_a_record_of_the_clients_limit_does_not_fit_into_it(says: Says) -> None:
    """The client counts the key and an overhead; the message has what would do."""
    says(refusal(1_000_000))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"keys": 0},
        {"producer": {"message.max.bytes": 5_000}},
        {"producer": {"message.max.bytes": 5_000, "enable.idempotence": True, "acks": "all"}},
        {"topic": {"max.message.bytes": 3_000}},
        {"topic": {"max.message.bytes": 3_000}, "keys": 0, "workload": {"headers": 9}},
        {"topic": {"max.message.bytes": 159}},
        {"topic": {"max.message.bytes": 8_291}},
        {"broker": {"message.max.bytes": 2_000}},
        {"topic": {"segment.bytes": 4_000}, "kafka.version": "3.9.2"},
        {"producer": {"compression.type": "lz4"}, "topic": {"max.message.bytes": 3_000}},
    ],
)
def test_the_size_that_is_named_is_the_largest_that_is_planned(options: dict[str, Any]) -> None:
    """One more byte is refused."""
    if "acks" in options.get("producer", {}):
        producer = {key: value for key, value in options["producer"].items() if key != "acks"}
        options = {**options, "producer": producer, "axes": {"acks": ["all"]}}
    size = largest(**options)
    assert refusal(size, **options) is None
    assert refusal(size + 1, **options) is not None


def test_the_value_that_is_named_for_a_setting_is_the_smallest_that_would_do() -> None:
    """Of each setting that is too small."""
    reason = refusal(
        5_000, topic={"max.message.bytes": 3_000}, producer={"message.max.bytes": 4_000}
    )
    assert reason is not None
    needed = dict(re.findall(r"(\w[\w.]+) from \d+ to (\d+)", reason))
    raised = {name: int(value) for name, value in needed.items()}
    topic = {"max.message.bytes": raised["topic.max.message.bytes"]}
    producer = {"message.max.bytes": raised["producer.message.max.bytes"]}
    assert refusal(5_000, topic=topic, producer=producer) is None
    for section in (topic, producer):
        (name,) = section
        section[name] -= 1
        assert refusal(5_000, topic=topic, producer=producer) is not None
        section[name] += 1


def test_a_smaller_limit_of_the_topic_hides_the_brokers() -> None:
    """And a larger one too: the topic's own setting is the one that is compared."""
    broker = {"message.max.bytes": 2_000}
    assert largest(broker=broker, topic={"max.message.bytes": 4_000}) > 2_000
    assert largest(broker=broker, topic={"max.message.bytes": 1_000}) < 1_000


def test_only_the_cells_whose_records_are_too_large_are_refused() -> None:
    """The others run."""
    found = planned(100, axes={"workload.record_size_bytes": [100, LARGEST, LARGEST + 1]})
    assert [trial.workload.record_size_bytes for trial in found.trials] != []
    assert {trial.workload.record_size_bytes for trial in found.trials} == {100, LARGEST}
    assert [cell.cell["workload.record_size_bytes"] for cell in found.refused] == [LARGEST + 1]


def test_javas_values_have_a_size_of_their_own() -> None:
    """The message has the setting that is too small, and what would do."""
    java = {"client": "java"}
    text = refusal(100, axes=java, producer={"max.request.size": 100})
    assert text is not None
    found = re.fullmatch(
        r"a record has up to (\d+) bytes, and at most (\d+) are allowed: raise "
        r"producer\.max\.request\.size from 100 to (\d+)",
        text,
    )
    assert found is not None, text
    size, _, needed = map(int, found.groups())
    assert needed == 82 + (1 + 2) + (1 + size) + 1  # two digits of a key, no headers
    assert refusal(100, axes=java, producer={"max.request.size": needed}) is None
    assert refusal(100, axes=java, producer={"max.request.size": needed - 1}) is not None


def test_what_a_java_client_compresses_is_not_known() -> None:
    """Its text may become much smaller, so the topic's limit refuses nothing."""
    java, topic = {"client": "java"}, {"max.message.bytes": 80}
    assert refusal(100, axes=java, topic=topic) is not None
    assert refusal(100, axes=java, topic=topic, producer={"compression.type": "gzip"}) is None


@pytest.fixture(scope="module")
def producers() -> dict[int, Producer]:
    """Return producers by their `message.max.bytes`; they never connect."""
    return {
        limit: Producer(
            {"bootstrap.servers": "127.0.0.1:1", "message.max.bytes": limit, "log_level": 0}
        )
        for limit in (1_000, 8_300, 1_000_000)
    }


@settings(deadline=None)
@given(limit=st.sampled_from([1_000, 8_300, 1_000_000]), has_key=st.booleans())
def test_librdkafka_accepts_the_largest_record_and_refuses_a_byte_more(
    producers: dict[int, Producer], limit: int, *, has_key: bool
) -> None:
    """It compares when a record is passed to it, without a broker."""
    size = largest(keys=64 if has_key else 0, producer={"message.max.bytes": limit})
    key = b"12345678" if has_key else None
    producers[limit].produce("t", b"x" * size, key)
    with pytest.raises(KafkaException, match="MSG_SIZE_TOO_LARGE"):
        producers[limit].produce("t", b"x" * (size + 1), key)
