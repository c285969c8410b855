"""Readers tell whose each record is, end where they are told, and never give a short table. Brokers are librdkafka's mock."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import Producer
from support.fakes.mock_brokers import MockBrokers
from support.reference import values
from support.reference.values import ValueFields

from experiments.clients.consumer.final_read import read_log
from experiments.clients.consumer.process import ConsumerJob, ConsumerProcess, reads_table
from experiments.clients.consumer.reads import GROW_RECORDS, HEADER_BYTES, Read, ReadsFile, reads_in
from experiments.clients.settings.librdkafka import consumer_settings
from experiments.ledger.schema import LOG, READS
from infra.errors import HarnessError

TOKEN = 77


@pytest.fixture
def brokers() -> Iterator[MockBrokers]:
    """One, with a topic of two partitions."""
    with MockBrokers(1) as made:
        made.create_topic("trial", 2)
        yield made


@pytest.fixture
def send(brokers: MockBrokers) -> Callable[[int, bytes | None], None]:
    """Puts one value into a partition."""
    producer = Producer({"bootstrap.servers": brokers.bootstrap_servers, "log_level": 0})

    def send_one(partition: int, content: bytes | None) -> None:
        producer.produce("trial", content, partition=partition)
        assert producer.flush(10) == 0

    return send_one


def ours(seq: int) -> bytes:
    """A record of the trial."""
    return values.encode(ValueFields(1, seq, 1_000 + seq, TOKEN), 60)


def test_each_record_is_told_apart(
    brokers: MockBrokers, send: Callable[[int, bytes | None], None]
) -> None:
    """Ours, ours and damaged, of another trial, of nobody, and nothing at all."""
    damaged = bytearray(ours(1))
    damaged[50] ^= 1
    for content in (
        ours(0),
        bytes(damaged),
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


def test_a_value_larger_than_the_usual_is_read_too(
    brokers: MockBrokers, send: Callable[[int, bytes | None], None]
) -> None:
    """Past the room that is kept for values."""
    send(1, values.encode(ValueFields(1, 9, 3, TOKEN), 900_000))
    table = read_log(brokers.bootstrap_servers, "trial", {1: 1}, TOKEN, consumer_settings({}), 20)
    assert table["seq"].to_pylist() == [9]


def test_records_past_the_fixed_end_are_left_out(
    brokers: MockBrokers, send: Callable[[int, bytes | None], None]
) -> None:
    """What came after the ends were fixed is none of the trial's."""
    for seq in range(6):
        send(seq % 2, ours(seq))
    table = read_log(
        brokers.bootstrap_servers, "trial", {0: 2, 1: 1}, TOKEN, consumer_settings({}), 20
    )
    assert list(zip(table["partition"].to_pylist(), table["seq"].to_pylist(), strict=True)) == [
        (0, 0),
        (0, 2),
        (1, 1),
    ]


def test_reading_begins_where_it_is_told(
    brokers: MockBrokers, send: Callable[[int, bytes | None], None]
) -> None:
    """An offset of its own for each partition."""
    for seq in range(6):
        send(seq % 2, ours(seq))
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
    """Of the ledger's schema."""
    assert read_log(
        brokers.bootstrap_servers, "trial", {0: 0, 1: 0}, TOKEN, consumer_settings({}), 20
    ).equals(LOG.empty_table())


def test_an_end_that_the_log_does_not_reach_is_no_short_table(
    brokers: MockBrokers, send: Callable[[int, bytes | None], None]
) -> None:
    """It is an error that says how far it came."""
    send(0, ours(0))
    with pytest.raises(HarnessError, match="partition 0 is at offset 1 of 3"):
        read_log(brokers.bootstrap_servers, "trial", {0: 3, 1: 0}, TOKEN, consumer_settings({}), 1)


def test_brokers_that_are_gone_are_no_empty_table(tmp_path: Path) -> None:
    """Nor is librdkafka's complaint written to the terminal."""
    with pytest.raises(HarnessError, match="partition 0 is at offset 0 of 1"):
        read_log(
            "127.0.0.1:1", "trial", {0: 1}, TOKEN, consumer_settings({}), 0.5, log=tmp_path / "log"
        )
    assert "Connect to ipv4#127.0.0.1:1 failed" in (tmp_path / "log").read_text()


def test_a_log_that_does_not_hold_its_beginning_is_said_so(
    brokers: MockBrokers, send: Callable[[int, bytes | None], None]
) -> None:
    """An offset past the end stands for records that were deleted."""
    send(0, ours(0))
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


def test_a_reader_reads_along_and_finishes_where_told(
    brokers: MockBrokers, send: Callable[[int, bytes | None], None], tmp_path: Path
) -> None:
    """Ready means that it fetches: what is sent from then on is received after it was intended."""
    job = ConsumerJob(
        bootstrap_servers=brokers.bootstrap_servers,
        topic="trial",
        partitions=2,
        settings=consumer_settings({}),
        token=TOKEN,
        folder=tmp_path,
    )
    with ConsumerProcess(job) as reader:
        reader.wait_ready()
        for seq in range(10):
            send(seq % 2, ours(seq))
        ending = reader.finish({0: 5, 1: 5}, 20)
    table = reads_table(job)
    assert table.schema.equals(READS)
    assert (ending.records, ending.at_end, ending.where) == (10, True, "")
    assert sorted(table["seq"].to_pylist()) == list(range(10))
    assert sorted(table["intended_ns"].to_pylist()) == list(range(1_000, 1_010))


def test_a_reader_that_does_not_come_to_its_end_says_how_far_it_came(
    brokers: MockBrokers, send: Callable[[int, bytes | None], None], tmp_path: Path
) -> None:
    """That is a finding, and what it read is kept."""
    job = ConsumerJob(
        bootstrap_servers=brokers.bootstrap_servers,
        topic="trial",
        partitions=2,
        settings=consumer_settings({}),
        token=TOKEN,
        folder=tmp_path,
    )
    send(0, ours(0))
    with ConsumerProcess(job) as reader:
        reader.wait_ready()
        ending = reader.finish({0: 2, 1: 0}, 0.5)
    assert not ending.at_end
    assert ending.where == "partition 0 is at offset 1 of 2"
    assert reads_table(job).num_rows == 1


def test_a_readers_mapping_grows_and_keeps_what_it_holds(tmp_path: Path) -> None:
    """Past its first room."""
    file = ReadsFile(tmp_path / "reads")
    file.rows["offset"][:] = np.arange(GROW_RECORDS)
    file.filled = GROW_RECORDS
    file.grow()
    file.rows["offset"][GROW_RECORDS] = 7
    file.filled = GROW_RECORDS + 1
    found = reads_in(tmp_path / "reads")
    assert found["offset"].tolist() == [*range(GROW_RECORDS), 7]


def test_reads_that_are_cut_short_are_the_harnesss_failure(tmp_path: Path) -> None:
    """Rows that are missing are never records that were not read."""
    file = ReadsFile(tmp_path / "reads")
    file.filled = GROW_RECORDS
    with (tmp_path / "reads").open("r+b") as content:
        content.truncate(HEADER_BYTES + 10 * Read.itemsize)
    with pytest.raises(HarnessError, match=f"holds {GROW_RECORDS} records and has room for 10"):
        reads_in(tmp_path / "reads")
