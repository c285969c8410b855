"""When an external cluster is healthy for a sweep."""

from __future__ import annotations

from infra.cluster.external import is_healthy
from infra.kafka.spec import ClusterState, PartitionState

OWN = "ackbench-quick-20260101T000000-abcd-"


def state_with(topic: str) -> ClusterState:
    """Return a cluster of two brokers with one topic, whose partition has no leader."""
    partition = PartitionState(topic=topic, partition=0, leader=None, replicas=(1, 2), isr=())
    return ClusterState(
        brokers=(1, 2), controller=None, controller_epoch=None, partitions=(partition,)
    )


def test_topics_of_others_block_no_trial() -> None:
    """Theirs may have no leader for years; also those of other sweeps."""
    for topic in ("trial-000", "ackbench-quick-20260101T000000-ffff-000-abcdef"):
        assert is_healthy(state_with(topic), (1, 2), OWN)


def test_an_own_topic_without_a_leader_is_waited_for() -> None:
    """Its trial would begin during the election."""
    assert not is_healthy(state_with(f"{OWN}000-abcdef"), (1, 2), OWN)


def test_a_missing_broker_is_waited_for() -> None:
    """Also if no topic of the sweep is there yet."""
    assert not is_healthy(state_with("others"), (1, 2, 3), OWN)
