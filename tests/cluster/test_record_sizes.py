"""The largest records that planning allows are acknowledged; with a byte more they are refused."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ackbench.experiments.ledger.terms import ACKED, REJECTED
from ackbench.experiments.planning.experiment import parse_experiment
from ackbench.experiments.planning.planner import plan
from ackbench.experiments.trial.clients.consumer.final_read import read_log
from ackbench.experiments.trial.clients.interface import JavaClientFactory
from ackbench.experiments.trial.clients.librdkafka import topics
from ackbench.experiments.trial.clients.producer.job import ProducerJob
from ackbench.experiments.trial.clients.producer.process import ProducerProcess, attempts_table
from ackbench.experiments.trial.clients.record.layout import (
    TextValueFormat,
    trial_tag,
    warm_up_records,
)
from ackbench.experiments.trial.clients.settings.kinds import ClientChoice
from ackbench.experiments.trial.clients.settings.librdkafka import producer_settings
from ackbench.experiments.trial.events.clock import now_ns
from ackbench.infra.cluster.local import LocalCluster, provision
from ackbench.infra.kafka.spec import ClusterSpec

pytestmark = [pytest.mark.cluster, pytest.mark.further]
LONGEST_PREFIX = 2**25 - 2
"""A token whose values of Java's producers begin with ten digits, as many as any."""
TOO_LARGE = 10
"""`MSG_SIZE_TOO_LARGE`, of clients and brokers."""


