"""Producers, consumers and the final read on real brokers, also while brokers crash."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from support.reference.values import ValueFields, decode, encode
from support.wheels import offer_installed

from ackbench.experiments.ledger.terms import ACKED
from ackbench.experiments.trial.clients.consumer.final_read import read_log
from ackbench.experiments.trial.clients.consumer.process import (
    ConsumerJob,
    ConsumerProcess,
    reads_table,
)
from ackbench.experiments.trial.clients.interface import (
    ClientFactory,
    JavaClientFactory,
    ProgramClientFactory,
)
from ackbench.experiments.trial.clients.librdkafka import topics
from ackbench.experiments.trial.clients.librdkafka.library import version
from ackbench.experiments.trial.clients.producer.job import ProducerJob
from ackbench.experiments.trial.clients.producer.process import ProducerProcess, attempts_table
from ackbench.experiments.trial.clients.programs.command import CommandDialect
from ackbench.experiments.trial.clients.record.layout import (
    Origin,
    TextValueFormat,
    trial_tag,
    warm_up_records,
)
from ackbench.experiments.trial.clients.settings.kinds import ClientChoice
from ackbench.experiments.trial.clients.settings.librdkafka import (
    consumer_settings,
    producer_settings,
)
from ackbench.experiments.trial.events.clock import now_ns
from ackbench.infra.cluster.local import LocalCluster
from ackbench.infra.errors import HarnessError
from ackbench.infra.kafka.spec import ClusterSpec
from ackbench.infra.machine.home import REPOSITORY
from ackbench.infra.process.waiting import wait_until

pytestmark = pytest.mark.cluster
TOKEN = 4711
SAFE = {"acks": "all", "enable.idempotence": "true"}


def test_a_topic_that_a_broker_does_not_know_yet_is_not_created_again(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers receive metadata at different times: an unknown topic may exist already."""
    topics.ensure_topic(cluster.bootstrap_servers, "known", partitions=2, replication_factor=1)
    responses = iter([None])
    original = topics._topic_metadata
    monkeypatch.setattr(
        topics, "_topic_metadata", lambda *arguments: next(responses, original(*arguments))
    )
    topics.ensure_topic(cluster.bootstrap_servers, "known", partitions=2, replication_factor=1)


@pytest.fixture
def job_for(cluster: LocalCluster, tmp_path: Path) -> Callable[..., ProducerJob]:
    """Return a function that builds a producer job for a topic; the warm-up topic exists."""
    topics.ensure_topic(cluster.bootstrap_servers, "warm-up", partitions=6, replication_factor=1)

    def make(topic: str, settings: Mapping[str, str], **changes: object) -> ProducerJob:
        fixed: dict[str, object] = {
            "producer": 1,
            "bootstrap_servers": cluster.bootstrap_servers,
            "topic": topic,
            "warm_up_topic": "warm-up",
        }
        defaults = {
            "records": 20_000,
            "rate_records_per_s": 10_000,
            "record_size_bytes": 100,
            "keys": {"count": 16},
            "token": TOKEN,
            "folder": tmp_path,
        }
        return ProducerJob.model_validate(
            {**fixed, **defaults, "settings": producer_settings(settings), **changes}
        )

    return make


def produce(job: ProducerJob) -> pa.Table:
    """Run a producer to its end, and return its attempts."""
    with ProducerProcess(job) as producer:
        producer.wait_ready()
        producer.begin(now_ns() + 50_000_000)
        producer.wait_done(60)
    return attempts_table(job)


def log_of(cluster: LocalCluster, topic: str) -> pa.Table:
    """Return the topic's log once every high watermark has reached the log end offset."""
    wait_until(
        lambda: (
            topics.end_offsets(cluster.bootstrap_servers, topic) == cluster.log_end_offsets(topic)
        ),
        awaiting="the high watermarks",
        timeout_s=30,
    )
    return read_log(
        cluster.bootstrap_servers,
        topic,
        topics.end_offsets(cluster.bootstrap_servers, topic),
        TOKEN,
        consumer_settings({}),
        60,
    )


