"""On a real cluster: an unclean election loses what acks=all was told, a moved leader does not, new partitions are read, and a topic made again is another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.builders.records import a_spec

from experiments.clients.settings.librdkafka import consumer_settings, producer_settings
from experiments.faults import FAULTS
from experiments.ledger.record import Status, TrialRecord
from experiments.ledger.schema import ACKED
from experiments.sweep.folder import SweepFolder
from experiments.sweep.plan import FaultRequest, Workload
from experiments.trial.run import run_trial
from infra.cluster.local import LocalCluster, provision
from infra.kafka.spec import ClusterSpec
from infra.machine.home import Home

pytestmark = pytest.mark.cluster
SPEC = ClusterSpec(
    broker={
        "broker.session.timeout.ms": "2000",
        "broker.heartbeat.interval.ms": "300",
        "replica.lag.time.max.ms": "1000",
    }
)
REFRESH = {"topic.metadata.refresh.interval.ms": "500"}


@dataclass(frozen=True)
class Ran:
    """A trial, and what its ledger holds."""

    record: TrialRecord
    folder: Path

    def ids(self, table: str, **wanted: object) -> list[int]:
        """Return the seqs of a table's rows that have these values."""
        rows = pq.read_table(self.folder / f"{table}.parquet").to_pylist()
        return [
            row["seq"] for row in rows if all(row[name] == value for name, value in wanted.items())
        ]

    def lost(self) -> set[int]:
        """Return what was acknowledged and is not in the log."""
        return set(self.ids("attempts", outcome=ACKED)) - set(self.ids("log"))


@pytest.fixture(scope="module")
def cluster(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three nodes, quick to notice."""
    made = provision(tmp_path_factory.mktemp("clusters"), cache, "replication", SPEC)
    yield made
    made.destroy()


def run(
    cluster: LocalCluster, folder: Path, kind: str, duration_s: float, **parameters: float
) -> Ran:
    """Run one trial with acks=all, where one in-sync replica is enough."""
    full = FAULTS[kind].parameters.model_validate({"at_s": 0.5, **parameters}).model_dump()
    spec = a_spec(
        trial_id=kind,
        producer=producer_settings({"acks": "all", **REFRESH}),
        consumer=consumer_settings(REFRESH),
        topic={"min.insync.replicas": "1"},
        workload=Workload(
            rate_records_per_s=2000,
            record_size_bytes=100,
            duration_s=duration_s,
            keys=64,
            producers=1,
        ),
        fault=FaultRequest(kind=kind, parameters=full),
    )
    record = run_trial(SweepFolder(folder), spec, cluster, Home(folder))
    return Ran(record, folder / "trials" / kind)


def test_an_unclean_election_loses_what_every_in_sync_replica_had(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    """The leader alone was in sync and acknowledged for all; who leads then has none of it. Every quota is gone afterwards."""
    ran = run(cluster, tmp_path, "unclean-election", 8, restart_after_s=1, patience_s=30)
    assert ran.record.status is Status.SEALED, ran.record.reason
    assert ran.lost()


def test_a_moved_leader_loses_nothing_of_acks_all(cluster: LocalCluster, tmp_path: Path) -> None:
    """The replica goes and comes back while records flow."""
    ran = run(cluster, tmp_path, "reassignment", 4, away_s=0.5)
    assert ran.record.status is Status.SEALED, ran.record.reason
    assert not ran.lost()


def test_partitions_added_under_load_are_written_and_read(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    """The producer finds them, and neither the reader along nor the final read misses one."""
    ran = run(cluster, tmp_path, "partitions-raised", 4, to=3)
    assert ran.record.status is Status.SEALED, ran.record.reason
    assert (ran.record.partitions, sorted(ran.record.end_offsets)) == (1, [0, 1, 2])
    for partition in range(3):
        assert ran.ids("log", partition=partition)
        assert ran.ids("reads", partition=partition) == ran.ids("log", partition=partition)
    assert not ran.lost()


def test_a_topic_made_again_holds_nothing_of_the_old_one(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    """What was acknowledged before is lost; the client goes on with the new topic."""
    ran = run(cluster, tmp_path, "topic-recreated", 5, gone_s=0.5)
    assert ran.record.status is Status.SEALED, ran.record.reason
    assert {0, 1, 2} <= ran.lost()
    assert max(ran.ids("log")) == max(ran.ids("attempts"))
