"""Consumers identify records, stop at requested offsets, and never return a truncated table.

Brokers are librdkafka's mock.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import Producer
from support.fakes.mock_brokers import MockBrokers
from support.golden_files import Says
from support.reference import values
from support.reference.values import ValueFields

from ackbench.experiments.ledger.schema import LOG, READS
from ackbench.experiments.trial.clients.consumer.final_read import read_log
from ackbench.experiments.trial.clients.consumer.process import (
    ConsumerJob,
    ConsumerProcess,
    reads_table,
)
from ackbench.experiments.trial.clients.consumer.reads import (
    GROW_RECORDS,
    HEADER_BYTES,
    ReadRow,
    ReadsFile,
    load_reads,
)
from ackbench.experiments.trial.clients.settings.librdkafka import consumer_settings
from ackbench.infra.errors import HarnessError

TOKEN = 77


@pytest.fixture
def brokers() -> Iterator[MockBrokers]:
    """Start one broker with a topic of two partitions."""
    with MockBrokers(1) as made:
        made.create_topic("trial", 2)
        yield made


@pytest.fixture
def send(brokers: MockBrokers) -> Callable[[int, bytes | None], None]:
    """Return a function that writes one value to a partition."""
    producer = Producer({"bootstrap.servers": brokers.bootstrap_servers, "log_level": 0})

    def send_one(partition: int, content: bytes | None) -> None:
        producer.produce("trial", content, partition=partition)
        assert producer.flush(10) == 0

    return send_one


def trial_value(seq: int) -> bytes:
    """Return the value of a record of the trial."""
    return values.encode(ValueFields(1, seq, 1_000 + seq, TOKEN), 60)


def test_each_record_is_identified(
    brokers: MockBrokers, send: Callable[[int, bytes | None], None]
) -> None:
    """The log has a valid, a corrupt, another trial's, a foreign and an empty record."""
    corrupt = bytearray(trial_value(1))
    corrupt[50] ^= 1
    for content in (
        trial_value(0),
        bytes(corrupt),
        values.encode(ValueFields(1, 2, 3, TOKEN + 1), 60),
        b"hello",
        None,
    ):
        send(0, content)
    table = read_log(
        brokers.bootstrap_servers, "trial", {0: 5, 1: 0}, TOKEN, consumer_settings({}), 20
    )
    assert table.schema.equals(LOG)
    assert table["offset"].to_pylist() == [0, 1, 2, 3, 4]
    assert table["seq"].to_pylist() == [0, None, None, None, None]
    assert table["producer"].to_pylist() == [1, None, None, None, None]
    assert table["intact"].to_pylist() == [True, False, True, True, True]


def test_a_value_larger_than_the_buffer_is_read(
    brokers: MockBrokers, send: Callable[[int, bytes | None], None]
) -> None:
    """The read loop keeps a buffer for values of usual size."""
    send(1, values.encode(ValueFields(1, 9, 3, TOKEN), 900_000))
    table = read_log(brokers.bootstrap_servers, "trial", {1: 1}, TOKEN, consumer_settings({}), 20)
    assert table["seq"].to_pylist() == [9]


def test_records_past_the_end_offset_are_excluded(
    brokers: MockBrokers, send: Callable[[int, bytes | None], None]
) -> None:
    """Records written after the end offsets were fixed do not belong to the trial."""
    for seq in range(6):
        send(seq % 2, trial_value(seq))
    table = read_log(
        brokers.bootstrap_servers, "trial", {0: 2, 1: 1}, TOKEN, consumer_settings({}), 20
    )
    assert list(zip(table["partition"].to_pylist(), table["seq"].to_pylist(), strict=True)) == [
        (0, 0),
        (0, 2),
        (1, 1),
    ]


def test_the_read_begins_at_the_begin_offsets(
    brokers: MockBrokers, send: Callable[[int, bytes | None], None]
) -> None:
    """Each partition has its own begin offset."""
    for seq in range(6):
        send(seq % 2, trial_value(seq))
    table = read_log(
        brokers.bootstrap_servers,
        "trial",
        {0: 3, 1: 3},
        TOKEN,
        consumer_settings({}),
        20,
        begin_offsets={0: 2},
    )
    assert table["seq"].to_pylist() == [4, 1, 3, 5]


def test_an_empty_log_is_an_empty_table(brokers: MockBrokers) -> None:
    """The empty table has the ledger's schema."""
    assert read_log(
        brokers.bootstrap_servers, "trial", {0: 0, 1: 0}, TOKEN, consumer_settings({}), 20
    ).equals(LOG.empty_table())


