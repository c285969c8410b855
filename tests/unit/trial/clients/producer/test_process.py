"""The producer's process: schedule, attempts, exit. On mock brokers: no evidence of delivery."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.compute as pc
import pytest
from pydantic import ValidationError
from support.fakes.mock_brokers import MockBrokers

from ackbench.experiments.ledger.schema import ATTEMPTS
from ackbench.experiments.ledger.terms import ACKED, REJECTED, UNKNOWN
from ackbench.experiments.ledger.trial_manifest import Keys
from ackbench.experiments.trial.clients.producer.job import ProducerJob
from ackbench.experiments.trial.clients.producer.main import pace_in_realtime
from ackbench.experiments.trial.clients.producer.process import ProducerProcess, attempts_table
from ackbench.experiments.trial.clients.settings.librdkafka import producer_settings
from ackbench.experiments.trial.events.clock import now_ns
from ackbench.infra.errors import HarnessError
from ackbench.infra.process.waiting import wait_until

PRODUCE_API = 0
MSG_SIZE_TOO_LARGE = 10
QUEUE_FULL = -184


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
    records: int = 2_000,
    rate_records_per_s: float = 0,
    **settings: str,
) -> ProducerJob:
    """Return a small job with these producer settings."""
    return ProducerJob(
        producer=3,
        bootstrap_servers=brokers.bootstrap_servers,
        topic="trial",
        warm_up_topic="warm-up",
        settings=producer_settings(
            {name.replace("_", "."): value for name, value in settings.items()}
        ),
        records=records,
        rate_records_per_s=rate_records_per_s,
        record_size_bytes=100,
        keys=Keys(count=5),
        token=77,
        folder=folder,
    )


def test_every_record_of_the_schedule_is_an_attempt(brokers: MockBrokers, tmp_path: Path) -> None:
    """Sequence numbers are dense, records acknowledged, intended times exact, stderr empty."""
    job = job_for(brokers, tmp_path, records=500, rate_records_per_s=1_000)
    with ProducerProcess(job) as producer:
        producer.wait_ready()
        start_ns = now_ns()
        producer.begin(start_ns)
        summary = producer.wait_done(60)
    table = attempts_table(job)
    assert table.schema.equals(ATTEMPTS)
    assert table["seq"].to_pylist() == list(range(500))
    assert table["intended_ns"].to_pylist() == [start_ns + seq * 1_000_000 for seq in range(500)]
    assert pc.unique(table["outcome"]).to_pylist() == [ACKED]
    assert pc.all(pc.less_equal(table["sent_ns"], table["settled_ns"])).as_py()
    assert (summary.records, summary.producer) == (500, 3)
    assert (tmp_path / "producer-3.errors").read_text() == ""


@pytest.mark.parametrize("rate_records_per_s", [0, 1_000])
def test_only_the_thread_that_follows_a_schedule_has_a_real_time_priority(
    brokers: MockBrokers, tmp_path: Path, rate_records_per_s: int
) -> None:
    """Where allowed. Without a rate it would take the CPU from the brokers, so it has none."""
    job = job_for(brokers, tmp_path, records=500, rate_records_per_s=rate_records_per_s)
    with ProducerProcess(job) as producer:
        producer.wait_ready()
        policies = {
            int(thread.name): os.sched_getscheduler(int(thread.name)) & ~os.SCHED_RESET_ON_FORK
            for thread in Path(f"/proc/{producer.pid}/task").iterdir()
        }
        producer.begin(now_ns())
        summary = producer.wait_done(60)
    realtime = {thread for thread, policy in policies.items() if policy == os.SCHED_RR}
    expected = may_have_a_real_time_priority() and rate_records_per_s > 0
    assert realtime == ({producer.pid} if expected else set())
    assert summary.realtime_pacing == expected


def may_have_a_real_time_priority() -> bool:
    """Return whether a process of this user may run under SCHED_RR."""
    ask = "import os; os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))"
    ended = subprocess.run([sys.executable, "-c", ask], stderr=subprocess.DEVNULL, check=False)
    return ended.returncode == 0


def test_a_producer_that_may_have_no_real_time_priority_runs_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Most users may not; the summary says so."""

    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr("os.sched_setscheduler", refuse)
    assert not pace_in_realtime()


def test_the_attempts_of_a_killed_producer_survive(brokers: MockBrokers, tmp_path: Path) -> None:
    """After SIGKILL the table has exactly the records that were attempted."""
    job = job_for(brokers, tmp_path, records=100_000, rate_records_per_s=5_000)
    with ProducerProcess(job) as producer:
        producer.wait_ready()
        producer.begin(now_ns())
        wait_until(
            lambda: producer.progress().acked > 500, awaiting="500 acknowledgements", timeout_s=30
        )
        producer.kill()
        acked = producer.progress().acked
    table = attempts_table(job)
    assert 500 < acked <= table.num_rows < 100_000
    assert pc.sum(pc.equal(table["outcome"], ACKED)).as_py() in {acked, acked + 1}
    assert table["seq"].to_pylist() == list(range(table.num_rows))


