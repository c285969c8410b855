"""The followers stand still for a moment, and the leader dies with what only it has.

What is lost: KIP-101 (truncation to the leader epoch when an old leader rejoins) and KIP-966 (eligible leader replicas).
"""

from __future__ import annotations

from typing import Final

from experiments.faults.base import FaultKind, Scene
from experiments.faults.base.nature import Nature, Shape
from experiments.faults.process.parameters import FAMILY, BehindParameters
from experiments.faults.process.targets import LEADER
from experiments.faults.process.verbs import nature_of_crash, nodes_in_words
from experiments.ledger.record import FaultEvidence


def crash_leader_with_followers_behind(scene: Scene, parameters: BehindParameters) -> FaultEvidence:
    """Stop the followers, kill the leader, let the followers go on: what only the leader had is gone."""
    scene.until(parameters.at_s)
    struck = LEADER.find(scene, parameters)
    (leader,), followers = struck.nodes, tuple(node for node in struck.partition.replicas if node not in struck.nodes)
    with scene.striking(leader, *followers) as healing:
        for follower in followers:
            healing.callback(scene.resume, follower)
            scene.pause(follower)
        stood = f"followers {nodes_in_words(followers)} stood still for {parameters.behind_s:g} s"
        scene.saw(stood if followers else "there is no follower to stop: replication factor 1")
        scene.lasting(parameters.behind_s)
        healing.callback(scene.start, leader)
        scene.kill(leader)
        for follower in followers:
            scene.resume(follower)
        scene.lasting(parameters.behind_s + parameters.restart_after_s)
        left = scene.noticed(lambda: LEADER.missed(scene, struck), parameters.patience_s)
    return FaultEvidence(kind="leader-crash-behind", targets=(leader, *followers), bit=left, evidence=tuple(scene.facts))


def _nature_of_crash_behind(kind: str, parameters: BehindParameters, shape: Shape) -> Nature:
    crash, stalls_ms = nature_of_crash(kind, parameters, shape), parameters.behind_s * 1000
    return crash.model_copy(update={"stalled": shape.replication_factor - 1, "stalls_ms": stalls_ms, "heals_within_ms": crash.heals_within_ms + stalls_ms})


KINDS: Final = (
    FaultKind(
        "leader-crash-behind",
        FAMILY,
        "the followers stand still for a moment, the leader is killed, the followers go on",
        BehindParameters,
        crash_leader_with_followers_behind,
        _nature_of_crash_behind,
    ),
)
