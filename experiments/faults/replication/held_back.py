"""Followers kept out of the ISR while their nodes run: by Kafka's own replication quotas (KIP-73).

Kafka never holds a follower back that is in sync (`RemoteLeaderEndPoint.shouldFollowerThrottle`, `ReplicaManager.shouldLeaderThrottle`): its quotas are
for those that catch up. So a follower is stopped (SIGSTOP) until the leader has dropped it from the ISR, and goes on with a quota too small to catch up.
It needs the high watermark to move on without it: with fewer replicas in sync than `min.insync.replicas` that stands still (KIP-966), whoever has all
below it counts as in sync, and comes back.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Final

from experiments.clients.admin_changes import change_settings
from experiments.faults.base import OBSERVED_PARTITION, Scene
from experiments.faults.base.operating import asking, observed
from infra.cluster_spec import PartitionState
from infra.errors import HarnessError
from infra.replicas import leader_choices
from infra.waiting import wait_until

_RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
_REPLICAS: Final = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
_BYTES_PER_S: Final = "1"
_SET_TIMEOUT_S: Final = 10.0
_LIFT_TIMEOUT_S: Final = 60.0
_ASK_S: Final = 3.0
"""For one client."""
_FILLS_S: Final = 1.0
"""A window of the quota: then replication itself has used it up."""


def set_quotas(scene: Scene, healing: ExitStack) -> None:
    """Hold back whoever is out of sync on any node; returns once the quota is used up.

    Raises:
        Missed: a broker refused, or did not answer.
    """
    nodes = scene.cluster.node_ids()
    healing.callback(lift_quotas, scene, nodes)
    with asking():
        for node in nodes:
            change_settings(scene.cluster.admin_servers, "broker", str(node), dict.fromkeys(_RATES, _BYTES_PER_S), timeout_s=_SET_TIMEOUT_S)
        change_settings(scene.cluster.admin_servers, "topic", scene.topic, dict.fromkeys(_REPLICAS, "*"), timeout_s=_SET_TIMEOUT_S)
    scene.saw(f"replication quotas of {_BYTES_PER_S} byte/s hold back whoever is out of sync")
    let_pass(scene, _FILLS_S)


def lift_quotas(scene: Scene, nodes: tuple[int, ...]) -> None:
    """Take the quotas away. Each node is told itself, so that one that was killed is waited for.

    Raises:
        WaitTimeout: a node was not up in time, or refused.
    """
    free_topic(scene)
    for node in nodes:
        _insist(scene, "broker", str(node), _RATES)


def free_topic(scene: Scene) -> None:
    """Let the topic's followers catch up, whatever the nodes' quotas.

    Raises:
        WaitTimeout: nobody took it in time.
    """
    _insist(scene, "topic", scene.topic, _REPLICAS)


def _insist(scene: Scene, kind: str, name: str, settings: tuple[str, ...]) -> None:
    """Take settings away; a client waits for the node that it once took for the right one, so another one asks after a while."""
    said = ["nothing was asked"]

    def taken_away() -> bool:
        try:
            change_settings(scene.cluster.admin_servers, kind, name, dict.fromkeys(settings, None), timeout_s=_ASK_S)
        except HarnessError as error:
            said[0] = str(error)
            return False
        return True

    wait_until(taken_away, awaiting=f"{kind} {name} without quotas", timeout_s=_LIFT_TIMEOUT_S, seen=lambda: said[0])


def let_pass(scene: Scene, seconds: float) -> None:
    """Return so much later.

    Raises:
        GivenUp: as `Scene.until`.
    """
    scene.until(scene.since_load_began_s() - scene.after_s + seconds)


def put_out(scene: Scene, follower: int, patience_s: float) -> None:
    """Stop a follower until the cluster says that the ISR is without it; it stands still when this returns.

    That the ISR shrank before does not count: the follower may have come back since.

    Raises:
        WaitTimeout: it stayed in the ISR.
    """

    def without() -> str | None:
        isr = in_sync_now(scene)
        return None if follower in isr else ",".join(map(str, isr)) or "nobody"

    scene.pause(follower)
    left = scene.wait(without, awaiting=f"the ISR without node {follower}", timeout_s=patience_s)
    scene.saw(f"the ISR of partition {OBSERVED_PARTITION} was {left}, without node {follower}, {scene.since_begin_s():.2f} s after the fault began")


def followers_of(scene: Scene, partition: PartitionState) -> tuple[int, ...]:
    """Return the followers in the order in which to put them out: the active controller's node last, for its pause costs an election."""
    controller = scene.state().controller
    followers = [node for node in partition.replicas if node != partition.leader]
    return tuple(sorted(followers, key=lambda node: node == controller))


def in_sync_now(scene: Scene) -> tuple[int, ...]:
    """Return the observed partition's ISR as the active controller's broker knows it."""
    return observed(scene).isr


def eligible_now(scene: Scene) -> tuple[int, ...]:
    """Return who may lead the observed partition though out of sync (KIP-966); nobody, where Kafka is too old to tell."""
    choices = leader_choices(scene.cluster.status(), scene.topic)
    return next((choice.eligible for choice in choices if choice.partition == OBSERVED_PARTITION), ())