def positions(table: pa.Table) -> set[tuple[int, int, int]]:
    """Return seq, partition and offset of each record."""
    return set(
        zip(
            table["seq"].to_pylist(),
            table["partition"].to_pylist(),
            table["offset"].to_pylist(),
            strict=True,
        )
    )


@pytest.mark.further(settings=[{"acks": "1"}])
@pytest.mark.parametrize("settings", [SAFE, {"acks": "1"}])
def test_the_final_read_returns_exactly_the_produced_records(
    cluster: LocalCluster,
    make_topic: Callable[[int, int], str],
    job_for: Callable[..., ProducerJob],
    settings: dict[str, str],
) -> None:
    """Each record is at the partition and offset that its acknowledgement states."""
    topic = make_topic(3, 3)
    attempts = produce(job_for(topic, settings))
    log = log_of(cluster, topic)
    assert pc.unique(attempts["outcome"]).to_pylist() == [ACKED]
    assert positions(attempts) == positions(log)
    assert pc.unique(log["producer"]).to_pylist() == [1]
    assert pc.all(log["intact"]).as_py()


@pytest.mark.further
def test_clients_of_another_library_produce_and_consume(
    cluster: LocalCluster,
    make_topic: Callable[[int, int], str],
    job_for: Callable[..., ProducerJob],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The installed one, out of a wheel: loaded by its path, in processes of its own."""
    monkeypatch.setenv("ACKBENCH_HOME", str(tmp_path / "home"))
    offer_installed(tmp_path / "wheels", version(), monkeypatch)
    topic = make_topic(3, 3)
    attempts = produce(job_for(topic, SAFE, client_version=version()))
    log = log_of(cluster, topic)
    assert pc.unique(attempts["outcome"]).to_pylist() == [ACKED]
    assert positions(attempts) == positions(log)
    consumer = ConsumerJob(
        client_version=version(),
        bootstrap_servers=cluster.bootstrap_servers,
        topic=topic,
        partitions=3,
        settings=consumer_settings({}),
        token=TOKEN,
        folder=tmp_path,
    )
    with ConsumerProcess(consumer) as reader:
        reader.wait_ready()
        maps = Path(f"/proc/{reader.pid}/maps").read_text()
        reader.finish(topics.end_offsets(cluster.bootstrap_servers, topic), 30)
    assert str(tmp_path / "home" / "cache" / "librdkafka") in maps
    assert positions(reads_table(consumer)) == positions(log)


def test_another_consumer_decodes_keys_and_values(
    cluster: LocalCluster,
    make_topic: Callable[[int, int], str],
    job_for: Callable[..., ProducerJob],
) -> None:
    """confluent-kafka's consumer reads keys of 8 bytes, and values that the reference decodes."""
    topic = make_topic(1, 1)
    attempts = produce(job_for(topic, SAFE, records=200, record_size_bytes=61))
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "test", "log_level": 0}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages = consumer.consume(200, timeout=30)
    consumer.close()
    assert [int.from_bytes(message.key() or b"", "big") for message in messages] == [
        seq % 16 for seq in range(200)
    ]
    intended = attempts["intended_ns"].to_pylist()
    assert [decode(message.value() or b"", TOKEN) for message in messages] == [
        (Origin.TRIAL, ValueFields(1, seq, intended[seq], TOKEN)) for seq in range(200)
    ]


def test_records_without_keys_have_none_in_the_log_and_the_ledger(
    cluster: LocalCluster,
    make_topic: Callable[[int, int], str],
    job_for: Callable[..., ProducerJob],
) -> None:
    """The message key is null, and so is the ledger's key column."""
    topic = make_topic(1, 1)
    attempts = produce(job_for(topic, SAFE, records=50, keys={"count": 0}))
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "test", "log_level": 0}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages = consumer.consume(50, timeout=30)
    consumer.close()
    assert {message.key() for message in messages} == {None}
    assert attempts["key"].null_count == 50


