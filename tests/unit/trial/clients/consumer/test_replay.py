"""Field digests of sent records, the brokers that served them, and a replay by another client."""

from __future__ import annotations

from pathlib import Path

from support.fakes.mock_brokers import MockBrokers

from ackbench.experiments.ledger.trial_manifest import Keys
from ackbench.experiments.trial.clients.consumer.process import ConsumerJob, ConsumerProcess
from ackbench.experiments.trial.clients.consumer.replay import replay
from ackbench.experiments.trial.clients.producer.job import ProducerJob
from ackbench.experiments.trial.clients.producer.process import ProducerProcess
from ackbench.experiments.trial.clients.settings.librdkafka import (
    consumer_settings,
    producer_settings,
)
from ackbench.experiments.trial.events.clock import now_ns

RECORDS, TOKEN = 300, 77
DIGESTS = ("timestamp_ms", "key_digest", "value_digest", "headers_digest")


def test_a_replay_has_the_digests_of_the_sent_records_and_the_broker_is_known(
    tmp_path: Path,
) -> None:
    """Key, value, two headers and timestamp of each record are unchanged; one broker served all."""
    with MockBrokers(1) as brokers:
        brokers.create_topic("trial", 2)
        brokers.create_topic("warm-up", 2)
        servers, shared = (
            brokers.bootstrap_servers,
            {"token": TOKEN, "folder": tmp_path, "record_serving_brokers": True},
        )
        job = ProducerJob(
            bootstrap_servers=servers,
            topic="trial",
            producer=0,
            warm_up_topic="warm-up",
            settings=producer_settings({}),
            records=RECORDS,
            rate_records_per_s=1000,
            record_size_bytes=100,
            keys=Keys(count=8),
            headers=2,
            **shared,
        )
        consumer_job = ConsumerJob(
            bootstrap_servers=servers,
            topic="trial",
            partitions=2,
            settings=consumer_settings({}),
            **shared,
        )
        with ProducerProcess(job) as producer, ConsumerProcess(consumer_job) as consumer:
            consumer.wait_ready()
            producer.wait_ready()
            producer.begin(now_ns())
            producer.wait_done(30)
            ends = _ends(producer)
            consumer.finish(ends, 20)
        read = replay(
            servers, "trial", 1, dict.fromkeys(ends, 0), ends, TOKEN, consumer_settings({})
        ).to_pylist()
    sent = {row["seq"]: [row[name] for name in DIGESTS] for row in producer.sent().to_pylist()}
    assert {row["seq"]: [row[name] for name in DIGESTS] for row in read} == sent
    assert len({tuple(digests[1:]) for digests in sent.values()}) == RECORDS
    for served in (producer.served(), consumer.served()):
        assert {(row["node"], row["partition"]): row["records"] for row in served.to_pylist()} == {
            (1, partition): end for partition, end in ends.items()
        }
    assert consumer.expired_records({0: 5}).num_rows == 5


def _ends(producer: ProducerProcess) -> dict[int, int]:
    ends: dict[int, int] = {}
    for row in producer.attempts(producer.sent()).to_pylist():
        ends[row["partition"]] = max(ends.get(row["partition"], 0), row["offset"] + 1)
    return ends
