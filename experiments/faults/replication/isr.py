"""Faults of replication: followers out of sync, and what follows when the leader then dies.

What each may lose: KIP-101 (an old leader cuts its log to the new one's epoch), KIP-106 (unclean election), KIP-966 (eligible leader replicas).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

from pydantic import Field

from experiments.clients.admin_changes import elect
from experiments.faults.base import OBSERVED_PARTITION, FaultKind, FaultParameters, Scene
from experiments.faults.base.nature import Nature, Shape
from experiments.faults.base.observing import leader_left
from experiments.faults.base.operating import asking, observed
from experiments.faults.process.verbs import nodes_in_words
from experiments.faults.replication.held_back import eligible_now, followers_of, free_topic, in_sync_now, let_pass, put_out, set_quotas
from experiments.faults.replication.moving import FAMILY
from experiments.ledger.record import FaultEvidence
from infra.errors import WaitTimeout

_NO_FOLLOWER: Final = "replication.factor 1 has no follower"
_COMES_BACK_S: Final = 1.5
"""Who comes back does so with its first fetches."""


class ThrottledParameters(FaultParameters):
    """Followers are put out of the ISR and held back."""

    followers: int = Field(default=1, ge=1, le=8, description="how many followers are held back")
    held_s: float = Field(default=4.0, gt=0, le=3600, description="how long, once they are out of the ISR, seconds")
    patience_s: float = Field(default=15.0, gt=0, le=3600, description="how long each may take to leave the ISR, seconds")

    def ends_s(self) -> float:
        """Return when they may catch up, where they left the ISR at once."""
        return self.at_s + self.held_s

    def impossible(self, shape: Shape) -> str | None:
        """There must be so many followers."""
        if shape.replication_factor == 1:
            return _NO_FOLLOWER
        most = shape.replication_factor - 1
        return f"followers is {self.followers}; allowed: at most {most}, as replication.factor is {shape.replication_factor}" if self.followers > most else None


class ShrunkParameters(FaultParameters):
    """The ISR shrinks to the leader alone, and the leader is killed."""

    alone_s: float = Field(default=1.0, gt=0, le=3600, description="how long the leader is alone in the ISR before it dies, seconds")
    restart_after_s: float = Field(default=6.0, gt=0, le=3600, description="from the kill to the restart at the earliest, seconds")
    patience_s: float = Field(default=15.0, gt=0, le=3600, description="how long each follower may take to leave the ISR, and the leader's death to be noticed")

    def ends_s(self) -> float:
        """Return when the leader is started again, where the followers left the ISR at once."""
        return self.at_s + self.alone_s + self.restart_after_s

    def impossible(self, shape: Shape) -> str | None:
        """There must be a follower."""
        return _NO_FOLLOWER if shape.replication_factor == 1 else None


def throttle_followers(scene: Scene, parameters: ThrottledParameters) -> FaultEvidence:
    """Put followers out of the ISR and hold them back; it bit when they stayed out of it to the end though their nodes ran."""
    scene.until(parameters.at_s)
    chosen = list(followers_of(scene, scene.partition())[: parameters.followers])
    with scene.striking(*chosen) as healing:
        set_quotas(scene, healing)
        for node in chosen:
            healing.callback(scene.resume, node)
        bit = _kept_out(scene, chosen, parameters.patience_s) and _held(scene, parameters, chosen)
    return _evidence("followers-throttled", scene, tuple(chosen), bit=bit)


def crash_leader_alone_in_isr(scene: Scene, parameters: ShrunkParameters) -> FaultEvidence:
    """Shrink the ISR to the leader, kill it, let the followers go on; it bit when the partition lost its leader."""
    return _crash_alone("isr-shrunk-leader-crash", scene, parameters, force=False)


def elect_uncleanly(scene: Scene, parameters: ShrunkParameters) -> FaultEvidence:
    """The same, and have a leader elected that is out of sync; it bit when one was."""
    return _crash_alone("unclean-election", scene, parameters, force=True)


def _crash_alone(kind: str, scene: Scene, parameters: ShrunkParameters, *, force: bool) -> FaultEvidence:
    scene.until(parameters.at_s)
    leader, (*others, last) = scene.leader(), followers_of(scene, scene.partition())
    with scene.striking(leader, *others, last) as healing:
        set_quotas(scene, healing)
        for node in (*others, last):
            healing.callback(scene.resume, node)
        alone = _left_alone(scene, leader, others, last, parameters.patience_s) and _stayed_alone(scene, leader, parameters.alone_s)
        bit = alone and _crash(scene, leader, last, parameters, healing, force=force)
    return _evidence(kind, scene, (leader, *others, last), bit=bit)


def _crash(scene: Scene, leader: int, last: int, parameters: ShrunkParameters, healing: ExitStack, *, force: bool) -> bool:  # noqa: PLR0913 - of one course
    """Kill the leader while the last follower stands still, so that nobody can catch up between the two."""
    end = scene.cluster.log_end_offsets(scene.topic).get(OBSERVED_PARTITION)
    healing.callback(scene.start, leader)
    scene.kill(leader)
    killed_s = scene.since_load_began_s() - scene.after_s
    scene.resume(last)
    if not scene.noticed(lambda: leader_left(scene, leader), parameters.patience_s):
        return False
    free_topic(scene)
    forced = _force(scene) if force else True
    _tell_who_leads(scene, end)
    scene.until(killed_s + parameters.restart_after_s)
    return forced


def _force(scene: Scene) -> bool:
    """Have a leader elected whatever it lacks; say whether that was needed."""
    eligible = eligible_now(scene)
    with asking():
        needless = elect(scene.cluster.admin_servers, scene.topic, OBSERVED_PARTITION, unclean=True)
    if needless:
        scene.saw(f"no unclean election was needed: the partition has a leader, chosen from those that Kafka knows to have all that is committed ({needless})")
        return False
    scene.saw(f"an unclean election was asked for and held; eligible without it: {nodes_in_words(eligible) or 'nobody'}")
    return True


def _tell_who_leads(scene: Scene, ended_at: int | None) -> None:
    state = observed(scene)
    if state.leader is None:
        scene.saw(f"nobody leads the partition; eligible: {nodes_in_words(eligible_now(scene)) or 'nobody'}")
        return
    scene.saw(f"node {state.leader} leads in epoch {state.leader_epoch}; the dead leader's log had ended at offset {ended_at} or behind it")


def _left_alone(scene: Scene, leader: int, others: list[int], last: int, patience_s: float) -> bool:
    """Put the followers out, the last one to stand still; again where one came back meanwhile, for only one at a time can stand still and leave a majority."""
    ends_s = scene.since_load_began_s() + patience_s
    while _kept_out(scene, others, patience_s) and _put_out(scene, last, patience_s):
        if _soon(scene, lambda isr: isr == (leader,)):
            return True
        scene.resume(last)
        if scene.since_load_began_s() > ends_s:
            break
    scene.saw(f"the ISR was {nodes_in_words(in_sync_now(scene))} when no more was tried")
    return False


def _kept_out(scene: Scene, nodes: list[int], patience_s: float) -> bool:
    """Put followers out and let them go; again with whoever came back with what it had been sent before the quota held, say whether all stay out."""
    ends_s = scene.since_load_began_s() + patience_s
    while _soon(scene, lambda isr: set(nodes) & set(isr)):
        if scene.since_load_began_s() > ends_s or not all(_put_out_and_let_go(scene, node, patience_s) for node in nodes if node in in_sync_now(scene)):
            return False
    return True


def _soon(scene: Scene, look: Callable[[tuple[int, ...]], object]) -> bool:
    """Say whether the ISR was so within the time in which one who comes back has come back."""
    try:
        scene.wait(lambda: look(in_sync_now(scene)), awaiting="the ISR to change", timeout_s=_COMES_BACK_S)
    except WaitTimeout:
        return False
    return True


def _put_out_and_let_go(scene: Scene, node: int, patience_s: float) -> bool:
    out = _put_out(scene, node, patience_s)
    scene.resume(node)
    return out


def _put_out(scene: Scene, node: int, patience_s: float) -> bool:
    try:
        put_out(scene, node, patience_s)
    except WaitTimeout:
        scene.saw(f"node {node} stood still for {patience_s:g} s and was in the ISR all the same")
        return False
    return True


def _stayed_alone(scene: Scene, leader: int, alone_s: float) -> bool:
    """Let the leader be alone for a while; say whether it was to the end."""
    let_pass(scene, alone_s)
    isr, eligible = in_sync_now(scene), eligible_now(scene)
    scene.saw(f"the ISR was {nodes_in_words(isr)} when the leader was about to die; eligible beside it: {nodes_in_words(eligible) or 'nobody'}")
    return isr == (leader,)


def _held(scene: Scene, parameters: ThrottledParameters, chosen: list[int]) -> bool:
    """Hold followers back for a while; say whether they stayed out of the ISR though their brokers were up."""
    began = scene.cluster.log_end_offsets(scene.topic).get(OBSERVED_PARTITION, 0)
    let_pass(scene, parameters.held_s)
    isr, end = in_sync_now(scene), scene.cluster.log_end_offsets(scene.topic).get(OBSERVED_PARTITION, 0)
    up = [node for node in chosen if node in scene.state().brokers]
    ran = nodes_in_words(tuple(up)) or "none"
    grew = f"{parameters.held_s:g} s later the leader's log was {end - began} records longer"
    scene.saw(f"{grew}, the ISR {nodes_in_words(isr)}, and of those held back {ran} ran")
    return len(up) == len(chosen) and not set(chosen) & set(isr)


def _evidence(kind: str, scene: Scene, targets: tuple[int, ...], *, bit: bool) -> FaultEvidence:
    return FaultEvidence(kind=kind, targets=targets, bit=bit, evidence=tuple(scene.facts))


def _nature_of_throttled(kind: str, parameters: ThrottledParameters, shape: Shape) -> Nature:
    """With more partitions a follower of one may lead another, and its pause takes it from there."""
    heals_ms = parameters.held_s * 1000
    return Nature(
        kind=kind,
        out_of_step=parameters.followers,
        strikes_leader=shape.partitions > 1,
        heals_after_ms=heals_ms,
        heals_within_ms=heals_ms + (parameters.followers + 1) * parameters.patience_s * 1000,
    )


def _nature_of_shrunk(kind: str, parameters: ShrunkParameters, shape: Shape) -> Nature:
    heals_ms, followers = (parameters.alone_s + parameters.restart_after_s) * 1000, shape.replication_factor - 1
    return Nature(
        kind=kind,
        kills=1,
        out_of_step=followers,
        strikes_leader=True,
        heals_after_ms=heals_ms,
        heals_within_ms=heals_ms + (followers + 2) * parameters.patience_s * 1000,
    )


def _nature_of_unclean(kind: str, parameters: ShrunkParameters, shape: Shape) -> Nature:
    return _nature_of_shrunk(kind, parameters, shape).model_copy(update={"elects_uncleanly": True})


KINDS: Final = (
    FaultKind(
        "followers-throttled",
        FAMILY,
        "followers fall out of the ISR and Kafka's replication quotas keep them from catching up",
        ThrottledParameters,
        throttle_followers,
        _nature_of_throttled,
    ),
    FaultKind(
        "isr-shrunk-leader-crash",
        FAMILY,
        "the followers are held out of the ISR until the leader is alone in it, the leader is killed, the followers go on",
        ShrunkParameters,
        crash_leader_alone_in_isr,
        _nature_of_shrunk,
    ),
    FaultKind(
        "unclean-election",
        FAMILY,
        "the same, and a leader is elected that was out of sync (ElectLeaders, unclean)",
        ShrunkParameters,
        elect_uncleanly,
        _nature_of_unclean,
    ),
)