def test_with_acks_0_no_offset_is_known(
    cluster: LocalCluster,
    make_topic: Callable[[int, int], str],
    job_for: Callable[..., ProducerJob],
) -> None:
    """Every record counts as acknowledged, and healthy brokers store all of them.

    The batches hold thousands of records.
    """
    topic = make_topic(1, 1)
    attempts = produce(job_for(topic, {"acks": "0", "linger.ms": "500"}, rate_records_per_s=0))
    assert pc.unique(attempts["outcome"]).to_pylist() == [ACKED]
    assert attempts["offset"].null_count == attempts.num_rows
    assert sorted(log_of(cluster, topic)["seq"].to_pylist()) == list(range(20_000))


def test_the_final_read_recognizes_foreign_and_damaged_records(
    cluster: LocalCluster, make_topic: Callable[[int, int], str]
) -> None:
    """The broker's checksums do not cover damage that precedes sending."""
    topic = make_topic(1, 3)
    damaged = bytearray(encode(ValueFields(1, 1, 2, TOKEN), 100))
    damaged[70] ^= 4
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    for content in (
        encode(ValueFields(1, 0, 2, TOKEN), 100),
        bytes(damaged),
        encode(ValueFields(1, 2, 2, TOKEN + 1), 100),
        b"foreign",
    ):
        producer.produce(topic, content, partition=0)
    assert producer.flush(30) == 0
    log = log_of(cluster, topic)
    assert log["seq"].to_pylist() == [0, None, None, None]
    assert log["intact"].to_pylist() == [True, False, True, True]


def test_the_final_read_skips_offsets_without_a_record(
    cluster: LocalCluster, make_topic: Callable[[int, int], str]
) -> None:
    """Transaction markers occupy offsets, also the last one of the log."""
    topic = make_topic(1, 3)
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": topic, "log_level": 0}
    )
    producer.init_transactions(30)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce(topic, encode(ValueFields(1, 0, 2, TOKEN), 100), partition=0)
        producer.flush(30)
        end(30)
    ends = {0: 4}
    wait_until(
        lambda: topics.end_offsets(cluster.bootstrap_servers, topic) == ends,
        awaiting="the transaction marker, which brokers write after their response",
        timeout_s=30,
    )
    committed = read_log(
        cluster.bootstrap_servers,
        topic,
        ends,
        TOKEN,
        consumer_settings({"isolation.level": "read_committed"}),
        60,
    )
    everything = read_log(
        cluster.bootstrap_servers,
        topic,
        ends,
        TOKEN,
        consumer_settings({"isolation.level": "read_uncommitted"}),
        60,
    )
    assert committed["offset"].to_pylist() == [0]
    assert everything["offset"].to_pylist() == [0, 2]


@pytest.mark.further
def test_the_final_read_is_complete_after_the_crash_of_a_broker(
    cluster: LocalCluster,
    make_topic: Callable[[int, int], str],
    job_for: Callable[..., ProducerJob],
) -> None:
    """Two of three replicas are left, and new leaders serve the partitions."""
    topic = make_topic(3, 3)
    attempts = produce(job_for(topic, SAFE))
    ends = topics.end_offsets(cluster.bootstrap_servers, topic)
    cluster.kill(cluster.describe([topic]).of(topic)[0].leader or 1)
    log = read_log(cluster.bootstrap_servers, topic, ends, TOKEN, consumer_settings({}), 60)
    assert positions(log) == positions(attempts)