def test_a_full_queue_delays_the_schedule_and_loses_nothing(
    brokers: MockBrokers, tmp_path: Path
) -> None:
    """With a queue of 100 records produce() refuses often, and every record is accepted finally."""
    job = job_for(brokers, tmp_path, records=3_000, queue_buffering_max_messages="100")
    with ProducerProcess(job) as producer:
        producer.wait_ready()
        producer.begin(now_ns())
        producer.wait_done(60)
    table = attempts_table(job)
    assert pc.unique(table["outcome"]).to_pylist() == [ACKED]
    assert pc.unique(table["error"]).to_pylist() == [0]


def test_records_that_time_out_are_unknown_if_sent_and_rejected_if_not(
    brokers: MockBrokers, tmp_path: Path
) -> None:
    """The brokers do not answer, and the full queue refuses some records."""
    job = job_for(
        brokers,
        tmp_path,
        records=300,
        rate_records_per_s=10_000,
        queue_buffering_max_messages="100",
        delivery_timeout_ms="1500",
    )
    with ProducerProcess(job) as producer:
        producer.wait_ready()
        for broker in (1, 2, 3):
            brokers.set_round_trip_ms(broker, 20_000)
        producer.begin(now_ns())
        producer.wait_done(60)
    table = attempts_table(job)
    refused = table.filter(pc.is_null(table["sent_ns"]))
    assert table.num_rows == 300
    assert ACKED not in pc.unique(table["outcome"]).to_pylist()
    assert UNKNOWN in pc.unique(table["outcome"]).to_pylist()
    assert pc.unique(refused["outcome"]).to_pylist() in ([REJECTED], [])
    assert pc.unique(refused["error"]).to_pylist() in ([QUEUE_FULL], [])


def test_a_refusal_by_the_broker_is_a_rejection(brokers: MockBrokers, tmp_path: Path) -> None:
    """A batch with a permanent error is rejected, with the broker's code and without offsets."""
    job = job_for(brokers, tmp_path, records=10, rate_records_per_s=1_000, linger_ms="0")
    with ProducerProcess(job) as producer:
        producer.wait_ready()
        brokers.fail_next_requests(PRODUCE_API, MSG_SIZE_TOO_LARGE)
        producer.begin(now_ns())
        producer.wait_done(60)
    table = attempts_table(job)
    rejected = table.filter(pc.equal(table["outcome"], REJECTED))
    assert rejected.num_rows >= 1
    assert pc.unique(rejected["error"]).to_pylist() == [MSG_SIZE_TOO_LARGE]
    assert rejected["offset"].null_count == rejected.num_rows


def test_without_acknowledgements_offsets_are_null(brokers: MockBrokers, tmp_path: Path) -> None:
    """With acks=0 and large batches, librdkafka counts offsets up from -1001, past zero."""
    job = job_for(brokers, tmp_path, records=20_000, acks="0", linger_ms="100")
    with ProducerProcess(job) as producer:
        producer.wait_ready()
        producer.begin(now_ns())
        producer.wait_done(60)
    table = attempts_table(job)
    assert table["offset"].null_count == table.num_rows == 20_000


def test_unreachable_brokers_are_reported(brokers: MockBrokers, tmp_path: Path) -> None:
    """Before the load begins, with librdkafka's error name."""
    job = job_for(brokers, tmp_path).model_copy(
        update={"bootstrap_servers": "127.0.0.1:1", "warm_up_timeout_s": 1}
    )
    with (
        ProducerProcess(job) as producer,
        pytest.raises(HarnessError, match="no metadata of topic trial within 1 s: _TRANSPORT"),
    ):
        producer.wait_ready(60)


def test_invalid_settings_are_reported_with_librdkafkas_reason(
    brokers: MockBrokers, tmp_path: Path
) -> None:
    """The error of the child process reaches the parent."""
    job = job_for(brokers, tmp_path, enable_idempotence="true", acks="1")
    with (
        ProducerProcess(job) as producer,
        pytest.raises(HarnessError, match="`acks` must be set to `all`"),
    ):
        producer.wait_ready(60)


def test_librdkafka_logs_to_a_file(brokers: MockBrokers, tmp_path: Path) -> None:
    """With debug output enabled."""
    job = job_for(brokers, tmp_path, records=10, debug="broker")
    with ProducerProcess(job) as producer:
        producer.wait_ready()
        producer.begin(now_ns())
        producer.wait_done(60)
    assert "BROKER" in job.log.read_text()
    assert (tmp_path / "producer-3.errors").read_text() == ""


@pytest.mark.parametrize(
    "wrong",
    [
        {"record_size_bytes": 0},
        {"records": 0},
        {"rate_records_per_s": -1},
        {"producer": 65_536},
        {"settings": {"delivery.timeout.ms": "0"}},
    ],
)
def test_an_invalid_job_is_refused(
    brokers: MockBrokers, tmp_path: Path, wrong: dict[str, object]
) -> None:
    """It is refused before a process is started."""
    content = json.loads(job_for(brokers, tmp_path).model_dump_json())
    with pytest.raises(ValidationError):
        ProducerJob.model_validate({**content, **wrong})