def test_a_log_that_ends_before_the_end_offset_is_an_error(
    brokers: MockBrokers, send: Callable[[int, bytes | None], None]
) -> None:
    """The message has the position that was reached."""
    send(0, trial_value(0))
    with pytest.raises(HarnessError, match="partition 0 is at offset 1 of 3"):
        read_log(brokers.bootstrap_servers, "trial", {0: 3, 1: 0}, TOKEN, consumer_settings({}), 1)


def test_unreachable_brokers_are_an_error(tmp_path: Path) -> None:
    """The result is no empty table, and librdkafka logs to the file, not to the terminal."""
    with pytest.raises(HarnessError, match="partition 0 is at offset 0 of 1"):
        read_log(
            "127.0.0.1:1", "trial", {0: 1}, TOKEN, consumer_settings({}), 0.5, log=tmp_path / "log"
        )
    assert "Connect to ipv4#127.0.0.1:1 failed" in (tmp_path / "log").read_text()


def test_a_log_without_the_begin_offset_is_an_error(
    brokers: MockBrokers, send: Callable[[int, bytes | None], None]
) -> None:
    """An offset past the end stands in for deleted records."""
    send(0, trial_value(0))
    with pytest.raises(HarnessError, match="partition 0 is at offset 5 of 9"):
        read_log(
            brokers.bootstrap_servers,
            "trial",
            {0: 9},
            TOKEN,
            consumer_settings({}),
            20,
            begin_offsets={0: 5},
        )


def test_a_concurrent_consumer_reads_to_the_requested_offsets(
    brokers: MockBrokers, send: Callable[[int, bytes | None], None], tmp_path: Path
) -> None:
    """Once ready, it fetches: it receives what is sent from then on."""
    job = ConsumerJob(
        bootstrap_servers=brokers.bootstrap_servers,
        topic="trial",
        partitions=2,
        settings=consumer_settings({}),
        token=TOKEN,
        folder=tmp_path,
    )
    with ConsumerProcess(job) as consumer:
        consumer.wait_ready()
        for seq in range(10):
            send(seq % 2, trial_value(seq))
        result = consumer.finish({0: 5, 1: 5}, 20)
    table = reads_table(job)
    assert table.schema.equals(READS)
    assert (result.records, result.at_end, result.where) == (10, True, "")
    assert sorted(table["seq"].to_pylist()) == list(range(10))
    assert sorted(table["intended_ns"].to_pylist()) == list(range(1_000, 1_010))


def test_a_consumer_that_does_not_reach_the_end_reports_its_position(
    says: Says, brokers: MockBrokers, send: Callable[[int, bytes | None], None], tmp_path: Path
) -> None:
    """That is a result, not an error, and the records it received are kept."""
    job = ConsumerJob(
        bootstrap_servers=brokers.bootstrap_servers,
        topic="trial",
        partitions=2,
        settings=consumer_settings({}),
        token=TOKEN,
        folder=tmp_path,
    )
    send(0, trial_value(0))
    with ConsumerProcess(job) as consumer:
        consumer.wait_ready()
        result = consumer.finish({0: 2, 1: 0}, 0.5)
    assert not result.at_end
    says(result.where)
    assert reads_table(job).num_rows == 1


def test_a_mapped_file_grows_and_keeps_its_rows(tmp_path: Path) -> None:
    """It grows beyond its initial size."""
    file = ReadsFile(tmp_path / "reads")
    file.rows["offset"][:] = np.arange(GROW_RECORDS)
    file.filled = GROW_RECORDS
    file.grow()
    file.rows["offset"][GROW_RECORDS] = 7
    file.filled = GROW_RECORDS + 1
    rows = load_reads(tmp_path / "reads")
    assert rows["offset"].tolist() == [*range(GROW_RECORDS), 7]


def test_a_truncated_mapped_file_is_an_error(tmp_path: Path) -> None:
    """Missing rows must not count as records that were not received."""
    file = ReadsFile(tmp_path / "reads")
    file.filled = GROW_RECORDS
    with (tmp_path / "reads").open("r+b") as content:
        content.truncate(HEADER_BYTES + 10 * ReadRow.itemsize)
    with pytest.raises(
        HarnessError, match=f"truncated: .* {GROW_RECORDS} records and has room for 10"
    ):
        load_reads(tmp_path / "reads")
