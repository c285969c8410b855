"""The circumstances of a planned trial: effective settings, and the effects of its fault."""

from typing import Any

import pytest

from ackbench.experiments.ledger.trial_manifest import Keys
from ackbench.experiments.sweep.client_kinds import ClientKind
from ackbench.experiments.sweep.plan import (
    ClusterNeed,
    ExternalAccess,
    FaultRequest,
    TrialSpec,
    Workload,
)
from ackbench.experiments.sweep.workload import GroupMembers
from ackbench.experiments.trial.faults.core.effects import FaultEffects
from ackbench.experiments.verdicts.contract import clauses_of
from ackbench.experiments.verdicts.guarantees.availability import AVAILABILITY
from ackbench.experiments.verdicts.guarantees.circumstances import (
    UNLIMITED_RETRIES,
    Circumstances,
    circumstances_of,
)
from ackbench.experiments.verdicts.guarantees.loss import NO_ACKED_LOSS

REFRESH = "topic.metadata.refresh.interval.ms"


def _spec(**changes: Any) -> TrialSpec:
    spec = TrialSpec(
        sweep_id="sweep",
        trial_id="000-a",
        experiment="planned",
        cell={},
        label="",
        repeat=0,
        order=0,
        seed=0,
        cluster=ClusterNeed(kafka_version="4.3.1"),
        replication_factor=3,
        partitions=1,
        producer={"acks": "all", "enable.idempotence": "false"},
        consumer={},
        topic={"min.insync.replicas": "2"},
        workload=Workload(
            rate_records_per_s=1,
            record_size_bytes=100,
            duration_s=10,
            keys=Keys(count=0),
            producers=1,
        ),
        fault=FaultRequest(kind="none"),
    )
    return spec.model_copy(update=changes)


def test_a_topic_setting_overrides_the_broker_setting() -> None:
    """As Kafka resolves it; a topic without the setting uses the broker's."""
    nodes = ClusterNeed(
        kafka_version="4.3.1",
        broker={
            "min.insync.replicas": "3",
            "unclean.leader.election.enable": "true",
            "log.retention.minutes": "5",
        },
    )
    with_topic_settings = circumstances_of(
        _spec(
            cluster=nodes,
            topic={
                "min.insync.replicas": "1",
                "unclean.leader.election.enable": "false",
                "retention.ms": "-1",
            },
        )
    )
    without_topic_settings = circumstances_of(_spec(cluster=nodes, topic={}))
    assert (
        with_topic_settings.min_insync_replicas,
        with_topic_settings.unclean_election,
        with_topic_settings.retention_ms,
    ) == (1, False, -1)
    assert (
        without_topic_settings.min_insync_replicas,
        without_topic_settings.unclean_election,
        without_topic_settings.retention_ms,
    ) == (3, True, 300_000)


def test_circumstances_contain_the_effective_defaults() -> None:
    """Librdkafka's as ackbench passes them, and the brokers'."""
    usual = circumstances_of(_spec())
    assert (
        usual.retries,
        usual.max_in_flight,
        usual.delivery_timeout_ms,
        usual.session_timeout_ms,
    ) == (UNLIMITED_RETRIES, 1_000_000, 30_000, 4000)
    assert (usual.retention_bytes, usual.compacted, usual.flush_messages) == (-1, False, 2**63 - 1)


@pytest.mark.parametrize(
    ("producer", "acks", "idempotent"),
    [
        ({"acks": "-1"}, "all", False),
        ({"enable.idempotence": "true"}, "all", True),
        ({"acks": "0"}, "0", False),
    ],
)
def test_equivalent_settings_give_the_same_circumstances(
    producer: dict[str, str], acks: str, *, idempotent: bool
) -> None:
    """For example, acks=-1 is acks=all."""
    found = circumstances_of(_spec(producer=producer))
    assert (found.acks, found.idempotent) == (acks, idempotent)


