"""What is seen of real brokers over kept connections while they stand still, die and come back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from infra.cluster.interface import MetadataSnapshot
from infra.cluster.local import LocalCluster
from infra.cluster.metadata_poller import LocalMetadataPoller
from infra.process.waiting import wait_until

pytestmark = pytest.mark.cluster
MakeTopic = Callable[[int, int], str]


@pytest.fixture
def topic(make_topic: MakeTopic) -> str:
    """One partition on three nodes."""
    return make_topic(1, 3)


@pytest.fixture
def metadata_poller(cluster: LocalCluster, topic: str) -> Iterator[LocalMetadataPoller]:
    """At the topic."""
    with closing(cluster.metadata_poller(topic)) as made:
        yield made


def see(
    metadata_poll: LocalMetadataPoller, awaited: Callable[[MetadataSnapshot], bool], awaiting: str
) -> MetadataSnapshot:
    """Look until something is seen."""

    def look() -> MetadataSnapshot | None:
        sighting = metadata_poll.partitions()
        return sighting if sighting is not None and awaited(sighting) else None

    return wait_until(look, awaiting=awaiting, timeout_s=30, every_s=0.01)


def test_it_sees_what_the_cluster_describes(
    cluster: LocalCluster, topic: str, metadata_poll: LocalMetadataPoller
) -> None:
    """Leader, leader epoch and ISR; and the active controller with its epoch."""
    state = cluster.describe([topic])
    assert see(metadata_poll, lambda _: True, "anything").partitions == state.of(topic)
    active = wait_until(
        metadata_poll.controller, awaiting="the active controller to answer in time", timeout_s=30
    )
    assert (active.leader, active.epoch) == (state.controller, state.controller_epoch)


def test_a_paused_broker_does_not_blind_it(
    cluster: LocalCluster, metadata_poll: LocalMetadataPoller
) -> None:
    """Whichever was asked before: the others are asked, and nobody waits for the one that stands still."""
    for node_id in cluster.node_ids():
        see(metadata_poll, lambda _: True, "anything before the pause")
        cluster.pause(node_id)
        see(metadata_poll, lambda _: True, f"anything while node {node_id} stands still")
        cluster.resume(node_id)


def test_a_killed_leader_is_seen_to_lose_its_partition_in_a_new_epoch(
    cluster: LocalCluster, metadata_poll: LocalMetadataPoller
) -> None:
    """Also when it was the broker that was asked; and it is seen in the ISR again after its start."""
    (before,) = see(metadata_poll, lambda _: True, "anything").partitions
    assert before.leader is not None
    assert before.leader_epoch is not None
    cluster.kill(before.leader)
    (after,) = see(
        metadata_poll,
        lambda sighting: sighting.partitions[0].leader not in {None, before.leader},
        "another leader",
    ).partitions
    assert after.leader_epoch == before.leader_epoch + 1
    cluster.start(before.leader)
    see(
        metadata_poll, lambda sighting: set(sighting.partitions[0].isr) == {1, 2, 3}, "the full ISR"
    )


def test_the_checkpoints_tell_the_new_epoch_of_every_replica(
    cluster: LocalCluster, topic: str
) -> None:
    """The election appends nothing, and is in the new leader's checkpoint all the same."""
    leader = cluster.describe([topic]).of(topic)[0].leader
    assert leader is not None
    sizes = cluster.node_log_sizes()
    cluster.kill(leader)
    wait_until(
        lambda: cluster.describe([topic]).of(topic)[0].leader not in {None, leader},
        awaiting="another leader",
        timeout_s=30,
    )
    cluster.start(leader)
    state = cluster.wait_until_healthy().of(topic)[0]
    (led,) = [
        line for line in cluster.node_log_events_since(sizes, topic) if line.kind == "became_leader"
    ]
    assert (led.node, led.leader_epoch, led.offset) == (state.leader, state.leader_epoch, 0)
    assert (state.leader, state.leader_epoch) in {
        (epoch.node_id, epoch.leader_epoch) for epoch in cluster.leader_epochs(topic)
    }
    assert "unparsed" not in {line.kind for line in cluster.node_log_events_since(sizes, topic)}
