"""A transactional producer: the recorded outcome of transactions and records, on mock brokers."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.fakes.mock_brokers import MockBrokers

from ackbench.experiments.ledger.schema import TRANSACTIONS
from ackbench.experiments.ledger.trial_manifest import Keys
from ackbench.experiments.sweep.workload import Transactions
from ackbench.experiments.trial.clients.producer.attempts import SETTLED, AttemptsFile
from ackbench.experiments.trial.clients.producer.job import ProducerJob
from ackbench.experiments.trial.clients.producer.process import (
    ProducerProcess,
    attempts_table,
    producer_transactions,
    summarize,
)
from ackbench.experiments.trial.clients.producer.transactions_file import (
    REPORTED_ABORTED,
    REPORTED_COMMITTED,
    REPORTED_FENCED,
    Transaction,
    attach_transactions,
    create_transactions,
    transactions_table,
)
from ackbench.experiments.trial.clients.settings.librdkafka import producer_settings
from ackbench.experiments.trial.events.clock import now_ns
from ackbench.infra.process.waiting import wait_until

END_TXN_API = 26
PRODUCE_API = 0
PRODUCER_FENCED = 90
FENCED = -144
COORDINATOR_NOT_AVAILABLE = 15


@pytest.fixture
def brokers() -> Iterator[MockBrokers]:
    """Three mock brokers with a warm-up topic and the trial's topic."""
    with MockBrokers() as mock:
        mock.create_topic("warm-up", 3)
        mock.create_topic("trial", 4)
        yield mock


def job_for(
    brokers: MockBrokers,
    folder: Path,
    records: int = 250,
    abort_every: int = 0,
    rate_records_per_s: float = 2_000,
) -> ProducerJob:
    """A job with 100 records per transaction."""
    return ProducerJob(
        producer=3,
        bootstrap_servers=brokers.bootstrap_servers,
        topic="trial",
        warm_up_topic="warm-up",
        settings=producer_settings({"transactional.id": "mine", "enable.idempotence": "true"}),
        records=records,
        rate_records_per_s=rate_records_per_s,
        record_size_bytes=100,
        keys=Keys(count=5),
        transactions=Transactions(records=100, abort_every=abort_every),
        token=77,
        folder=folder,
    )


def outcomes(job: ProducerJob) -> list[tuple[str, int]]:
    """Return outcome and error of each transaction."""
    table = producer_transactions(job, attempts_table(job))
    assert table.schema.equals(TRANSACTIONS)
    return list(zip(table["outcome"].to_pylist(), table["error"].to_pylist(), strict=True))


def run(job: ProducerJob) -> None:
    """Run the schedule to its end."""
    with ProducerProcess(job) as producer:
        producer.wait_ready()
        producer.begin(now_ns())
        producer.wait_done(60)


def test_every_record_has_its_transaction_and_every_transaction_its_outcome(
    brokers: MockBrokers, tmp_path: Path
) -> None:
    """The last transaction holds the rest of the schedule; all records are acknowledged."""
    job = job_for(brokers, tmp_path)
    run(job)
    attempts = attempts_table(job)
    assert Counter(attempts["transaction"].to_pylist()) == {0: 100, 1: 100, 2: 50}
    assert set(attempts["outcome"].to_pylist()) == {"acked"}
    assert outcomes(job) == [("committed", 0)] * 3
    assert producer_transactions(job, attempts)["records"].to_pylist() == [100, 100, 50]


def test_every_nth_transaction_is_aborted_on_purpose(brokers: MockBrokers, tmp_path: Path) -> None:
    """It is aborted after its records are stored, so that a reader could see them."""
    job = job_for(brokers, tmp_path, abort_every=2)
    run(job)
    assert outcomes(job) == [("committed", 0), ("aborted", 0), ("committed", 0)]
    assert set(attempts_table(job)["outcome"].to_pylist()) == {"acked"}