def test_a_producer_with_a_transactional_id_is_transactional() -> None:
    """The settings include idempotence, which librdkafka requires."""
    settings = {"transactional.id": "ackbench", "enable.idempotence": "true"}
    assert [circumstances_of(_spec(producer=given)).transactional for given in (settings, {})] == [
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("fault", "effects"),
    [
        (FaultRequest(kind="none"), FaultEffects(kind="none")),
        (
            FaultRequest(
                kind="leader-crash", parameters={"restart_after_s": 6.0, "patience_s": 4.0}
            ),
            FaultEffects(
                kind="leader-crash",
                nodes_down=1,
                may_affect_leader=True,
                heals_after_ms=6000,
                heals_within_ms=10_000,
            ),
        ),
        (
            FaultRequest(
                kind="leader-crash-behind",
                parameters={"behind_s": 0.5, "restart_after_s": 6.0, "patience_s": 4.0},
            ),
            FaultEffects(
                kind="leader-crash-behind",
                nodes_down=1,
                nodes_paused=2,
                pause_ms=500,
                may_affect_leader=True,
                heals_after_ms=6000,
                heals_within_ms=10_500,
            ),
        ),
        (
            FaultRequest(kind="leader-pause", parameters={"pause_s": 3.0}),
            FaultEffects(
                kind="leader-pause",
                nodes_paused=1,
                pause_ms=3000,
                may_affect_leader=True,
                heals_after_ms=3000,
                heals_within_ms=3000,
            ),
        ),
        (
            FaultRequest(kind="power-loss", parameters={"any": 1}),
            FaultEffects(kind="power-loss", known=False, may_affect_leader=True),
        ),
    ],
)
def test_the_effects_of_a_fault_follow_from_its_parameters(
    fault: FaultRequest, effects: FaultEffects
) -> None:
    """A kind that is not registered may do anything."""
    assert circumstances_of(_spec(fault=fault)).fault == effects


@pytest.mark.parametrize(("partitions", "affects_leader"), [(1, False), (6, True)])
def test_a_follower_of_one_partition_may_lead_another(
    partitions: int, *, affects_leader: bool
) -> None:
    """With a single partition it leads none, so its crash affects no leader."""
    assert (
        circumstances_of(
            _spec(partitions=partitions, fault=FaultRequest(kind="follower-crash"))
        ).fault.may_affect_leader
        is affects_leader
    )


def test_followers_paused_for_longer_than_their_session_timeout_count_as_dead() -> None:
    """They miss heartbeats, so the ISR may be the leader alone when the leader crashes."""
    short = circumstances_of(
        _spec(fault=FaultRequest(kind="leader-crash-behind", parameters={"behind_s": 0.5}))
    )
    long = circumstances_of(
        _spec(fault=FaultRequest(kind="leader-crash-behind", parameters={"behind_s": 5.0}))
    )
    assert (short.max_dead_replicas, long.max_dead_replicas) == (1, 3)
    assert (clauses_of(short)[0].guaranteed, clauses_of(long)[0].guaranteed) == (True, False)


@pytest.mark.parametrize(
    ("client", "settings", "lookup_ms"),
    [
        ("librdkafka", {}, 2000),
        ("librdkafka", {REFRESH: "200"}, 400),
        ("librdkafka", {REFRESH: "-1"}, 2000),
        ("java", {}, 0),
    ],
)
def test_librdkafka_looks_up_a_leader_once_a_second_or_at_its_refresh_interval(
    client: ClientKind, settings: dict[str, str], lookup_ms: float
) -> None:
    """It may skip one response; the Java client requests metadata at once."""
    circumstances = circumstances_of(
        _spec(
            client=client,
            producer={"acks": "1", **settings},
            fault=FaultRequest(kind="leader-crash"),
        )
    )
    assert (
        circumstances.failover_ms
        == circumstances.controller_failover_ms
        + circumstances.session_timeout_ms * 9 / 8
        + lookup_ms
        + circumstances.retry_backoff_max_ms
    )


def test_franz_go_asks_for_a_leader_at_most_once_in_five_seconds() -> None:
    """So a heal 6 s after the crash may come before its failover; that of others does not."""
    crash = FaultRequest(kind="group-coordinator-crash", parameters={"restart_after_s": 6.0})
    nodes = ClusterNeed(
        kafka_version="4.3.1", controllers=3, broker={"broker.session.timeout.ms": "3000"}
    )
    franz_go, sarama = (
        circumstances_of(_spec(client=client, fault=crash, cluster=nodes))
        for client in ("franz-go", "sarama")
    )
    assert franz_go.leader_lookup_ms == 5000
    assert sarama.leader_lookup_ms == 0
    guaranteed = [
        {clause.guarantee: clause.guaranteed for clause in clauses_of(found)}[AVAILABILITY]
        for found in (franz_go, sarama)
    ]
    assert guaranteed == [False, True]


def test_with_zookeeper_the_zookeeper_session_is_the_broker_session() -> None:
    """The next controller starts when the session of the old one has expired."""
    cluster = ClusterNeed(
        kafka_version="3.9.2",
        coordination="zookeeper",
        zookeepers=3,
        broker={"zookeeper.session.timeout.ms": "6000"},
    )
    found = circumstances_of(_spec(cluster=cluster))
    assert (
        found.session_timeout_ms,
        found.heartbeat_interval_ms,
        found.controller_failover_ms,
    ) == (6000, 2000, 6500)


