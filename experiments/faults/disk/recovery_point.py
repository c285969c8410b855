"""The worst that a power loss may leave, for machines without root: nothing but what the broker had noted down as synced.

A node is killed and each of its logs is cut to `recovery-point-offset-checkpoint`. That note is up to a minute old, so for a topic of a short
trial it is the log's very start. A real power loss keeps all that was synced, and of the rest what the kernel wrote back by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from experiments.faults.base import FaultKind, Scene
from experiments.faults.disk.down import all_down, leader_down, take_down
from experiments.faults.disk.nature import nature_of_cut, nature_of_cut_everywhere
from experiments.faults.disk.parameters import FAMILY
from experiments.faults.process.parameters import CrashParameters
from experiments.ledger.record import FaultEvidence

_HOW: Final = "killed, and its logs cut to their recovery points: the worst case of a power loss, not a real one"


def cut_leader(scene: Scene, parameters: CrashParameters) -> FaultEvidence:
    """Kill the leader and cut its logs; it bit when something was cut, and the partition lost its leader."""
    return leader_down("leader-recovery-point-cut", scene, parameters, _cut)


def cut_all(scene: Scene, parameters: CrashParameters) -> FaultEvidence:
    """Kill all nodes at once and cut their logs; it bit when something was cut from each."""
    return all_down("all-recovery-point-cut", scene, parameters, _cut)


def _cut(scene: Scene, nodes: Sequence[int]) -> bool:
    """Return whether each node had something to lose, and lost it."""
    disks, lost_bytes = scene.cluster.disks, list[int]()

    def cut(running: Sequence[int]) -> bool:
        for node in running:
            scene.cluster.kill(node)
        lost_bytes.extend(disks.cut_to_recovery_points(node) for node in running)
        return all(lost_bytes)

    return take_down(scene, nodes, _HOW, cut)


KINDS: Final = (
    FaultKind(
        "leader-recovery-point-cut",
        FAMILY,
        "the leader is killed and its logs are cut to what it had noted down as synced: the worst case of a power loss, made without root",
        CrashParameters,
        cut_leader,
        nature_of_cut,
        outlives=True,
    ),
    FaultKind(
        "all-recovery-point-cut",
        FAMILY,
        "all nodes are killed and their logs cut to what they had noted down as synced: the worst case of a power loss, made without root",
        CrashParameters,
        cut_all,
        nature_of_cut_everywhere,
        outlives=True,
    ),
)
