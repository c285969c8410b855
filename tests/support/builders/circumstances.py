"""Effects of faults as the contract sees them, and the circumstances of a usual cell."""

from __future__ import annotations

from ackbench.experiments.trial.faults.core.effects import FaultEffects
from ackbench.experiments.verdicts.guarantees.circumstances import UNLIMITED_RETRIES, Circumstances

NO_FAULT = FaultEffects(kind="none")
LEADER_CRASH = FaultEffects(
    kind="leader-crash",
    nodes_down=1,
    may_affect_leader=True,
    heals_after_ms=20_000,
    heals_within_ms=25_000,
)
FOLLOWER_CRASH = LEADER_CRASH.model_copy(
    update={"kind": "follower-crash", "may_affect_leader": False}
)
LEADER_PAUSE = FaultEffects(
    kind="leader-pause",
    nodes_paused=1,
    pause_ms=3000,
    may_affect_leader=True,
    heals_after_ms=3000,
    heals_within_ms=3000,
)
POWER_LOSS_ALL = LEADER_CRASH.model_copy(
    update={"kind": "power-loss-all", "nodes_down": 3, "power_loss": True}
)
BIT_FLIP = FaultEffects(kind="bit-flip", corrupts_records=True, may_affect_leader=True)
LEADER_ISOLATED = FaultEffects(
    kind="leader-isolated",
    nodes_isolated=1,
    may_affect_leader=True,
    heals_after_ms=20_000,
    heals_within_ms=25_000,
)
RESPONSES_DROPPED = FaultEffects(
    kind="responses-dropped",
    clients_cut_off=True,
    responses_lost=True,
    requests_held_ms=4000,
    heals_after_ms=4000,
    heals_within_ms=4000,
)
REASSIGNMENT = FaultEffects(
    kind="reassignment",
    moves_leader=True,
    may_affect_leader=True,
    heals_after_ms=3000,
    heals_within_ms=9000,
)
ISR_SHRUNK = LEADER_CRASH.model_copy(
    update={"kind": "isr-shrunk-leader-crash", "followers_out_of_sync": 2}
)
FOLLOWERS_THROTTLED = FaultEffects(
    kind="followers-throttled", followers_out_of_sync=1, heals_after_ms=3000, heals_within_ms=9000
)
PRODUCER_CRASH = FaultEffects(
    kind="producer-crash", restarts_producer=True, heals_after_ms=1000, heals_within_ms=1000
)
MEMBER_CRASH = FaultEffects(
    kind="consumer-crash-before-commit",
    interrupts_member=True,
    heals_after_ms=1000,
    heals_within_ms=1000,
)
REQUEST_DELAYED = FaultEffects(
    kind="end-txn-delayed",
    delays_transactional_request=True,
    clients_cut_off=True,
    heals_within_ms=15_000,
)
ZOOKEEPER_SERVER_DOWN = FaultEffects(
    kind="zookeeper-leader-crash",
    zookeeper_server_down=True,
    heals_after_ms=9000,
    heals_within_ms=19_000,
)
ZOOKEEPER_UNAVAILABLE = ZOOKEEPER_SERVER_DOWN.model_copy(update={"zookeeper_unavailable": True})
UNKNOWN_FAULT = FaultEffects(kind="meteorite", known=False, may_affect_leader=True)

USUAL = Circumstances(
    acks="all",
    kafka_version="4.3.1",
    transaction_version=2,
    eligible_leader_replicas=0,
    idempotent=False,
    retries=UNLIMITED_RETRIES,
    max_in_flight=1_000_000,
    delivery_timeout_ms=30_000,
    socket_timeout_ms=1000,
    connection_setup_timeout_ms=30_000,
    retry_backoff_max_ms=1000,
    nodes=3,
    controllers=3,
    partitions=1,
    replication_factor=3,
    min_insync_replicas=2,
    unclean_election=False,
    flush_messages=2**63 - 1,
    compacted=False,
    retention_ms=604_800_000,
    retention_bytes=-1,
    session_timeout_ms=4000,
    heartbeat_interval_ms=500,
    replica_lag_ms=30_000,
    controller_failover_ms=2500,
    fault=LEADER_CRASH,
)
"""librdkafka, acks=all without idempotence, no eligible leader replicas, 3 replicas,
min.insync.replicas=2, a leader crash of 20 s."""
