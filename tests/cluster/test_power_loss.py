"""Power cuts and flipped bits on the disk of a real broker. Needs root."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from support import tally
from support.builders.records import a_spec
from support.reference.values import ValueFields, encode

from ackbench.experiments.ledger.trial_manifest import Keys
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.plan import FaultRequest, Workload
from ackbench.experiments.trial.clients.librdkafka import topics
from ackbench.experiments.trial.clients.settings.librdkafka import (
    consumer_settings,
    producer_settings,
)
from ackbench.experiments.trial.final_read import FinalReader
from ackbench.experiments.trial.run import run_trial
from ackbench.infra.cluster.capabilities import Capability, missing_capability
from ackbench.infra.cluster.cleaning import clean
from ackbench.infra.cluster.handle import read_handle
from ackbench.infra.cluster.local import LocalCluster, provision
from ackbench.infra.disk.mounts import loop_devices_below, mounts_below
from ackbench.infra.kafka.spec import ClusterSpec
from ackbench.infra.machine.home import Home

_MISSING = missing_capability(Capability.DISK_IMAGES)
pytestmark = [
    pytest.mark.further,
    pytest.mark.skipif(
        _MISSING is not None, reason=f"no disk images: {_MISSING.reason if _MISSING else ''}"
    ),
]
NODE = 1
RECORDS = 2000
SYNCED, UNSYNCED, FLIPPED = "synced", "unsynced", "flipped"
TOKEN = 77


IMAGE = ClusterSpec(nodes=1, disk="image")


@pytest.fixture(scope="module")
def on_image(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One node with its data on a disk image."""
    cluster = provision(tmp_path_factory.mktemp("clusters"), cache, "on an image", IMAGE)
    yield cluster
    cluster.destroy()


def write(cluster: LocalCluster, topic: str, values: Sequence[bytes]) -> None:
    """Write records, and check that each is acknowledged."""
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


def test_only_synced_records_survive_a_power_cut(on_image: LocalCluster) -> None:
    """All were acknowledged with acks=all.

    One topic has flush.messages=1; the other one is synced by the operating system, the default.
    """
    for topic, config in ((SYNCED, {"flush.messages": "1"}), (UNSYNCED, {})):
        topics.create_topic(
            on_image.bootstrap_servers, topic, partitions=1, replication_factor=1, config=config
        )
        write(on_image, topic, [b"x" * 100] * RECORDS)
    assert on_image.disks.lose_power([NODE]) == {NODE}
    on_image.start(NODE)
    on_image.wait_until_healthy()
    survived = {topic: on_image.log_end_offsets(topic)[0] for topic in (SYNCED, UNSYNCED)}
    for topic, records in survived.items():
        tally.count(
            f"of {RECORDS} {topic} records, all acknowledged, survived a power cut", records
        )
    assert survived[SYNCED] == RECORDS
    assert survived[UNSYNCED] < RECORDS


def test_the_final_read_continues_after_a_flipped_bit(on_image: LocalCluster) -> None:
    """A consumer that checks CRCs rejects the batch; without the check one record is damaged."""
    topics.create_topic(
        on_image.bootstrap_servers, FLIPPED, partitions=1, replication_factor=1, config={}
    )
    write(on_image, FLIPPED, [encode(ValueFields(0, seq, 1, TOKEN), 100) for seq in range(RECORDS)])
    flip = on_image.disks.flip_bit(NODE, FLIPPED, 0, below_offset=RECORDS)
    assert flip is not None
    final_read = FinalReader(on_image, FLIPPED, TOKEN, {}).read()
    assert final_read.crc_failed_offsets == {0: flip.base_offset}
    assert final_read.log.num_rows == RECORDS
    corrupt = [row["offset"] for row in final_read.log.to_pylist() if not row["intact"]]
    assert corrupt == [flip.last_offset]


@pytest.mark.further
def test_a_broker_that_halts_on_its_full_disk_is_no_disturbance(
    on_image: LocalCluster, cache: Path, tmp_path: Path
) -> None:
    """It exits by itself, and the fault asks for that; it is in the journal all the same."""
    on_image.wait_until_healthy()
    home = Home(tmp_path)
    home.cache.symlink_to(cache)
    times = {"at_s": 1, "restart_after_s": 4, "patience_s": 1}
    spec = a_spec(
        replication_factor=1,
        producer=producer_settings({}),
        consumer=consumer_settings({}),
        workload=Workload(
            rate_records_per_s=500,
            record_size_bytes=100,
            duration_s=8,
            keys=Keys(count=0),
            producers=1,
        ),
        fault=FaultRequest(kind="disk-full", parameters=times),
    )
    record = run_trial(SweepFolder(tmp_path / "sweep"), spec, on_image, home)
    assert record.disturbances == ()
    events = pq.read_table(tmp_path / "sweep" / "trials" / record.trial_id / "events.parquet")
    exits = [row for row in events.to_pylist() if row["kind"] == "fault_exited"]
    assert [(row["node"], row["detail"]) for row in exits] == [(1, "node 1 exited with status 1")]


def test_clean_removes_the_disks_of_a_killed_supervisor(clusters: Path, cache: Path) -> None:
    """No mount and no loop device is left; a second clean finds nothing."""
    folder = provision(clusters, cache, "killed", IMAGE).folder
    supervisor = read_handle(folder).supervisor
    assert supervisor is not None
    os.kill(supervisor.pid, signal.SIGKILL)
    os.waitpid(supervisor.pid, 0)
    assert list(mounts_below(folder))
    clean(clusters, include_held=True)
    assert (list(mounts_below(folder)), list(loop_devices_below(folder))) == ([], [])
    assert clean(clusters, include_held=True).removed == ()
