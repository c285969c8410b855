"""Polling the metadata of real brokers while they are paused, crash and restart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from ackbench.infra.cluster.interface import MetadataSnapshot
from ackbench.infra.cluster.local import LocalCluster
from ackbench.infra.cluster.metadata_poller import LocalMetadataPoller
from ackbench.infra.process.waiting import wait_until

pytestmark = pytest.mark.cluster
MakeTopic = Callable[[int, int], str]


@pytest.fixture
def topic(make_topic: MakeTopic) -> str:
    """A topic with one partition on three nodes."""
    return make_topic(1, 3)


@pytest.fixture
def poller(cluster: LocalCluster, topic: str) -> Iterator[LocalMetadataPoller]:
    """A poller of the topic."""
    with closing(cluster.metadata_poller(topic)) as local_poller:
        yield local_poller


def poll_until(
    poller: LocalMetadataPoller, condition: Callable[[MetadataSnapshot], bool], awaiting: str
) -> MetadataSnapshot:
    """Poll until a snapshot meets the condition; return it."""

    def probe() -> MetadataSnapshot | None:
        snapshot = poller.partitions()
        return snapshot if snapshot is not None and condition(snapshot) else None

    return wait_until(probe, awaiting=awaiting, timeout_s=30, every_s=0.01)


def test_the_poller_returns_what_the_cluster_describes(
    cluster: LocalCluster, topic: str, poller: LocalMetadataPoller
) -> None:
    """Leader, leader epoch and ISR; and the active controller with its epoch."""
    state = cluster.describe([topic])
    assert poll_until(poller, lambda _: True, "anything").partitions == state.of(topic)
    active = wait_until(
        poller.controller, awaiting="the active controller to answer in time", timeout_s=30
    )
    assert (active.leader, active.epoch) == (state.controller, state.controller_epoch)


def test_a_paused_broker_does_not_interrupt_polling(
    cluster: LocalCluster, poller: LocalMetadataPoller
) -> None:
    """Whichever broker was preferred: the poller queries the others without waiting for it."""
    for node_id in cluster.node_ids():
        poll_until(poller, lambda _: True, "anything before the pause")
        cluster.pause(node_id)
        poll_until(poller, lambda _: True, f"anything while node {node_id} is paused")
        cluster.resume(node_id)


def test_the_poller_sees_another_leader_in_a_new_epoch_after_a_crash(
    cluster: LocalCluster, poller: LocalMetadataPoller
) -> None:
    """Also when the crashed leader was the preferred broker; it rejoins the ISR after its start."""
    (before,) = poll_until(poller, lambda _: True, "anything").partitions
    assert before.leader is not None
    assert before.leader_epoch is not None
    cluster.kill(before.leader)
    (after,) = poll_until(
        poller,
        lambda snapshot: snapshot.partitions[0].leader not in {None, before.leader},
        "another leader",
    ).partitions
    assert after.leader_epoch == before.leader_epoch + 1
    cluster.start(before.leader)
    poll_until(
        poller, lambda snapshot: set(snapshot.partitions[0].isr) == {1, 2, 3}, "the full ISR"
    )


def test_the_checkpoints_and_logs_have_the_new_leader_epoch(
    cluster: LocalCluster, topic: str
) -> None:
    """The election appends no record, and is in the new leader's checkpoint nevertheless."""
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
