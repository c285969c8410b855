"""Faults of replication and of topics, and faults that overlap on one node, on a real cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
import pytest
from support.builders.records import a_spec

from ackbench.experiments.ledger.terms import ACKED
from ackbench.experiments.ledger.trial_manifest import Keys, Status, TrialManifest
from ackbench.experiments.planning.experiment import parse_experiment
from ackbench.experiments.planning.faults import fault_request
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.plan import FaultRequest, Workload
from ackbench.experiments.trial.clients.settings.librdkafka import (
    consumer_settings,
    producer_settings,
)
from ackbench.experiments.trial.events.clock import now_ns
from ackbench.experiments.trial.events.journal import Journal
from ackbench.experiments.trial.faults import FAULTS, FaultContext
from ackbench.experiments.trial.faults.composition.execution import inject
from ackbench.experiments.trial.metadata_poller import MetadataPoller
from ackbench.experiments.trial.run import run_trial
from ackbench.infra.cluster.local import LocalCluster, provision
from ackbench.infra.kafka.spec import ClusterSpec
from ackbench.infra.machine.home import Home

pytestmark = [pytest.mark.cluster, pytest.mark.further]
SPEC = ClusterSpec(
    broker={
        "broker.session.timeout.ms": "2000",
        "broker.heartbeat.interval.ms": "300",
        "replica.lag.time.max.ms": "1000",
    }
)
REFRESH = {"topic.metadata.refresh.interval.ms": "500"}
EXPERIMENT: Final = parse_experiment(
    {"name": "a", "title": "t", "question": "q", "axes": {"acks": [1]}}, "a.yaml"
)
SCHEDULE: Final = (
    "(node-pause(node={0}, at_s=0.2, pause_s=2) & node-pause(node={0}, at_s=0.4, pause_s=7)"
    " & node-crash(node={0}, at_s=3, restart_after_s=1))"
    " >> crash-in-recovery(at_s=0.1, down_s=0.1, restart_after_s=1, recovers_within_s=60,"
    " patience_s=30)"
)
"""The shorter pause ends during the longer one, and the crash happens during that one."""


@dataclass(frozen=True)
class TrialRun:
    """A trial and its ledger."""

    manifest: TrialManifest
    folder: Path

    def seqs(self, table: str, **values: object) -> list[int]:
        """Return the seqs of a table's rows that have these values."""
        rows = pq.read_table(self.folder / f"{table}.parquet").to_pylist()
        return [
            row["seq"] for row in rows if all(row[name] == value for name, value in values.items())
        ]

    def lost(self) -> set[int]:
        """Return the seqs of acknowledged records that are missing from the log."""
        return set(self.seqs("attempts", outcome=ACKED)) - set(self.seqs("log"))


@pytest.fixture(scope="module")
def cluster(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three nodes with short session and lag timeouts."""
    provisioned = provision(tmp_path_factory.mktemp("clusters"), cache, "replication", SPEC)
    yield provisioned
    provisioned.destroy()


def run(
    cluster: LocalCluster, folder: Path, kind: str, duration_s: float, **parameters: float
) -> TrialRun:
    """Run one trial with acks=all, where one in-sync replica is enough.

    A fault begins at 0.5 s, but on a busy machine the requests before it take seconds.
    """
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
            keys=Keys(count=64),
            producers=1,
        ),
        fault=FaultRequest(kind=kind, parameters=full),
    )
    manifest = run_trial(SweepFolder(folder), spec, cluster, Home(folder))
    return TrialRun(manifest, folder / "trials" / kind)


@pytest.mark.further
def test_an_unclean_election_loses_records_of_acks_all(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    """The leader was the only in-sync replica; the elected one lacks its last records.

    All quotas are removed afterwards.
    """
    trial = run(cluster, tmp_path, "unclean-election", 8, restart_after_s=1, patience_s=30)
    assert trial.manifest.status is Status.SEALED, trial.manifest.reason
    assert trial.lost()


def test_a_reassigned_leader_loses_no_record_of_acks_all(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    """The replica is moved away and back under load."""
    trial = run(cluster, tmp_path, "reassignment", 10, away_s=0.5)
    assert trial.manifest.status is Status.SEALED, trial.manifest.reason
    assert not trial.lost()


@pytest.mark.further
def test_partitions_added_under_load_are_written_and_read(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    """The producer, the concurrent consumer and the final read use all of them."""
    trial = run(cluster, tmp_path, "partitions-raised", 8, to=3)
    assert trial.manifest.status is Status.SEALED, trial.manifest.reason
    assert (trial.manifest.partitions, sorted(trial.manifest.end_offsets)) == (1, [0, 1, 2])
    for partition in range(3):
        assert trial.seqs("log", partition=partition)
        assert trial.seqs("reads", partition=partition) == trial.seqs("log", partition=partition)
    assert not trial.lost()


@pytest.mark.further
def test_a_recreated_topic_has_no_records_of_the_old_one(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    """Records acknowledged before are lost; the client continues with the new topic."""
    trial = run(cluster, tmp_path, "topic-recreated", 12, gone_s=0.5)
    assert trial.manifest.status is Status.SEALED, trial.manifest.reason
    assert {0, 1, 2} <= trial.lost()
    assert max(trial.seqs("log")) == max(trial.seqs("attempts"))


@pytest.mark.further
def test_overlapping_faults_on_one_node_heal(
    cluster: LocalCluster, make_topic: Callable[[int, int], str]
) -> None:
    """The cluster is healthy afterwards, and each fault has its own evidence.

    The node is paused twice, crashes meanwhile and is started once; then it crashes, and crashes
    again while it recovers.
    """
    topic, journal = make_topic(1, 3), Journal()
    (partition,) = cluster.describe([topic]).of(topic)
    fault = fault_request(EXPERIMENT, SCHEDULE.format(partition.leader), {})
    with MetadataPoller(cluster, topic, journal):
        shorter, longer, crash, second_crash = (
            one.evidence
            for one in inject(
                fault, FaultContext(cluster, topic, now_ns(), journal, client_timeout_s=0.1)
            )
        )
    assert not journal.events("fault_resume"), (
        "no pause may end the other one, and a crashed node is not resumed"
    )
    assert (shorter.took_effect, longer.took_effect) == (True, False), (
        "the crash ended the longer pause early, so that pause had no effect"
    )
    assert (crash.took_effect, second_crash.took_effect) == (True, True), (
        crash.evidence,
        second_crash.evidence,
    )
    cluster.wait_until_healthy()
    assert {node.state for node in cluster.status()} == {"running"}