@pytest.mark.further
def test_a_concurrent_consumer_survives_the_crash_of_a_leader(
    cluster: LocalCluster,
    make_topic: Callable[[int, int], str],
    job_for: Callable[..., ProducerJob],
    tmp_path: Path,
) -> None:
    """It receives every acknowledged record, each after its scheduled time."""
    topic = make_topic(3, 3)
    servers = cluster.bootstrap_servers
    job = job_for(topic, SAFE, records=8_000, rate_records_per_s=2_000)
    consumer_job = ConsumerJob(
        bootstrap_servers=servers,
        topic=topic,
        partitions=3,
        settings=consumer_settings({}),
        token=TOKEN,
        folder=tmp_path,
    )
    with ProducerProcess(job) as producer, ConsumerProcess(consumer_job) as consumer:
        consumer.wait_ready()
        producer.wait_ready()
        producer.begin(now_ns())
        wait_until(
            lambda: producer.progress().acked > 1_000,
            awaiting="1,000 acknowledgements",
            timeout_s=30,
        )
        crashed = cluster.kill(cluster.describe([topic]).of(topic)[0].leader or 1)
        producer.wait_done(90)
        cluster.start(crashed.node_id)
        cluster.wait_until_healthy()
        ends = topics.end_offsets(servers, topic)
        ending = consumer.finish(ends, 60)
    attempts, reads = attempts_table(job), reads_table(consumer_job)
    acked = attempts.filter(pc.equal(attempts["outcome"], ACKED))
    assert ending.at_end
    assert set(acked["seq"].to_pylist()) <= set(reads["seq"].to_pylist())
    assert pc.all(pc.greater_equal(reads["received_ns"], reads["intended_ns"])).as_py()
    assert acked.num_rows == 8_000


def test_the_error_of_a_refused_topic_has_kafkas_error_code(cluster: LocalCluster) -> None:
    """Here for more replicas than brokers."""
    with pytest.raises(HarnessError, match="INVALID_REPLICATION_FACTOR"):
        topics.create_topic(
            cluster.bootstrap_servers, "too-many", partitions=1, replication_factor=4
        )


def test_a_topic_is_created_with_all_partitions_and_deleted(cluster: LocalCluster) -> None:
    """Deleting a missing topic is no error; requesting its end offsets is one."""
    servers = cluster.bootstrap_servers
    topics.create_topic(
        servers, "made", partitions=4, replication_factor=3, config={"min.insync.replicas": "2"}
    )
    for server in servers.split(","):  # each broker learns of the topic by itself
        wait_until(
            partial(_exists, server, "made"), awaiting=f"the topic at {server}", timeout_s=30
        )
    assert topics.end_offsets(servers, "made") == {0: 0, 1: 0, 2: 0, 3: 0}
    topics.delete_topic(servers, "made")
    topics.delete_topic(servers, "made")
    wait_until(
        lambda: not _exists(servers, "made"), awaiting="the topic to be deleted", timeout_s=30
    )


def _exists(servers: str, topic: str) -> bool:
    try:
        topics.end_offsets(servers, topic)
    except HarnessError as error:
        return f"topic {topic} does not exist" not in str(error)
    return True


def test_the_log_end_offset_can_be_beyond_the_high_watermark(
    cluster: LocalCluster,
    make_topic: Callable[[int, int], str],
    job_for: Callable[..., ProducerJob],
) -> None:
    """With paused followers, records acknowledged with acks=1 are not visible to consumers yet."""
    topic = make_topic(1, 3)
    state = cluster.describe([topic]).of(topic)[0]
    followers = [node for node in state.replicas if node != state.leader]
    job = job_for(topic, {"acks": "1"}, records=100)
    with ProducerProcess(job) as producer:
        producer.wait_ready()
        for follower in followers:
            cluster.pause(follower)
        producer.begin(now_ns() + 50_000_000)
        producer.wait_done(60)
        log_end_offsets = cluster.log_end_offsets(topic)
        high_watermarks = topics.end_offsets(
            f"127.0.0.1:{cluster.status()[(state.leader or 0) - 1].client_port}", topic
        )
        for follower in followers:
            cluster.resume(follower)
    assert log_end_offsets == {0: 100}
    assert high_watermarks[0] < 100
    assert log_of(cluster, topic).num_rows == 100


