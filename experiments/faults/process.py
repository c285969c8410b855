"""Faults of processes: whom (`experiments.faults.targets`) times what (`experiments.faults.verbs`), and some with a course of their own.

Which of these loses or duplicates what: KIP-101 (truncation to the leader epoch when an old leader rejoins),
KIP-98 (idempotent producers), KIP-966 (eligible leader replicas), and `docs/faults.md`.
"""

from __future__ import annotations

from typing import Final

from experiments.faults import restarting
from experiments.faults.base import FaultKind, FaultParameters, Scene
from experiments.faults.nature import Nature, Shape
from experiments.faults.process_parameters import BehindParameters, CrashParameters
from experiments.faults.targets import EVERYBODY, LEADER, Whom
from experiments.faults.verbs import VERBS, Verb, confirmed, nature_of_crash, nodes_in_words
from experiments.ledger.record import FaultEvidence

FAMILY: Final = "process"


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


def _kind(whom: Whom, verb: Verb) -> FaultKind:
    """Return the fault that does this to those."""
    name = f"{whom.name}-{verb.name}"

    def strike(scene: Scene, asked: FaultParameters) -> FaultEvidence:
        scene.until(asked.at_s)
        struck = whom.find(scene, asked)
        bit = verb.act(scene, whom, struck, asked)
        return FaultEvidence(kind=name, targets=struck.nodes, bit=bit, evidence=tuple(scene.facts))

    def nature(kind: str, asked: FaultParameters, shape: Shape) -> Nature:
        one = verb.nature(kind, asked, shape)
        count = {"kills" if one.kills else "stalled": whom.count(shape)}
        return one.model_copy(update={"strikes_leader": whom.leads(shape), **count})

    summary = f"{whom.words} {whom.verb} {verb.words}"
    return FaultKind(name, FAMILY, summary, verb.parameters(whom), strike, nature, confirmed=confirmed(verb, whom))


KINDS: Final = (
    *(_kind(whom, verb) for verb in VERBS for whom in EVERYBODY),
    FaultKind(
        "leader-crash-behind",
        FAMILY,
        "the followers stand still for a moment, the leader is killed, the followers go on",
        BehindParameters,
        crash_leader_with_followers_behind,
        _nature_of_crash_behind,
    ),
    *restarting.KINDS,
)

__all__ = ["FAMILY", "KINDS", "CrashParameters"]