@pytest.fixture(scope="module")
def node(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Return a cluster of one node."""
    folder = tmp_path_factory.mktemp("clusters") / "sizes"
    cluster = provision(folder, cache, "sizes", ClusterSpec(nodes=1))
    yield cluster
    cluster.destroy()


@pytest.fixture
def make_topic(node: LocalCluster) -> Callable[[Mapping[str, Any]], str]:
    """Make a topic of one partition with these properties."""

    def make(properties: Mapping[str, Any]) -> str:
        name = f"topic-{uuid.uuid4().hex[:8]}"
        admin = AdminClient({"bootstrap.servers": node.bootstrap_servers, "log_level": 0})
        config = {key: str(value) for key, value in properties.items()}
        admin.create_topics([NewTopic(name, 1, 1, config=config)])[name].result(timeout=30)
        node.wait_until_healthy()
        return name

    return make


def refusal(workload: Mapping[str, Any], client: str = "librdkafka", **sections: Any) -> str:
    """Return why planning refuses the cell of a workload; empty: it does not."""
    found = plan(
        parse_experiment(
            {
                "name": "sizes",
                "title": "t",
                "question": "q",
                "controls": False,
                "nodes": 1,
                "axes": {
                    "acks": ["all"],
                    "client": [client],
                    "replication.factor": 1,
                    "fault": "none",
                },
                "workload": {"duration_s": 1, "rate_records_per_s": 50, **workload},
                **sections,
            },
            "sizes.yaml",
        ),
        "sizes-1",
    )
    return found.refused[0].reason if found.refused else ""


CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "the client's default": ({}, {"keys": {"count": 16}}),
    "the client's default, without keys": ({}, {"keys": {"count": 0}}),
    "a larger client": ({}, {"producer": {"message.max.bytes": 5_000}}),
    "the topic": ({}, {"topic": {"max.message.bytes": 3_000}}),
    "the topic, with headers": (
        {"headers": 9},
        {"keys": {"count": 0}, "topic": {"max.message.bytes": 3_000}},
    ),
    "the topic, of an idempotent producer": (
        {},
        {"topic": {"max.message.bytes": 1_000}, "producer": {"enable.idempotence": True}},
    ),
}
"""Workload and sections by what limits the size."""


@pytest.mark.parametrize("case", CASES)
def test_librdkafka_delivers_the_largest_record_that_is_planned_and_no_larger_one(
    case: str, node: LocalCluster, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    """Each record is a batch of its own."""
    workload, sections = CASES[case]
    found = re.search(
        r"at most (\d+)", refusal({**workload, "record_size_bytes": 10**6}, **sections)
    )
    assert found is not None
    size = int(found[1])
    topics.ensure_topic(node.bootstrap_servers, "warm-up", partitions=1, replication_factor=1)
    topic = make_topic(sections.get("topic", {}))

    def outcomes(size_bytes: int) -> set[tuple[str, int]]:
        folder = tmp_path / str(size_bytes)
        folder.mkdir()
        given = {key: str(value).lower() for key, value in sections.get("producer", {}).items()}
        job = ProducerJob.model_validate(
            {
                "producer": 1,
                "bootstrap_servers": node.bootstrap_servers,
                "topic": topic,
                "warm_up_topic": "warm-up",
                "records": 3,
                "rate_records_per_s": 50,
                "record_size_bytes": size_bytes,
                "token": 4711,
                "folder": folder,
                "keys": sections.get("keys", {}),
                **workload,
                "settings": producer_settings({"batch.num.messages": "1", **given}),
            }
        )
        with ProducerProcess(job) as producer:
            producer.wait_ready()
            producer.begin(now_ns() + 50_000_000)
            producer.wait_done(60)
        table = attempts_table(job)
        return set(zip(table["outcome"].to_pylist(), table["error"].to_pylist(), strict=True))

    assert refusal({**workload, "record_size_bytes": size}, **sections) == ""
    assert outcomes(size) == {(ACKED, 0)}
    assert refusal({**workload, "record_size_bytes": size + 1}, **sections) != ""
    assert outcomes(size + 1) == {(REJECTED, TOO_LARGE)}


@pytest.mark.further(name=["max.message.bytes"])
@pytest.mark.parametrize(
    ("section", "name"), [("producer", "max.request.size"), ("topic", "max.message.bytes")]
)
def test_java_delivers_the_largest_record_that_is_planned_and_no_larger_one(
    section: str,
    name: str,
    node: LocalCluster,
    cache: Path,
    tmp_path: Path,
    make_topic: Callable[..., str],
) -> None:
    """Its values have a size of their own, so the limit is what varies: by one byte."""
    found = re.search(rf"{name} from \d+ to (\d+)", refusal({}, "java", **{section: {name: 80}}))
    assert found is not None
    enough, records = int(found[1]), 50

    def outcomes(limit: int) -> list[str]:
        folder = tmp_path / str(limit)
        folder.mkdir()
        topic = make_topic({name: limit} if section == "topic" else {})
        given = {name: str(limit)} if section == "producer" else {}
        job = ProducerJob.model_validate(
            {
                "producer": 1,
                "bootstrap_servers": node.bootstrap_servers,
                "topic": topic,
                "warm_up_topic": "",
                "records": records,
                "rate_records_per_s": 50,
                "record_size_bytes": 20,
                "keys": {"count": 64},
                "token": LONGEST_PREFIX,
                "folder": folder,
                "settings": ClientChoice(kind="java").producer_settings(given),
            }
        )
        text = TextValueFormat(trial_tag(LONGEST_PREFIX), warm_up_records(50))
        with JavaClientFactory(ClusterSpec().kafka_version, cache).producer(job) as producer:
            producer.wait_ready()
            producer.begin(now_ns())
            producer.wait_done(120)
            ends = topics.end_offsets(node.bootstrap_servers, topic)
            log = read_log(node.bootstrap_servers, topic, ends, LONGEST_PREFIX, {}, 60, text=text)
            attempts: pa.Table = producer.attempts(log)
        return list(attempts["outcome"].to_pylist())

    assert refusal({}, "java", **{section: {name: enough}}) == ""
    assert outcomes(enough) == [ACKED] * records
    assert refusal({}, "java", **{section: {name: enough - 1}}) != ""
    assert REJECTED in outcomes(enough - 1)
