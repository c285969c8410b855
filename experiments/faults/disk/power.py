"""Power loss: a node's process and what its disk had not been told to keep go at one moment. Needs root: each node's data lies on an image.

Kafka syncs on segment roll, on a clean end, and as `flush.messages` and `flush.ms` say; all else is left to the operating system, and durability
to replication (https://kafka.apache.org/documentation/#appvsosflush). How the cut is made: `infra/power.py`, `infra/disk/`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from experiments.faults.base import FaultKind, Scene
from experiments.faults.base.observing import leader_left
from experiments.faults.disk.down import NodeLog, all_down, leader_down, take_down
from experiments.faults.disk.nature import nature_of_power_loss, nature_of_power_loss_everywhere
from experiments.faults.disk.parameters import FAMILY, PowerLossParameters
from experiments.ledger.record import FaultEvidence
from infra.means import Means

_CUT: Final = "power lost"
_RECOVERING_TIMEOUT_S: Final = 60.0


def leader_loses_power(scene: Scene, parameters: PowerLossParameters) -> FaultEvidence:
    """Cut the power of the observed partition's leader; it bit when its disk lost what was not synced, and the partition lost its leader."""
    return leader_down("leader-power-loss", scene, parameters, _lose_power)


def all_lose_power(scene: Scene, parameters: PowerLossParameters) -> FaultEvidence:
    """Cut the power of all nodes at one moment; it bit when each disk lost what was not synced."""
    return all_down("all-power-loss", scene, parameters, _lose_power)


def leader_loses_power_in_recovery(scene: Scene, parameters: PowerLossParameters) -> FaultEvidence:
    """Cut the leader's power, and once more while it loads its logs again; it bit when the second cut came before it had started."""
    scene.until(parameters.at_s)
    leader = scene.leader()
    with scene.striking(leader) as healing:
        healing.callback(scene.start, leader)
        cut = _lose_power(scene, [leader])
        scene.until(parameters.ends_s())
        left = scene.noticed(lambda: leader_left(scene, leader), parameters.patience_s)
        log = NodeLog(scene, leader)
        scene.start(leader)
        scene.wait(lambda: log.first(NodeLog.LOADING), awaiting=f"node {leader} to load its logs", timeout_s=_RECOVERING_TIMEOUT_S)
        again = _lose_power(scene, [leader])
        early = log.first(NodeLog.STARTED) is None
        scene.saw("it was loading its logs when power went again" if early else "it had started when power went again")
    bit = cut and left and again and early
    return FaultEvidence(kind="power-loss-in-recovery", targets=(leader,), bit=bit, evidence=tuple(scene.facts))


def _lose_power(scene: Scene, nodes: Sequence[int]) -> bool:
    """Return whether each disk lost what was not synced."""

    def cut(running: Sequence[int]) -> bool:
        lost = scene.cluster.disks.lose_power(running)
        for node in running:
            scene.saw(f"node {node}'s disk lost a file that was written a moment before and not synced" if node in lost else f"node {node}'s disk lost nothing")
        return lost == set(running)

    return take_down(scene, nodes, _CUT, cut)


_ON_IMAGES: Final = frozenset({Means.DISK_IMAGES})

KINDS: Final = (
    FaultKind(
        "leader-power-loss",
        FAMILY,
        "the leader's node loses power: what its disk had not synced is gone; it is started again later",
        PowerLossParameters,
        leader_loses_power,
        nature_of_power_loss,
        needs=_ON_IMAGES,
        disk="image",
        outlives=True,
    ),
    FaultKind(
        "all-power-loss",
        FAMILY,
        "all nodes lose power at one moment: what no disk had synced is gone; they are started again later",
        PowerLossParameters,
        all_lose_power,
        nature_of_power_loss_everywhere,
        needs=_ON_IMAGES,
        disk="image",
        outlives=True,
    ),
    FaultKind(
        "power-loss-in-recovery",
        FAMILY,
        "the leader's node loses power, and once more while it loads its logs",
        PowerLossParameters,
        leader_loses_power_in_recovery,
        nature_of_power_loss,
        needs=_ON_IMAGES,
        disk="image",
        outlives=True,
    ),
)
