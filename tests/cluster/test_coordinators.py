"""The coordinator that a fault acts on is the one that the brokers name; its failure is seen."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ElectionType, KafkaException, TopicPartition
from support.builders.records import a_spec

from ackbench.experiments.ledger.trial_manifest import Status
from ackbench.experiments.planning.faults import fault_parameters
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.plan import FaultRequest, TrialSpec, Workload
from ackbench.experiments.sweep.workload import GroupMembers
from ackbench.experiments.trial.clients.librdkafka import topics
from ackbench.experiments.trial.clients.librdkafka.admin import group_coordinator
from ackbench.experiments.trial.clients.settings.librdkafka import (
    consumer_settings,
    producer_settings,
)
from ackbench.experiments.trial.faults.process.coordinators import GROUP, coordinating_partition
from ackbench.experiments.trial.run import run_trial
from ackbench.infra.cluster.local import LocalCluster, provision
from ackbench.infra.errors import HarnessError
from ackbench.infra.kafka.spec import ClusterSpec
from ackbench.infra.machine.home import Home
from ackbench.infra.process.waiting import wait_until

pytestmark = pytest.mark.cluster
IDS = ("a", "orders", "payments", "group-1", "billing-service", "audit", "x9", "my-app", "group-7")
SESSION_MS = 1500


@pytest.fixture(scope="module")
def cluster(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Provision three nodes, which notice soon that one of them is missing."""
    broker = {
        "broker.session.timeout.ms": str(SESSION_MS),
        "broker.heartbeat.interval.ms": "300",
        "group.min.session.timeout.ms": "1000",
    }
    spec = ClusterSpec(nodes=3, broker=broker)
    made = provision(tmp_path_factory.mktemp("clusters"), cache, "coordinators", spec)
    yield made
    made.destroy()


