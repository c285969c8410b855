"""A restarted producer resumes its schedule. On mock brokers, so no evidence of delivery."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow.compute as pc
import pytest
from support.fakes.mock_brokers import MockBrokers

from ackbench.experiments.ledger.terms import ACKED, UNKNOWN
from ackbench.experiments.ledger.trial_manifest import Keys
from ackbench.experiments.trial.clients.consumer.final_read import read_log
from ackbench.experiments.trial.clients.producer.job import ProducerJob
from ackbench.experiments.trial.clients.producer.process import ProducerProcess, attempts_table
from ackbench.experiments.trial.clients.settings.librdkafka import (
    consumer_settings,
    producer_settings,
)
from ackbench.experiments.trial.events.clock import now_ns
from ackbench.infra.process.waiting import wait_until

RECORDS = 3_000
TOKEN = 77


@pytest.fixture
def brokers() -> Iterator[MockBrokers]:
    """One mock broker with a warm-up topic and the trial's topic."""
    with MockBrokers(1) as mock:
        mock.create_topic("warm-up", 1)
        mock.create_topic("trial", 1)
        yield mock


def job_for(brokers: MockBrokers, folder: Path) -> ProducerJob:
    """A job with three seconds of load."""
    return ProducerJob(
        producer=0,
        bootstrap_servers=brokers.bootstrap_servers,
        topic="trial",
        warm_up_topic="warm-up",
        settings=producer_settings({}),
        records=RECORDS,
        rate_records_per_s=1_000,
        record_size_bytes=100,
        keys=Keys(count=5),
        token=TOKEN,
        folder=folder,
    )


@pytest.mark.parametrize("resend", [True, False])
def test_unsettled_records_are_resent_or_stay_unknown(
    brokers: MockBrokers, tmp_path: Path, *, resend: bool
) -> None:
    """Killed while the broker does not answer; the rest of the schedule is sent exactly once."""
    job = job_for(brokers, tmp_path)
    with ProducerProcess(job) as producer:
        producer.wait_ready()
        brokers.set_round_trip_ms(1, 60_000)
        producer.begin(now_ns())
        wait_until(
            lambda: producer.unsettled_records() > RECORDS // 10,
            awaiting="records in flight",
            timeout_s=30,
        )
        producer.kill()
        unsettled = producer.unsettled_records()
        brokers.set_round_trip_ms(1, 0)
        producer.restart(resend=resend)
        summary = producer.wait_done(60)
    table = attempts_table(job)
    unknown = pc.sum(pc.equal(table["outcome"], UNKNOWN)).as_py()
    assert table["seq"].to_pylist() == list(range(RECORDS))
    assert summary.records == RECORDS
    assert unknown == (0 if resend else unsettled)
    assert pc.sum(pc.equal(table["outcome"], ACKED)).as_py() == RECORDS - unknown
    stored = read_log(
        brokers.bootstrap_servers,
        "trial",
        {0: stored_records(brokers)},
        TOKEN,
        consumer_settings({}),
        20,
    )["seq"].to_pylist()
    assert len(stored) - len(set(stored)) in (range(1, unsettled + 1) if resend else range(1))


def stored_records(brokers: MockBrokers) -> int:
    """Return how many records the mock broker holds."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": brokers.bootstrap_servers, "group.id": "offsets"})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition("trial", 0))[1])
    finally:
        consumer.close()