def test_a_commit_is_retried_until_the_coordinator_is_available(
    brokers: MockBrokers, tmp_path: Path
) -> None:
    """A retriable error delays the commit and has no other effect."""
    job = job_for(brokers, tmp_path)
    with ProducerProcess(job) as producer:
        producer.wait_ready()
        brokers.fail_next_requests(
            END_TXN_API, COORDINATOR_NOT_AVAILABLE, COORDINATOR_NOT_AVAILABLE
        )
        producer.begin(now_ns())
        producer.wait_done(60)
    assert outcomes(job) == [("committed", 0)] * 3


def test_a_producer_fenced_at_its_commit_records_an_unknown_outcome(
    brokers: MockBrokers, tmp_path: Path
) -> None:
    """It had requested the commit. All later records are refused."""
    job = job_for(brokers, tmp_path)
    with ProducerProcess(job) as producer:
        producer.wait_ready()
        brokers.fail_next_requests(END_TXN_API, PRODUCER_FENCED)
        producer.begin(now_ns())
        producer.wait_done(60)
    assert outcomes(job) == [("unknown", FENCED)]
    assert Counter(attempts_table(job)["outcome"].to_pylist()) == {"acked": 100, "rejected": 150}
    assert attempts_table(job)["transaction"].null_count == 150


def test_a_producer_killed_in_a_transaction_abandons_it(
    brokers: MockBrokers, tmp_path: Path
) -> None:
    """It had not requested a commit, so none of its records may become visible."""
    job = job_for(brokers, tmp_path, records=10_000, rate_records_per_s=100)
    with ProducerProcess(job) as producer:
        producer.wait_ready()
        producer.begin(now_ns())
        wait_until(
            lambda: producer.progress().acked > 105, awaiting="the second transaction", timeout_s=30
        )
        producer.kill()
    assert outcomes(job) == [("committed", 0), ("abandoned", 0)]
    assert attempts_table(job)["transaction"].null_count == 0


@pytest.mark.parametrize(
    ("commit_requested", "reported", "outcome"),
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
def test_the_outcome_follows_from_the_request_and_the_report(
    commit_requested: int, reported: int, outcome: str
) -> None:
    """The outcome is unknown if a commit was requested and no result was reported."""
    end_ns = 9 if reported else 0
    rows = np.array(
        [(7, end_ns, commit_requested, reported, 0, 0), (0, 0, 0, 0, 0, 0)], Transaction
    )
    table = transactions_table(rows, 3, 130, 100)
    assert (table["outcome"].to_pylist(), table["records"].to_pylist()) == ([outcome], [100])


def test_lateness_does_not_count_the_time_of_a_commit(brokers: MockBrokers, tmp_path: Path) -> None:
    """The first commit takes 5 s; the records that are due meanwhile are sent right after it.

    One record of each transaction is sent 2 ms late by the generator itself.
    """
    job = job_for(brokers, tmp_path, records=200)
    ledger = AttemptsFile.create(job.ledger, 200)
    create_transactions(job.transactions_file, 200, 100)
    transactions = attach_transactions(job.transactions_file, write=True)
    ms, first, second = 1_000_000, 1_000_000_000, 6_000_000_000
    transactions["begin_ns"] = first, second
    intended = first + np.arange(200) * 50 * ms
    begun = np.repeat([first, second], 100)
    ledger.rows["state"], ledger.rows["intended_ns"] = SETTLED, intended
    ledger.rows["sent_ns"] = np.maximum(intended, begun)
    ledger.rows["sent_ns"][[10, 190]] += 2 * ms
    summary = summarize(job, ledger, 0)
    assert (summary.records, summary.lateness_us_p50, summary.lateness_us_max) == (200, 0, 2000)
    assert summary.lateness_is_without_transactions


def test_lateness_is_unknown_if_every_record_waited_for_a_commit(
    brokers: MockBrokers, tmp_path: Path
) -> None:
    """No record was due while the producer could have sent it."""
    job = job_for(brokers, tmp_path, records=100)
    ledger = AttemptsFile.create(job.ledger, 100)
    create_transactions(job.transactions_file, 100, 100)
    attach_transactions(job.transactions_file, write=True)["begin_ns"] = 9
    ledger.rows["state"], ledger.rows["intended_ns"], ledger.rows["sent_ns"] = SETTLED, 1, 9
    assert summarize(job, ledger, 0).lateness_us_p99 is None
