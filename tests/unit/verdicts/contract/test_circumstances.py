"""What a planned trial says of its circumstances: effective settings, and the nature of its fault."""

from typing import Any

import pytest

from experiments.faults.core.effects import FaultEffects
from experiments.sweep.plan import ClientKind, ClusterNeed, FaultRequest, TrialSpec, Workload
from experiments.verdicts.contract import contract
from experiments.verdicts.contract.circumstances import UNLIMITED_RETRIES, circumstances_of

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
            rate_records_per_s=1, record_size_bytes=100, duration_s=10, keys=0, producers=1
        ),
        fault=FaultRequest(kind="none"),
    )
    return spec.model_copy(update=changes)


def test_a_topic_s_own_setting_counts_before_its_nodes_() -> None:
    """As Kafka resolves it; a topic without one takes its nodes'."""
    nodes = ClusterNeed(
        kafka_version="4.3.1",
        broker={
            "min.insync.replicas": "3",
            "unclean.leader.election.enable": "true",
            "log.retention.minutes": "5",
        },
    )
    own = circumstances_of(
        _spec(
            cluster=nodes,
            topic={
                "min.insync.replicas": "1",
                "unclean.leader.election.enable": "false",
                "retention.ms": "-1",
            },
        )
    )
    theirs = circumstances_of(_spec(cluster=nodes, topic={}))
    assert (own.min_insync_replicas, own.unclean_election, own.retention_ms) == (1, False, -1)
    assert (theirs.min_insync_replicas, theirs.unclean_election, theirs.retention_ms) == (
        3,
        True,
        300_000,
    )


def test_a_trial_s_circumstances_hold_the_defaults_that_it_runs_with() -> None:
    """Those of librdkafka as we pass them, and of our nodes."""
    usual = circumstances_of(_spec())
    assert (
        usual.retries,
        usual.max_in_flight,
        usual.delivery_timeout_ms,
        usual.session_timeout_ms,
    ) == (UNLIMITED_RETRIES, 1_000_000, 30_000, 4000)
    assert (usual.retention_bytes, usual.compacts, usual.flush_messages) == (-1, False, 2**63 - 1)


@pytest.mark.parametrize(
    ("producer", "acks", "idempotent"),
    [
        ({"acks": "-1"}, "all", False),
        ({"enable.idempotence": "true"}, "all", True),
        ({"acks": "0"}, "0", False),
    ],
)
def test_one_setting_under_several_names_is_one_circumstance(
    producer: dict[str, str], acks: str, *, idempotent: bool
) -> None:
    """acks=-1 is acks=all."""
    found = circumstances_of(_spec(producer=producer))
    assert (found.acks, found.idempotent) == (acks, idempotent)


def test_a_producer_is_transactional_by_its_id() -> None:
    """Its idempotence is said beside it: librdkafka takes no other."""
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
                kills=1,
                strikes_leader=True,
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
                kills=1,
                stalled=2,
                stalls_ms=500,
                strikes_leader=True,
                heals_after_ms=6000,
                heals_within_ms=10_500,
            ),
        ),
        (
            FaultRequest(kind="leader-pause", parameters={"pause_s": 3.0}),
            FaultEffects(
                kind="leader-pause",
                stalled=1,
                stalls_ms=3000,
                strikes_leader=True,
                heals_after_ms=3000,
                heals_within_ms=3000,
            ),
        ),
        (
            FaultRequest(kind="power-loss", parameters={"any": 1}),
            FaultEffects(kind="power-loss", known=False, strikes_leader=True),
        ),
    ],
)
def test_a_fault_s_nature_is_read_off_its_parameters(
    fault: FaultRequest, effects: FaultEffects
) -> None:
    """A kind that nothing is known of may do anything."""
    assert circumstances_of(_spec(fault=fault)).fault == effects


@pytest.mark.parametrize(("partitions", "strikes"), [(1, False), (6, True)])
def test_a_follower_of_one_partition_may_lead_another(partitions: int, *, strikes: bool) -> None:
    """With a single partition it leads none, and its death takes no leader."""
    assert (
        circumstances_of(
            _spec(partitions=partitions, fault=FaultRequest(kind="follower-crash"))
        ).fault.strikes_leader
        is strikes
    )


def test_followers_that_stand_still_for_longer_than_their_session_count_as_dead() -> None:
    """Kafka's word for alive is that the heartbeats come; the ISR may be the leader alone when it is killed."""
    short = circumstances_of(
        _spec(fault=FaultRequest(kind="leader-crash-behind", parameters={"behind_s": 0.5}))
    )
    long = circumstances_of(
        _spec(fault=FaultRequest(kind="leader-crash-behind", parameters={"behind_s": 5.0}))
    )
    assert (short.gone, long.gone) == (1, 3)
    assert (contract(short)[0].guaranteed, contract(long)[0].guaranteed) == (True, False)


@pytest.mark.parametrize(
    ("client", "settings", "looks_ms"),
    [
        ("librdkafka", {}, 2000),
        ("librdkafka", {REFRESH: "200"}, 400),
        ("librdkafka", {REFRESH: "-1"}, 2000),
        ("java", {}, 0),
    ],
)
def test_librdkafka_looks_for_a_leader_once_a_second_or_as_often_as_it_is_told(
    client: ClientKind, settings: dict[str, str], looks_ms: float
) -> None:
    """And may pass over one answer; Java's client asks at once."""
    slow = circumstances_of(
        _spec(
            client=client,
            producer={"acks": "all", **settings},
            fault=FaultRequest(kind="leader-crash"),
        )
    )
    assert (
        slow.failover_ms
        == slow.controller_failover_ms
        + slow.session_timeout_ms * 9 / 8
        + looks_ms
        + slow.retry_backoff_max_ms
    )


def test_under_zookeeper_its_session_is_the_brokers_session() -> None:
    """And the next controller waits for the old one's to end."""
    kept = ClusterNeed(
        kafka_version="3.9.2",
        coordination="zookeeper",
        zookeepers=3,
        broker={"zookeeper.session.timeout.ms": "6000"},
    )
    found = circumstances_of(_spec(cluster=kept))
    assert (
        found.session_timeout_ms,
        found.heartbeat_interval_ms,
        found.controller_failover_ms,
    ) == (6000, 2000, 6500)


def test_dedicated_controllers_elect_alone() -> None:
    """As many as there are of them count, and not the brokers."""
    assert (
        circumstances_of(
            _spec(cluster=ClusterNeed(kafka_version="4.3.1", controllers=1))
        ).controllers
        == 1
    )
