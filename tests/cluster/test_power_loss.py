"""Disks that fail, through Kafka: of what was acknowledged, what was synced comes back; and a flipped bit is met with, and read past. Needs root."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer
from support import tally
from support.reference.values import ValueFields, encode

from experiments.clients.librdkafka import topics
from experiments.trial.final_read import FinalReader
from infra.cluster.capabilities import Capability, missing_capability
from infra.cluster.cleaning import clean
from infra.cluster.handle import read_handle
from infra.cluster.local import LocalCluster, provision
from infra.disk.mounts import loop_devices_below, mounts_below
from infra.kafka.spec import ClusterSpec

_LACK = missing_capability(Capability.DISK_IMAGES)
pytestmark = pytest.mark.skipif(
    _LACK is not None, reason=f"no disk images here: {_LACK.reason if _LACK else ''}"
)
NODE = 1
RECORDS = 2000
SYNCED, UNSYNCED, FLIPPED = "synced", "unsynced", "flipped"
TOKEN = 77


@pytest.fixture(scope="module")
def on_image(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One node whose data lies on an image."""
    cluster = provision(
        tmp_path_factory.mktemp("clusters"),
        cache,
        "on an image",
        ClusterSpec(nodes=1, disk="image"),
    )
    yield cluster
    if cluster.folder.exists():  # one of the tests cleans it away
        cluster.destroy()


def write(cluster: LocalCluster, topic: str, values: Sequence[bytes]) -> None:
    """Write records, and have each acknowledged."""
    acked = []
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "linger.ms": 2}
    )
    for value in values:
        producer.produce(
            topic,
            value,
            on_delivery=lambda error, message: acked.append(message) if error is None else None,
        )
    producer.flush(30)
    assert len(acked) == len(values)


def test_records_that_were_synced_come_back_and_those_that_were_not_do_not(
    on_image: LocalCluster,
) -> None:
    """All were acknowledged with acks=all; the one topic has flush.messages=1, the other leaves it to the operating system, as by default."""
    for topic, config in ((SYNCED, {"flush.messages": "1"}), (UNSYNCED, {})):
        topics.create_topic(
            on_image.bootstrap_servers, topic, partitions=1, replication_factor=1, config=config
        )
        write(on_image, topic, [b"x" * 100] * RECORDS)
    assert on_image.disks.lose_power([NODE]) == {NODE}
    on_image.start(NODE)
    on_image.wait_until_healthy()
    came_back = {topic: on_image.log_end_offsets(topic)[0] for topic in (SYNCED, UNSYNCED)}
    for topic, records in came_back.items():
        tally.count(
            f"of {RECORDS} {topic} records, all acknowledged, came back after a power cut", records
        )
    assert came_back[SYNCED] == RECORDS
    assert came_back[UNSYNCED] < RECORDS


def test_a_log_is_read_to_its_end_past_a_flipped_bit(on_image: LocalCluster) -> None:
    """A reader that checks is refused the batch; read as it lies there, one record of it is corrupt and all others are whole."""
    topics.create_topic(
        on_image.bootstrap_servers, FLIPPED, partitions=1, replication_factor=1, config={}
    )
    write(on_image, FLIPPED, [encode(ValueFields(0, seq, 1, TOKEN), 100) for seq in range(RECORDS)])
    flip = on_image.disks.flip_bit(NODE, FLIPPED, 0, below_offset=RECORDS)
    assert flip is not None
    back = FinalReader(on_image, FLIPPED, TOKEN, {}).read()
    assert back.crc_failed_offsets == {0: flip.base_offset}
    assert back.log.num_rows == RECORDS
    corrupt = [row["offset"] for row in back.log.to_pylist() if not row["intact"]]
    assert corrupt == [flip.last_offset]


def test_nothing_of_a_killed_supervisor_s_disks_stays_behind(on_image: LocalCluster) -> None:
    """No mount and no loop device, after `kill -9` and a clean; a second clean finds nothing."""
    supervisor = read_handle(on_image.folder).supervisor
    assert supervisor is not None
    os.kill(supervisor.pid, signal.SIGKILL)
    assert list(mounts_below(on_image.folder))
    clean(on_image.folder.parent, include_held=True)
    assert (list(mounts_below(on_image.folder)), list(loop_devices_below(on_image.folder))) == (
        [],
        [],
    )
    assert clean(on_image.folder.parent, include_held=True).removed == ()
