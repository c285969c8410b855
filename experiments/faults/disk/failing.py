"""Faults of one node's disk: full, gone, slow. Needs root: each node's data lies on an image.

A broker whose only log directory fails takes it offline and ends (KIP-112); Kafka never takes it in again by itself.
"""

from __future__ import annotations

import time
from typing import Final

from experiments.faults.base import FaultKind, Missed, Scene
from experiments.faults.base.observing import leader_left
from experiments.faults.disk.down import NodeLog
from experiments.faults.disk.nature import nature_of_full_disk, nature_of_power_loss, nature_of_slow_disk
from experiments.faults.disk.parameters import FAMILY, DiskParameters, SlowDiskParameters
from experiments.ledger.record import FaultEvidence
from infra.disk.disks import SYNCED_BYTES
from infra.means import Means

_FULL: Final = "No space left on device"
_SLOWED: Final = 10
"""So many times longer a synced write takes at least, or the kernel did not hold it back."""


def disk_full(scene: Scene, parameters: DiskParameters) -> FaultEvidence:
    """Take every free block of the leader's disk; it bit when the node ended over it, and the partition lost its leader."""
    scene.until(parameters.at_s)
    leader, disks = scene.leader(), scene.cluster.disks
    with scene.striking(leader) as healing:
        log = NodeLog(scene, leader)
        healing.callback(scene.start, leader)
        healing.callback(disks.free, leader)
        with scene.holding.alone(leader):
            scene.holding.take(leader, "down", scene.name)
            left_bytes = disks.fill(leader)
        scene.note("fault_bit", f"{left_bytes} bytes are free", leader)
        scene.saw(f"node {leader}'s disk was filled {scene.since_load_began_s():.2f} s into the load: {left_bytes} bytes were left")
        scene.until(parameters.ends_s())
        left = scene.noticed(lambda: leader_left(scene, leader), parameters.patience_s)
        ended = _ended_by_itself(scene, leader, log, _FULL)
    return FaultEvidence(kind="disk-full", targets=(leader,), bit=left and ended, evidence=tuple(scene.facts))


def log_dir_gone(scene: Scene, parameters: DiskParameters) -> FaultEvidence:
    """End the file system under the leader's log directory; it bit when the node ended over it, and the partition lost its leader."""
    scene.until(parameters.at_s)
    leader, disks = scene.leader(), scene.cluster.disks
    with scene.striking(leader) as healing:
        log = NodeLog(scene, leader)
        healing.callback(scene.start, leader)
        healing.callback(_bring_back, scene, leader)
        with scene.holding.alone(leader):
            scene.holding.take(leader, "down", scene.name)
            disks.take_away(leader)
        scene.note("fault_bit", "the file system of its log directory has ended", leader)
        scene.saw(f"node {leader}'s log directory was gone {scene.since_load_began_s():.2f} s into the load, with all that was not synced")
        scene.until(parameters.ends_s())
        left = scene.noticed(lambda: leader_left(scene, leader), parameters.patience_s)
        ended = _ended_by_itself(scene, leader, log, "IOException")
    return FaultEvidence(kind="log-dir-gone", targets=(leader,), bit=left and ended, evidence=tuple(scene.facts))


def _synced_write_s(scene: Scene, node: int) -> float:
    """Return how long a synced write takes.

    Raises:
        Missed: the disk takes none: another part of the fault has struck it.
    """
    try:
        return scene.cluster.disks.synced_write_s(node)
    except OSError as error:
        raise Missed(f"the disk of node {node} takes no write: {error.strerror}") from error


def slow_disk(scene: Scene, parameters: SlowDiskParameters) -> FaultEvidence:
    """Let the kernel hold back what is written to the leader's disk; it bit when a synced write was seen to take its time."""
    scene.until(parameters.at_s)
    leader, disks = scene.leader(), scene.cluster.disks
    fast_s = min(_synced_write_s(scene, leader) for _ in range(3))
    with scene.striking(leader) as healing:
        healing.callback(disks.limit, leader, None)
        disks.limit(leader, parameters.write_bytes_per_s)
        scene.note("fault_bit", f"the kernel takes {parameters.write_bytes_per_s} bytes a second", leader)
        began_s = time.monotonic()
        slow_s = _synced_write_s(scene, leader)
        scene.until(parameters.ends_s())
        lasted_s = time.monotonic() - began_s
    scene.saw(f"node {leader}'s disk took {parameters.write_bytes_per_s} bytes a second for {lasted_s:.2f} s")
    scene.saw(f"a synced write of {SYNCED_BYTES} bytes to it took {slow_s:.3f} s, and {fast_s:.3f} s before")
    return FaultEvidence(kind="slow-disk", targets=(leader,), bit=slow_s > _SLOWED * fast_s, evidence=tuple(scene.facts))


def _ended_by_itself(scene: Scene, node: int, log: NodeLog, telltale: str) -> bool:
    """Whether the node's process has ended, which nobody asked for; keeps what it said about its disk."""
    ended = scene.state_of(node) == "stopped"
    said = log.first(telltale)
    scene.saw(f"node {node} ended by itself" if ended else f"node {node} still ran when the fault was healed")
    scene.saw(f"it said: {said}" if said else f"its log says nothing of {telltale!r}")
    return ended


def _bring_back(scene: Scene, node: int) -> None:
    """Where the process lives on without its disk, it is killed first."""
    if scene.state_of(node) != "stopped":
        scene.cluster.kill(node)
    scene.cluster.disks.bring_back(node)


_ON_IMAGES: Final = frozenset({Means.DISK_IMAGES})

KINDS: Final = (
    FaultKind(
        "disk-full",
        FAMILY,
        "the leader's disk is filled to its last block; freed, and the node started again, later",
        DiskParameters,
        disk_full,
        nature_of_full_disk,
        needs=_ON_IMAGES,
        disk="image",
        outlives=True,
    ),
    FaultKind(
        "log-dir-gone",
        FAMILY,
        "the leader's log directory disappears under it, with all that was not synced; it comes back, and the node is started again, later",
        DiskParameters,
        log_dir_gone,
        nature_of_power_loss,
        needs=_ON_IMAGES,
        disk="image",
        outlives=True,
    ),
    FaultKind(
        "slow-disk",
        FAMILY,
        "the leader's disk takes only so many bytes a second for a while",
        SlowDiskParameters,
        slow_disk,
        nature_of_slow_disk,
        needs=frozenset({Means.DISK_IMAGES, Means.SLOW_DEVICES}),
        disk="image",
    ),
)
