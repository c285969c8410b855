"""The partitions that each partitioner chooses. On mock brokers: the client makes the choice."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.fakes.mock_brokers import MockBrokers
from support.reference.hashing import crc32_partition, key_bytes, murmur2_partition

from ackbench.experiments.ledger.trial_manifest import Keys
from ackbench.experiments.trial.clients.producer.job import ProducerJob
from ackbench.experiments.trial.clients.producer.process import ProducerProcess, attempts_table
from ackbench.experiments.trial.clients.settings.librdkafka import producer_settings
from ackbench.experiments.trial.events.clock import now_ns

PARTITIONS = 5
RECORDS = 3_000


@pytest.fixture
def brokers() -> Iterator[MockBrokers]:
    """Three mock brokers with a warm-up topic and the trial's topic."""
    with MockBrokers() as mock:
        mock.create_topic("warm-up", 3)
        mock.create_topic("trial", PARTITIONS)
        yield mock


def run_producer(
    brokers: MockBrokers, folder: Path, settings: dict[str, str], **load: Any
) -> pa.Table:
    """Return the attempts of a producer without a rate."""
    job = ProducerJob(
        producer=0,
        bootstrap_servers=brokers.bootstrap_servers,
        topic="trial",
        warm_up_topic="warm-up",
        settings=producer_settings(settings),
        records=RECORDS,
        rate_records_per_s=0,
        record_size_bytes=100,
        token=77,
        folder=folder,
        **load,
    )
    with ProducerProcess(job) as producer:
        producer.wait_ready()
        producer.begin(now_ns())
        producer.wait_done(60)
    return attempts_table(job)


@pytest.mark.parametrize(
    ("partitioner", "formula"),
    [("consistent_random", crc32_partition), ("murmur2_random", murmur2_partition)],
)
def test_each_key_goes_to_the_partition_of_the_partitioners_formula(
    brokers: MockBrokers, tmp_path: Path, partitioner: str, formula: Callable[[bytes, int], int]
) -> None:
    """With 1,000 keys, one per pair of records: the recorded key is the one that was sent."""
    table = run_producer(
        brokers,
        tmp_path,
        {"partitioner": partitioner},
        keys=Keys(count=1_000, pairs="common", pair_apart_records=7),
    )
    expected = [formula(key_bytes(key, text=False), PARTITIONS) for key in table["key"].to_pylist()]
    assert table["partition"].to_pylist() == expected
    assert set(table["key"].to_pylist()) == set(range(1_000))


def test_round_robin_assigns_the_partitions_in_turn(brokers: MockBrokers, tmp_path: Path) -> None:
    """The records have no key."""
    table = run_producer(
        brokers, tmp_path, {}, keys=Keys(count=0), round_robin_partitions=PARTITIONS
    )
    assert table["partition"].to_pylist() == [seq % PARTITIONS for seq in range(RECORDS)]
    assert table["key"].null_count == RECORDS