def test_only_dedicated_controllers_count_as_controllers() -> None:
    """If there are any, the brokers do not count."""
    assert (
        circumstances_of(
            _spec(cluster=ClusterNeed(kafka_version="4.3.1", controllers=1))
        ).controllers
        == 1
    )


def _crash(kind: str, controllers: int) -> Circumstances:
    """Return the circumstances of a crash in a cluster with dedicated controllers, or none."""
    cluster = ClusterNeed(kafka_version="4.3.1", controllers=controllers)
    return circumstances_of(_spec(cluster=cluster, fault=FaultRequest(kind=kind)))


def test_a_failover_includes_a_controller_election_only_if_the_controller_may_fail() -> None:
    """A dedicated controller survives the crash of a broker."""
    combined, dedicated = _crash("leader-crash", 0), _crash("leader-crash", 3)
    assert combined.failover_ms - dedicated.failover_ms == combined.controller_failover_ms
    assert _crash("controller-crash", 3).may_elect_controller


def test_brokers_that_are_no_controllers_leave_the_majority_of_controllers() -> None:
    """The crash of two of three combined nodes takes the quorum with it."""
    assert (
        _crash("majority-crash", 0).max_failed_controllers,
        _crash("majority-crash", 3).max_failed_controllers,
        _crash("controller-crash", 3).max_failed_controllers,
    ) == (2, 0, 1)


def test_the_crash_of_a_dedicated_controller_affects_no_replica() -> None:
    """It leads no partition and stores no records, so nothing that a partition needs fails."""
    crash = _crash("controller-crash", 3)
    assert (crash.max_dead_replicas, crash.fault.may_affect_leader) == (0, False)
    assert {
        clause.guarantee: clause.guaranteed
        for clause in clauses_of(crash)
        if clause.guarantee in {NO_ACKED_LOSS, AVAILABILITY}
    } == {NO_ACKED_LOSS: True, AVAILABILITY: True}


def test_producer_expiration_and_offset_reset_are_those_of_the_cell() -> None:
    """Kafka's defaults where the cell sets none: one day, and earliest."""
    usual = circumstances_of(_spec())
    assert (usual.producer_id_expiration_ms, usual.auto_offset_reset) == (86_400_000, "earliest")
    load = _spec().workload.model_copy(update={"group": GroupMembers(auto_offset_reset="latest")})
    broker = ClusterNeed(kafka_version="4.3.1", broker={"producer.id.expiration.ms": "2000"})
    changed = circumstances_of(_spec(cluster=broker, workload=load))
    assert (changed.producer_id_expiration_ms, changed.auto_offset_reset) == (2000, "latest")


def test_added_partitions_are_an_effect_of_their_fault() -> None:
    """The rule on auto.offset.reset depends on it, alone and joined with another fault."""
    joined = FaultRequest(
        kind="partitions-raised >> leader-crash",
        joined=">>",
        parts=(FaultRequest(kind="partitions-raised"), FaultRequest(kind="leader-crash")),
    )
    for fault in (FaultRequest(kind="partitions-raised"), joined):
        effects = circumstances_of(_spec(fault=fault)).fault
        assert (effects.known, effects.adds_partitions) == (True, True)
    assert not circumstances_of(
        _spec(fault=FaultRequest(kind="leader-crash"))
    ).fault.adds_partitions


def test_the_level_of_eligible_leader_replicas_is_unknown_on_an_external_cluster() -> None:
    """So is what depends on it."""
    levels = {"eligible.leader.replicas.version": 1}
    tracked = circumstances_of(_spec(cluster=ClusterNeed(kafka_version="4.3.1", features=levels)))
    external = circumstances_of(
        _spec(
            cluster=ClusterNeed(
                kafka_version="4.3.1", external=ExternalAccess(addresses="broker:9092")
            )
        )
    )
    assert (tracked.eligible_leader_replicas, external.eligible_leader_replicas) == (1, None)


def test_a_failover_takes_longer_for_records_that_wait_for_followers() -> None:
    """A follower that fetched from the new leader too early waits for its backoff."""
    crash = FaultRequest(kind="leader-crash")
    of_all, of_leader = (
        circumstances_of(_spec(fault=crash, producer={"acks": acks, "enable.idempotence": "false"}))
        for acks in ("all", "1")
    )
    assert of_all.failover_ms - of_leader.failover_ms == 1000
    alone = circumstances_of(_spec(fault=crash, replication_factor=1))
    assert alone.failover_ms == of_leader.failover_ms