@pytest.fixture
def programs(cache: Path, tmp_path: Path) -> Mapping[str, tuple[ClientChoice, ClientFactory]]:
    """Clients that report each record in a line: Kafka's own, and that of the documents."""
    (source,) = re.findall(
        r"```python\n(.*?)```", (REPOSITORY / "docs" / "clients.md").read_text(), re.DOTALL
    )
    program = tmp_path / "client.py"
    program.write_text(source)
    command = (sys.executable, str(program))
    return {
        "java": (
            ClientChoice(kind="java", defaults=True),
            JavaClientFactory(ClusterSpec().kafka_version, cache),
        ),
        "ours": (
            ClientChoice(kind="ours", defaults=True, command=command),
            ProgramClientFactory(CommandDialect("ours", command)),
        ),
    }


@pytest.mark.further("ours")
@pytest.mark.parametrize("kind", ["java", "ours"])
def test_the_ledger_has_every_record_of_a_program(
    cluster: LocalCluster,
    programs: Mapping[str, tuple[ClientChoice, ClientFactory]],
    make_topic: Callable[[int, int], str],
    tmp_path: Path,
    kind: str,
) -> None:
    """With its own defaults: acknowledged, stored and consumed at the same partition and offset.

    The warm-up records are not in the ledger.
    """
    topic, servers = make_topic(3, 3), cluster.bootstrap_servers
    choice, clients = programs[kind]
    text = TextValueFormat(trial_tag(TOKEN), warm_up_records(2000))
    passed = choice.passed_settings({}, {})
    assert passed is not None
    shared = {"bootstrap_servers": servers, "topic": topic, "token": TOKEN, "folder": tmp_path}
    load = {
        "records": 4000,
        "rate_records_per_s": 2000,
        "record_size_bytes": 20,
        "keys": {"count": 16},
        "warm_up_topic": "",
    }
    job = ProducerJob.model_validate(
        {
            **shared,
            **load,
            "producer": 5,
            "settings": choice.producer_settings({}),
            "passed": passed.producer,
        }
    )
    consumer_job = ConsumerJob.model_validate(
        {
            **shared,
            "partitions": 3,
            "settings": choice.consumer_settings({}),
            "passed": passed.consumer,
            "warm_up_records": text.warm_up_records,
        }
    )
    with clients.producer(job) as producer, clients.consumer(consumer_job) as consumer:
        consumer.wait_ready()
        producer.wait_ready()
        producer.begin(now_ns())
        assert producer.began_ns() > 0
        summary = producer.wait_done(120)
        wait_until(
            lambda: topics.end_offsets(servers, topic) == cluster.log_end_offsets(topic),
            awaiting="the high watermarks",
            timeout_s=30,
        )
        ends = topics.end_offsets(servers, topic)
        log = read_log(servers, topic, ends, TOKEN, {}, 60, text=text)
        ending = consumer.finish(ends, 60)
        attempts = producer.attempts(log)
        reads = consumer.reads(attempts)
    assert pc.unique(attempts["outcome"]).to_pylist() == [ACKED]
    assert attempts["seq"].to_pylist() == list(range(4000))
    assert positions(attempts) == positions(log) == positions(reads)
    assert (ending.at_end, ending.records) == (True, 4000 + text.warm_up_records)
    assert (log.num_rows, set(log["producer"].to_pylist())) == (4000, {5})
    assert pc.all(pc.greater_equal(attempts["settled_ns"], attempts["intended_ns"])).as_py()
    idempotence = choice.producer_settings({})["enable.idempotence"]
    assert producer.effective_settings()["enable.idempotence"] == idempotence
    assert producer.complete_summary(summary, log).lateness_us_p99 is not None
