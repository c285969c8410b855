"""Faults of processes: crash (SIGKILL, restarted later) and pause (SIGSTOP, SIGCONT).

Which of these loses or duplicates what: KIP-101 (truncation to the leader epoch when an old leader rejoins),
KIP-98 (idempotent producers), and `docs/faults.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pydantic import Field

from experiments.faults.aftermath import with_timed_out_requests
from experiments.faults.base import FaultKind, FaultParameters, Scene
from experiments.faults.nature import Nature, Shape
from experiments.faults.observing import controller_moved, isr_shrank, leader_left
from experiments.ledger.record import FaultEvidence
from infra.cluster import PartitionState
from infra.errors import WaitTimeout
from infra.waiting import wait_until


class CrashParameters(FaultParameters):
    """A node is killed and started again."""

    restart_after_s: float = Field(default=5.0, gt=0, le=3600, description="from the kill to the restart at the earliest, seconds")
    patience_s: float = Field(default=10.0, ge=0, le=3600, description="how much longer it stays down while the cluster has not noticed, seconds")

    def ends_s(self) -> float:
        """Return when the node is started again, where the cluster has noticed by then."""
        return self.at_s + self.restart_after_s


class BehindParameters(CrashParameters):
    """The followers are stopped for a moment before the leader is killed."""

    behind_s: float = Field(default=0.5, gt=0, le=60, description="how long the followers stand still before the leader dies, seconds")

    def ends_s(self) -> float:
        """Return when the leader is started again."""
        return self.at_s + self.behind_s + self.restart_after_s


class PauseParameters(FaultParameters):
    """A node is stopped for a while, and all its connections stay open."""

    pause_s: float = Field(default=3.0, gt=0, le=3600, description="how long the process stands still, seconds")

    def ends_s(self) -> float:
        """Return when the node goes on."""
        return self.at_s + self.pause_s

    def unnoticed(self, client_timeout_s: float, acks: str) -> str | None:
        """A pause no longer than the client waits is repaired by TCP; with acks=0 nobody waits, and what is asked is another thing."""
        if acks == "0" or self.pause_s > client_timeout_s:
            return None
        return f"pause_s is {self.pause_s:g} and socket.timeout.ms is {client_timeout_s * 1000:g}; allowed: a pause longer than the client waits for an answer"


def crash_leader(scene: Scene, parameters: CrashParameters) -> FaultEvidence:
    """Kill the leader of the observed partition; it bit when the process is gone and the partition lost its leader."""
    scene.until(parameters.at_s)
    leader = _leader(scene.partition())
    with scene.striking(leader) as healing:
        healing.callback(scene.start, leader)
        scene.kill(leader)
        left = _noticed(scene, parameters, lambda: leader_left(scene, leader))
    return _evidence("leader-crash", scene, (leader,), bit=left)


def crash_leader_with_followers_behind(scene: Scene, parameters: BehindParameters) -> FaultEvidence:
    """Stop the followers, kill the leader, let the followers go on: what only the leader had is gone."""
    scene.until(parameters.at_s)
    partition = scene.partition()
    leader, followers = _leader(partition), tuple(node for node in partition.replicas if node != partition.leader)
    with scene.striking(leader, *followers) as healing:
        for follower in followers:
            healing.callback(scene.resume, follower)
            scene.pause(follower)
        scene.saw(
            f"followers {_nodes(followers)} stood still for {parameters.behind_s:g} s" if followers else "there is no follower to stop: replication factor 1"
        )
        scene.until(parameters.at_s + parameters.behind_s)
        healing.callback(scene.start, leader)
        scene.kill(leader)
        for follower in followers:
            scene.resume(follower)
        left = _noticed(scene, parameters, lambda: leader_left(scene, leader))
    return _evidence("leader-crash-behind", scene, (leader, *followers), bit=left)


def crash_follower(scene: Scene, parameters: CrashParameters) -> FaultEvidence:
    """Kill a follower of the observed partition; it bit when the ISR shrank."""
    scene.until(parameters.at_s)
    partition = scene.partition()
    followers = [node for node in partition.isr if node != partition.leader]
    if not followers:
        scene.saw("the partition has no follower in its ISR: nothing was done")
        return _evidence("follower-crash", scene, (), bit=False)
    with scene.striking(followers[0]) as healing:
        healing.callback(scene.start, followers[0])
        scene.kill(followers[0])
        shrank = _noticed(scene, parameters, lambda: isr_shrank(scene, followers[0]))
    return _evidence("follower-crash", scene, (followers[0],), bit=shrank)


def crash_controller(scene: Scene, parameters: CrashParameters) -> FaultEvidence:
    """Kill the active controller; it bit when another one took over."""
    scene.until(parameters.at_s)
    before = scene.cluster.describe([scene.topic])
    if before.controller is None:
        scene.saw("no active controller could be found: nothing was done")
        return _evidence("controller-crash", scene, (), bit=False)
    with scene.striking(before.controller) as healing:
        healing.callback(scene.start, before.controller)
        scene.kill(before.controller)
        moved = _noticed(scene, parameters, lambda: controller_moved(scene, before))
    return _evidence("controller-crash", scene, (before.controller,), bit=moved)


def pause_leader(scene: Scene, parameters: PauseParameters) -> FaultEvidence:
    """Stop the leader of the observed partition for longer than the client waits and shorter than its session."""
    scene.until(parameters.at_s)
    leader = _leader(scene.partition())
    with scene.striking(leader) as healing:
        healing.callback(scene.resume, leader)
        scene.pause(leader)
        began_s = scene.since_load_began_s()
        scene.until(parameters.ends_s())
        stopped = any(node.node_id == leader and node.state == "paused" for node in scene.cluster.status())
        lasted_s = scene.since_load_began_s() - began_s
    scene.saw(f"node {leader} stood still for {lasted_s:.2f} s; a request times out after {scene.client_timeout_s:g} s")
    if not stopped:
        scene.saw("the process was not stopped any more when the pause ended")
    return _evidence("leader-pause", scene, (leader,), bit=stopped and lasted_s > scene.client_timeout_s)


def _noticed(scene: Scene, parameters: CrashParameters, look: Callable[[], str | None]) -> bool:
    """Leave the node down for its time, and on until the cluster has noticed or patience ends; keep what was seen."""
    scene.until(parameters.ends_s())
    try:
        scene.saw(wait_until(look, awaiting="the cluster to notice", timeout_s=parameters.patience_s))
    except WaitTimeout:
        scene.saw(f"the cluster had not noticed {scene.since_load_began_s() - parameters.at_s:.1f} s after the fault began, when it was healed")
        return False
    return True


def _leader(partition: PartitionState) -> int:
    if partition.leader is None:  # Scene.partition waits for one
        raise AssertionError(partition.topic)
    return partition.leader


def _evidence(kind: str, scene: Scene, targets: tuple[int, ...], *, bit: bool) -> FaultEvidence:
    return FaultEvidence(kind=kind, targets=targets, bit=bit, evidence=tuple(scene.facts))


def _nodes(ids: tuple[int, ...]) -> str:
    return " and ".join(map(str, ids))


def _nature_of_crash(kind: str, parameters: CrashParameters, _shape: Shape) -> Nature:
    """The struck node may lead any partition; also the active controller may."""
    heals_ms = parameters.restart_after_s * 1000
    return Nature(kind=kind, kills=1, strikes_leader=True, heals_after_ms=heals_ms, heals_within_ms=heals_ms + parameters.patience_s * 1000)


def _nature_of_crash_behind(kind: str, parameters: BehindParameters, shape: Shape) -> Nature:
    crash, stalls_ms = _nature_of_crash(kind, parameters, shape), parameters.behind_s * 1000
    return crash.model_copy(update={"stalled": shape.replication_factor - 1, "stalls_ms": stalls_ms, "heals_within_ms": crash.heals_within_ms + stalls_ms})


def _nature_of_follower_crash(kind: str, parameters: CrashParameters, shape: Shape) -> Nature:
    """A follower of partition 0; with more partitions it may lead another one."""
    return _nature_of_crash(kind, parameters, shape).model_copy(update={"strikes_leader": shape.partitions > 1})


def _nature_of_pause(kind: str, parameters: PauseParameters, _shape: Shape) -> Nature:
    lasts_ms = parameters.pause_s * 1000
    return Nature(kind=kind, stalled=1, stalls_ms=lasts_ms, strikes_leader=True, heals_after_ms=lasts_ms, heals_within_ms=lasts_ms)


FAMILY: Final = "process"

KINDS: Final = (
    FaultKind("leader-crash", FAMILY, "the leader is killed (SIGKILL) and started again later", CrashParameters, crash_leader, _nature_of_crash),
    FaultKind(
        "leader-crash-behind",
        FAMILY,
        "the followers stand still for a moment, the leader is killed, the followers go on",
        BehindParameters,
        crash_leader_with_followers_behind,
        _nature_of_crash_behind,
    ),
    FaultKind(
        "leader-pause",
        FAMILY,
        "the leader stands still (SIGSTOP) for longer than the client waits and shorter than its session",
        PauseParameters,
        pause_leader,
        _nature_of_pause,
        confirmed=with_timed_out_requests,
    ),
    FaultKind("follower-crash", FAMILY, "a follower is killed (SIGKILL) and started again later", CrashParameters, crash_follower, _nature_of_follower_crash),
    FaultKind(
        "controller-crash", FAMILY, "the active controller is killed (SIGKILL) and started again later", CrashParameters, crash_controller, _nature_of_crash
    ),
)