def commit_once(cluster: LocalCluster, group: str) -> None:
    """Commit an offset, so that the group exists."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group})

    def commit() -> bool:
        try:
            consumer.commit(offsets=[TopicPartition("committed", 0, 0)], asynchronous=False)
        except KafkaException:
            return False
        return True

    wait_until(commit, awaiting=f"a commit of {group}", timeout_s=60)
    consumer.close()


def test_the_coordinator_of_an_id_is_the_node_that_the_brokers_name(cluster: LocalCluster) -> None:
    """Of ids whose hash is negative, too.

    On a busy machine nodes are fenced and one of them leads every partition; each leads its own
    again before they are compared.
    """
    topics.create_topic(cluster.bootstrap_servers, "committed", partitions=1, replication_factor=1)
    admin = topics.admin_client(cluster.bootstrap_servers)
    for group in IDS:
        commit_once(cluster, group)
    compared: list[object] = []

    def several_are_named() -> bool:
        elected = admin.elect_leaders(ElectionType.PREFERRED, None)
        with suppress(KafkaException):  # of a partition that has its preferred leader
            elected.result(10)
        try:
            # Each asks with a client of its own: librdkafka keeps the coordinator that it found.
            named = {group: group_coordinator(cluster.bootstrap_servers, group) for group in IDS}
        except HarnessError as error:  # a coordinator loads what it has just taken over
            compared.append(error)
            return False
        partitions = cluster.describe([GROUP.topic]).of(GROUP.topic)
        leaders = {
            group: partitions[coordinating_partition(group, len(partitions))].leader
            for group in IDS
        }
        compared.append((leaders, named))
        return leaders == named and len(set(named.values())) > 1

    wait_until(
        several_are_named,
        awaiting="several coordinators, the same by leaders and by name",
        timeout_s=60,
        every_s=1,
        seen=lambda: compared[-1],
    )


@pytest.mark.further(kind=["offsets-reassignment"])
@pytest.mark.parametrize("kind", ["offsets-preferred-leader-change", "offsets-reassignment"])
def test_the_offsets_of_the_group_move_while_members_commit(
    cluster: LocalCluster, tmp_path: Path, kind: str
) -> None:
    """The brokers name another coordinator; the partition is as before; each record is read."""
    group = GroupMembers.model_validate({"consumers": 2, "commit_every_records": 1})
    spec = a_group_trial(f"000-{kind}", group, kind, {"at_s": 1.0, "away_s": 4.0})
    manifest = run_trial(SweepFolder(tmp_path / "sweep"), spec, cluster, Home(tmp_path / "home"))
    evidence = " ".join(manifest.fault.evidence)
    assert manifest.fault.took_effect, evidence
    before, after = (
        re.search(pattern, evidence)
        for pattern in (r"before, the brokers named node (\d)", r"then the brokers named node (\d)")
    )
    assert before is not None
    assert after is not None
    assert before[1] != after[1]
    assert evidence.count(f"{GROUP.topic}-") >= 2
    assert manifest.status is Status.SEALED


@pytest.mark.further
@pytest.mark.parametrize("restart_after_s", [0.5, 6.0])
def test_the_partitions_of_a_static_member_wait_for_it_within_its_session(
    cluster: LocalCluster, tmp_path: Path, restart_after_s: float
) -> None:
    """Beyond its session the other member gets them."""
    group = GroupMembers.model_validate({"consumers": 2, "static": True})
    kind = "consumer-crash-before-commit"
    parameters = {"at_s": 1.0, "restart_after_s": restart_after_s}
    session = {"session.timeout.ms": "3000", "heartbeat.interval.ms": "300"}
    spec = a_group_trial(f"000-{restart_after_s}", group, kind, parameters, session)
    folder = SweepFolder(tmp_path / "sweep")
    manifest = run_trial(folder, spec, cluster, Home(tmp_path / "home"))
    evidence = " ".join(manifest.fault.evidence)
    assert manifest.status is Status.SEALED, evidence
    crashed = re.search(r"member (\d)\.0 \(process", evidence)
    owner = re.search(r"partition 0 was assigned to member (\d)\.(\d)", evidence)
    assert crashed is not None
    assert owner is not None, evidence
    waited = (owner[1], owner[2]) == (crashed[1], "1")
    assert waited is (restart_after_s == 0.5), evidence


def a_group_trial(
    trial_id: str,
    group: GroupMembers,
    kind: str,
    parameters: dict[str, float],
    consumer: dict[str, str] | None = None,
) -> TrialSpec:
    """Return a trial of a consumer group under a fault."""
    workload = Workload(rate_records_per_s=300, record_size_bytes=100, duration_s=16)
    return a_spec(
        trial_id=trial_id,
        partitions=2,
        replication_factor=3,
        producer=producer_settings({"enable.idempotence": "true"}),
        consumer=consumer_settings(consumer or {}),
        topic={"min.insync.replicas": "2"},
        workload=workload.model_copy(update={"group": group}),
        fault=FaultRequest(kind=kind, parameters=fault_parameters(kind, parameters)),
    )


@pytest.mark.further
@pytest.mark.parametrize("action", ["crash", "pause", "stop"])
def test_the_coordinator_of_the_group_fails_and_another_node_takes_over(
    cluster: LocalCluster, tmp_path: Path, action: str
) -> None:
    """The members go on with it, and read everything."""
    lasts = {"pause_s": 4.0} if action == "pause" else {"restart_after_s": 4.0}
    kind = f"group-coordinator-{action}"
    workload = Workload(rate_records_per_s=500, record_size_bytes=100, duration_s=16)
    group = GroupMembers.model_validate({"consumers": 2, "commit_every_records": 50})
    spec = a_spec(
        trial_id=f"000-{action}",
        partitions=2,
        replication_factor=3,
        producer=producer_settings({"enable.idempotence": "true"}),
        consumer=consumer_settings({}),
        topic={"min.insync.replicas": "2"},
        workload=workload.model_copy(update={"group": group}),
        fault=FaultRequest(kind=kind, parameters=fault_parameters(kind, {"at_s": 1.0, **lasts})),
    )
    manifest = run_trial(SweepFolder(tmp_path / "sweep"), spec, cluster, Home(tmp_path / "home"))
    evidence = " ".join(manifest.fault.evidence)
    assert manifest.fault.took_effect, evidence
    assert f"{GROUP.topic}-" in evidence
    assert "led as the coordinator of" in evidence
    assert manifest.status is Status.SEALED
