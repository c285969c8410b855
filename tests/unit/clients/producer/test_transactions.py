"""A transactional producer: what its ledger says of each transaction and of each record. Brokers are librdkafka's mock."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.fakes.mock_brokers import MockBrokers

from experiments.clients.producer.job import ProducerJob
from experiments.clients.producer.process import (
    ProducerProcess,
    attempts_table,
    producer_transactions,
)
from experiments.clients.producer.transactions_file import (
    REPORTED_ABORTED,
    REPORTED_COMMITTED,
    REPORTED_FENCED,
    Transaction,
    transactions_table,
)
from experiments.clients.settings.librdkafka import producer_settings
from experiments.events.clock import now_ns
from experiments.ledger.schema import TRANSACTIONS
from infra.process.waiting import wait_until

END_TXN_API = 26
PRODUCE_API = 0
PRODUCER_FENCED = 90
FENCED = -144
COORDINATOR_NOT_AVAILABLE = 15


@pytest.fixture
def brokers() -> Iterator[MockBrokers]:
    """Three, with a topic to warm up on and one for the trial."""
    with MockBrokers() as made:
        made.create_topic("warm-up", 3)
        made.create_topic("trial", 4)
        yield made


def job_for(
    brokers: MockBrokers,
    folder: Path,
    records: int = 250,
    abort_every: int = 0,
    rate_records_per_s: float = 2_000,
) -> ProducerJob:
    """A hundred records a transaction."""
    return ProducerJob(
        producer=3,
        bootstrap_servers=brokers.bootstrap_servers,
        topic="trial",
        warm_up_topic="warm-up",
        settings=producer_settings({"transactional.id": "mine", "enable.idempotence": "true"}),
        records=records,
        rate_records_per_s=rate_records_per_s,
        record_size_bytes=100,
        keys=5,
        transaction_records=100,
        abort_every=abort_every,
        token=77,
        folder=folder,
    )


def told(job: ProducerJob) -> list[tuple[str, int]]:
    """Outcome and error of each transaction."""
    table = producer_transactions(job, attempts_table(job))
    assert table.schema.equals(TRANSACTIONS)
    return list(zip(table["outcome"].to_pylist(), table["error"].to_pylist(), strict=True))


def run(job: ProducerJob) -> None:
    """The whole schedule."""
    with ProducerProcess(job) as producer:
        producer.wait_ready()
        producer.begin(now_ns())
        producer.wait_done(60)


def test_every_record_knows_its_transaction_and_each_transaction_how_it_ended(
    brokers: MockBrokers, tmp_path: Path
) -> None:
    """Full ones, and the rest of the schedule in a last one; all of it acknowledged."""
    job = job_for(brokers, tmp_path)
    run(job)
    attempts = attempts_table(job)
    assert Counter(attempts["transaction"].to_pylist()) == {0: 100, 1: 100, 2: 50}
    assert set(attempts["outcome"].to_pylist()) == {"acked"}
    assert told(job) == [("committed", 0)] * 3
    assert producer_transactions(job, attempts)["records"].to_pylist() == [100, 100, 50]


def test_each_so_many_th_transaction_is_aborted_on_purpose(
    brokers: MockBrokers, tmp_path: Path
) -> None:
    """After its records were stored: what must not be seen has to be there."""
    job = job_for(brokers, tmp_path, abort_every=2)
    run(job)
    assert told(job) == [("committed", 0), ("aborted", 0), ("committed", 0)]
    assert set(attempts_table(job)["outcome"].to_pylist()) == {"acked"}


def test_a_commit_goes_on_when_its_coordinator_comes_back(
    brokers: MockBrokers, tmp_path: Path
) -> None:
    """One answer that asks for patience costs time and nothing else."""
    job = job_for(brokers, tmp_path)
    with ProducerProcess(job) as producer:
        producer.wait_ready()
        brokers.answer_with(END_TXN_API, COORDINATOR_NOT_AVAILABLE, COORDINATOR_NOT_AVAILABLE)
        producer.begin(now_ns())
        producer.wait_done(60)
    assert told(job) == [("committed", 0)] * 3


def test_a_producer_fenced_at_its_commit_does_not_know_how_that_ended(
    brokers: MockBrokers, tmp_path: Path
) -> None:
    """It had asked: the transaction may be either, and the records behind it are refused."""
    job = job_for(brokers, tmp_path)
    with ProducerProcess(job) as producer:
        producer.wait_ready()
        brokers.answer_with(END_TXN_API, PRODUCER_FENCED)
        producer.begin(now_ns())
        producer.wait_done(60)
    assert told(job) == [("unknown", FENCED)]
    assert Counter(attempts_table(job)["outcome"].to_pylist()) == {"acked": 100, "rejected": 150}
    assert attempts_table(job)["transaction"].null_count == 150


def test_a_producer_killed_in_a_transaction_has_abandoned_it(
    brokers: MockBrokers, tmp_path: Path
) -> None:
    """SIGKILL: it had not asked to commit, so nothing of it may ever be seen."""
    job = job_for(brokers, tmp_path, records=10_000, rate_records_per_s=100)
    with ProducerProcess(job) as producer:
        producer.wait_ready()
        producer.begin(now_ns())
        wait_until(
            lambda: producer.progress().acked > 105, awaiting="the second transaction", timeout_s=30
        )
        producer.kill()
    assert told(job) == [("committed", 0), ("abandoned", 0)]
    assert attempts_table(job)["transaction"].null_count == 0


@pytest.mark.parametrize(
    ("asked", "ending", "outcome"),
    [
        (1, REPORTED_COMMITTED, "committed"),
        (1, REPORTED_ABORTED, "aborted"),
        (0, REPORTED_ABORTED, "aborted"),
        (0, REPORTED_FENCED, "fenced"),
        (1, REPORTED_FENCED, "unknown"),
        (1, 0, "unknown"),
        (0, 0, "abandoned"),
    ],
)
def test_what_was_asked_and_told_decides(asked: int, ending: int, outcome: str) -> None:
    """Nobody knows how a transaction ended whose producer asked to commit and was not told."""
    rows = np.array([(7, 9 if ending else 0, asked, ending, 0, 0), (0, 0, 0, 0, 0, 0)], Transaction)
    table = transactions_table(rows, 3, 130, 100)
    assert (table["outcome"].to_pylist(), table["records"].to_pylist()) == ([outcome], [100])
