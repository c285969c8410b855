"""The producer's process: its schedule, its ledger, and how it ends. Brokers are librdkafka's mock: nothing here is evidence of delivery."""

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.compute as pc
import pytest
from pydantic import ValidationError
from support.fakes.mock_brokers import MockBrokers

from experiments.clients.producer.job import ProducerJob
from experiments.clients.producer.process import ProducerProcess, attempts_table
from experiments.clients.settings.librdkafka import producer_settings
from experiments.events.clock import now_ns
from experiments.ledger.schema import ACKED, ATTEMPTS, REJECTED, UNKNOWN
from infra.errors import HarnessError
from infra.process.waiting import wait_until

PRODUCE_API = 0
MSG_SIZE_TOO_LARGE = 10
QUEUE_FULL = -184


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
    records: int = 2_000,
    rate_records_per_s: float = 0,
    **settings: str,
) -> ProducerJob:
    """A small job."""
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
        keys=5,
        token=77,
        folder=folder,
    )


def test_every_record_of_the_schedule_is_in_the_ledger(
    brokers: MockBrokers, tmp_path: Path
) -> None:
    """Dense, acknowledged, at its intended time, and nothing was written to standard error."""
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


def test_a_killed_producer_keeps_its_ledger(brokers: MockBrokers, tmp_path: Path) -> None:
    """SIGKILL in mid-schedule: what it attempted until then is there, and what it did not is not."""
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


def test_a_full_queue_holds_the_schedule_up_and_loses_nothing(
    brokers: MockBrokers, tmp_path: Path
) -> None:
    """A queue of 100 records: produce() refuses again and again, and each record is taken in the end."""
    job = job_for(brokers, tmp_path, records=3_000, queue_buffering_max_messages="100")
    with ProducerProcess(job) as producer:
        producer.wait_ready()
        producer.begin(now_ns())
        producer.wait_done(60)
    table = attempts_table(job)
    assert pc.unique(table["outcome"]).to_pylist() == [ACKED]
    assert pc.unique(table["error"]).to_pylist() == [0]


def test_records_that_no_broker_takes_in_time_are_judged_each(
    brokers: MockBrokers, tmp_path: Path
) -> None:
    """Brokers that do not answer: records sent are unknown, records that the full queue never took are rejected and were never sent."""
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
            brokers.round_trip_ms(broker, 20_000)
        producer.begin(now_ns())
        producer.wait_done(60)
    table = attempts_table(job)
    refused = table.filter(pc.is_null(table["sent_ns"]))
    assert table.num_rows == 300
    assert ACKED not in pc.unique(table["outcome"]).to_pylist()
    assert UNKNOWN in pc.unique(table["outcome"]).to_pylist()
    assert pc.unique(refused["outcome"]).to_pylist() in ([REJECTED], [])
    assert pc.unique(refused["error"]).to_pylist() in ([QUEUE_FULL], [])


def test_a_brokers_refusal_is_a_rejection(brokers: MockBrokers, tmp_path: Path) -> None:
    """One batch is refused for good; its records are rejected, with the broker's code, and no offset."""
    job = job_for(brokers, tmp_path, records=10, rate_records_per_s=1_000, linger_ms="0")
    with ProducerProcess(job) as producer:
        producer.wait_ready()
        brokers.answer_with(PRODUCE_API, MSG_SIZE_TOO_LARGE)
        producer.begin(now_ns())
        producer.wait_done(60)
    table = attempts_table(job)
    rejected = table.filter(pc.equal(table["outcome"], REJECTED))
    assert rejected.num_rows >= 1
    assert pc.unique(rejected["error"]).to_pylist() == [MSG_SIZE_TOO_LARGE]
    assert rejected["offset"].null_count == rejected.num_rows


def test_without_acknowledgements_no_offset_is_made_up(
    brokers: MockBrokers, tmp_path: Path
) -> None:
    """acks=0, batches of thousands: librdkafka counts offsets up from "none", past zero."""
    job = job_for(brokers, tmp_path, records=20_000, acks="0", linger_ms="100")
    with ProducerProcess(job) as producer:
        producer.wait_ready()
        producer.begin(now_ns())
        producer.wait_done(60)
    table = attempts_table(job)
    assert table["offset"].null_count == table.num_rows == 20_000


def test_brokers_that_do_not_answer_are_said_so(brokers: MockBrokers, tmp_path: Path) -> None:
    """Before anything is measured, with librdkafka's own name of it."""
    job = job_for(brokers, tmp_path).model_copy(
        update={"bootstrap_servers": "127.0.0.1:1", "warm_up_timeout_s": 1}
    )
    with (
        ProducerProcess(job) as producer,
        pytest.raises(HarnessError, match="topic trial for 1 s: _TRANSPORT"),
    ):
        producer.wait_ready(60)


def test_settings_that_librdkafka_refuses_end_the_process_with_its_reason(
    brokers: MockBrokers, tmp_path: Path
) -> None:
    """The parent is told what the child was told."""
    job = job_for(brokers, tmp_path, enable_idempotence="true", acks="1")
    with (
        ProducerProcess(job) as producer,
        pytest.raises(HarnessError, match="`acks` must be set to `all`"),
    ):
        producer.wait_ready(60)


def test_librdkafkas_log_goes_to_a_file(brokers: MockBrokers, tmp_path: Path) -> None:
    """Here made talkative."""
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
def test_a_job_that_cannot_be_is_refused(
    brokers: MockBrokers, tmp_path: Path, wrong: dict[str, object]
) -> None:
    """Before a process is started."""
    content = json.loads(job_for(brokers, tmp_path).model_dump_json())
    with pytest.raises(ValidationError):
        ProducerJob.model_validate({**content, **wrong})
