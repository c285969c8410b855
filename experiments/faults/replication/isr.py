"""Faults of replication: followers out of sync, and what follows when the leader then dies.

What each may lose: KIP-101 (an old leader cuts its log to the new one's epoch), KIP-106 (unclean election), KIP-966 (eligible leader replicas).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

from pydantic import Field

from experiments.clients.librdkafka.admin import alter_configs, elect_leader
from experiments.faults.core import OBSERVED_PARTITION, FaultContext, FaultKind, FaultParameters
from experiments.faults.core.effects import FaultEffects, Topology
from experiments.faults.core.evidence import asking, leader_left, observed
from experiments.faults.operations.moves import FAMILY
from experiments.faults.process.actions import nodes_in_words
from experiments.ledger.record import FaultEvidence
from infra.cluster.replicas import leader_choices
from infra.errors import HarnessError, WaitTimeout
from infra.kafka.spec import PartitionState
from infra.process.waiting import wait_until

# ---------- Followers kept out of the ISR while their nodes run: by Kafka's own replication quotas (KIP-73).
#
# Kafka never holds a follower back that is in sync (`RemoteLeaderEndPoint.shouldFollowerThrottle`, `ReplicaManager.shouldLeaderThrottle`): its quotas are
# for those that catch up. So a follower is stopped (SIGSTOP) until the leader has dropped it from the ISR, and goes on with a quota too small to catch up.
# It needs the high watermark to move on without it: with fewer replicas in sync than `min.insync.replicas` that stands still (KIP-966), whoever has all
# below it counts as in sync, and comes back.


_RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
_REPLICAS: Final = (
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)
_BYTES_PER_S: Final = "1"
_SET_TIMEOUT_S: Final = 10.0
_LIFT_TIMEOUT_S: Final = 60.0
_ASK_S: Final = 3.0
"""For one client."""
_FILLS_S: Final = 1.0
"""A window of the quota: then replication itself has used it up."""


def set_quotas(context: FaultContext, healing: ExitStack) -> None:
    """Hold back whoever is out of sync on any node; returns once the quota is used up.

    Raises:
        Missed: a broker refused, or did not answer.
    """
    nodes = context.cluster.node_ids()
    healing.callback(lift_quotas, context, nodes)
    with asking():
        for node in nodes:
            alter_configs(
                context.cluster.admin_servers,
                "broker",
                str(node),
                dict.fromkeys(_RATES, _BYTES_PER_S),
                timeout_s=_SET_TIMEOUT_S,
            )
        alter_configs(
            context.cluster.admin_servers,
            "topic",
            context.topic,
            dict.fromkeys(_REPLICAS, "*"),
            timeout_s=_SET_TIMEOUT_S,
        )
    context.saw(f"replication quotas of {_BYTES_PER_S} byte/s hold back whoever is out of sync")
    let_pass(context, _FILLS_S)


def lift_quotas(context: FaultContext, nodes: tuple[int, ...]) -> None:
    """Take the quotas away. Each node is told itself, so that one that was killed is waited for.

    Raises:
        WaitTimeout: a node was not up in time, or refused.
    """
    free_topic(context)
    for node in nodes:
        _insist(context, "broker", str(node), _RATES)


def free_topic(context: FaultContext) -> None:
    """Let the topic's followers catch up, whatever the nodes' quotas.

    Raises:
        WaitTimeout: nobody took it in time.
    """
    _insist(context, "topic", context.topic, _REPLICAS)


def _insist(context: FaultContext, kind: str, name: str, settings: tuple[str, ...]) -> None:
    """Take settings away; a client waits for the node that it once took for the right one, so another one asks after a while."""
    said = ["nothing was asked"]

    def taken_away() -> bool:
        try:
            alter_configs(
                context.cluster.admin_servers,
                kind,
                name,
                dict.fromkeys(settings, None),
                timeout_s=_ASK_S,
            )
        except HarnessError as error:
            said[0] = str(error)
            return False
        return True

    wait_until(
        taken_away,
        awaiting=f"{kind} {name} without quotas",
        timeout_s=_LIFT_TIMEOUT_S,
        seen=lambda: said[0],
    )


def let_pass(context: FaultContext, seconds: float) -> None:
    """Return so much later.

    Raises:
        GivenUp: as `Scene.until`.
    """
    context.until(context.since_load_began_s() - context.after_s + seconds)


def put_out(context: FaultContext, follower: int, patience_s: float) -> None:
    """Stop a follower until the cluster says that the ISR is without it; it stands still when this returns.

    That the ISR shrank before does not count: the follower may have come back since.

    Raises:
        WaitTimeout: it stayed in the ISR.
    """

    def without() -> str | None:
        isr = in_sync_now(context)
        return None if follower in isr else ",".join(map(str, isr)) or "nobody"

    context.pause(follower)
    left = context.wait(without, awaiting=f"the ISR without node {follower}", timeout_s=patience_s)
    context.saw(
        f"the ISR of partition {OBSERVED_PARTITION} was {left}, without node {follower}, {context.since_begin_s():.2f} s after the fault began"
    )


def followers_of(context: FaultContext, partition: PartitionState) -> tuple[int, ...]:
    """Return the followers in the order in which to put them out: the active controller's node last, for its pause costs an election."""
    controller = context.state().controller
    followers = [node for node in partition.replicas if node != partition.leader]
    return tuple(sorted(followers, key=lambda node: node == controller))


def in_sync_now(context: FaultContext) -> tuple[int, ...]:
    """Return the observed partition's ISR as the active controller's broker knows it."""
    return observed(context).isr


def eligible_now(context: FaultContext) -> tuple[int, ...]:
    """Return who may lead the observed partition though out of sync (KIP-966); nobody, where Kafka is too old to tell."""
    choices = leader_choices(context.cluster.status(), context.topic)
    return next(
        (choice.eligible for choice in choices if choice.partition == OBSERVED_PARTITION), ()
    )


_NO_FOLLOWER: Final = "replication.factor 1 has no follower"
_COMES_BACK_S: Final = 1.5
"""Who comes back does so with its first fetches."""


class ThrottledParameters(FaultParameters):
    """Followers are put out of the ISR and held back."""

    followers: int = Field(default=1, ge=1, le=8, description="how many followers are held back")
    held_s: float = Field(
        default=4.0, gt=0, le=3600, description="how long, once they are out of the ISR, seconds"
    )
    patience_s: float = Field(
        default=15.0, gt=0, le=3600, description="how long each may take to leave the ISR, seconds"
    )

    def heals_at_s(self) -> float:
        """Return when they may catch up, where they left the ISR at once."""
        return self.at_s + self.held_s

    def impossible_reason(self, shape: Topology) -> str | None:
        """There must be so many followers."""
        if shape.replication_factor == 1:
            return _NO_FOLLOWER
        most = shape.replication_factor - 1
        return (
            f"followers is {self.followers}; allowed: at most {most}, as replication.factor is {shape.replication_factor}"
            if self.followers > most
            else None
        )


class ShrunkParameters(FaultParameters):
    """The ISR shrinks to the leader alone, and the leader is killed."""

    alone_s: float = Field(
        default=1.0,
        gt=0,
        le=3600,
        description="how long the leader is alone in the ISR before it dies, seconds",
    )
    restart_after_s: float = Field(
        default=6.0,
        gt=0,
        le=3600,
        description="from the kill to the restart at the earliest, seconds",
    )
    patience_s: float = Field(
        default=15.0,
        gt=0,
        le=3600,
        description="how long each follower may take to leave the ISR, and the leader's death to be noticed",
    )

    def heals_at_s(self) -> float:
        """Return when the leader is started again, where the followers left the ISR at once."""
        return self.at_s + self.alone_s + self.restart_after_s

    def impossible_reason(self, shape: Topology) -> str | None:
        """There must be a follower."""
        return _NO_FOLLOWER if shape.replication_factor == 1 else None


def throttle_followers(context: FaultContext, parameters: ThrottledParameters) -> FaultEvidence:
    """Put followers out of the ISR and hold them back; it bit when they stayed out of it to the end though their nodes ran."""
    context.until(parameters.at_s)
    chosen = list(followers_of(context, context.partition())[: parameters.followers])
    with context.striking(*chosen) as healing:
        set_quotas(context, healing)
        for node in chosen:
            healing.callback(context.resume, node)
        took_effect = _kept_out(context, chosen, parameters.patience_s) and _held(
            context, parameters, chosen
        )
    return _evidence("followers-throttled", context, tuple(chosen), took_effect=took_effect)


def crash_leader_alone_in_isr(context: FaultContext, parameters: ShrunkParameters) -> FaultEvidence:
    """Shrink the ISR to the leader, kill it, let the followers go on; it bit when the partition lost its leader."""
    return _crash_alone("isr-shrunk-leader-crash", context, parameters, force=False)


def elect_uncleanly(context: FaultContext, parameters: ShrunkParameters) -> FaultEvidence:
    """The same, and have a leader elected that is out of sync; it bit when one was."""
    return _crash_alone("unclean-election", context, parameters, force=True)


def _crash_alone(
    kind: str, context: FaultContext, parameters: ShrunkParameters, *, force: bool
) -> FaultEvidence:
    context.until(parameters.at_s)
    leader, (*others, last) = context.leader(), followers_of(context, context.partition())
    with context.striking(leader, *others, last) as healing:
        set_quotas(context, healing)
        for node in (*others, last):
            healing.callback(context.resume, node)
        alone = _left_alone(context, leader, others, last, parameters.patience_s) and _stayed_alone(
            context, leader, parameters.alone_s
        )
        took_effect = alone and _crash(context, leader, last, parameters, healing, force=force)
    return _evidence(kind, context, (leader, *others, last), took_effect=took_effect)


def _crash(
    context: FaultContext,
    leader: int,
    last: int,
    parameters: ShrunkParameters,
    healing: ExitStack,
    *,
    force: bool,
) -> bool:
    """Kill the leader while the last follower stands still, so that nobody can catch up between the two."""
    end = context.cluster.log_end_offsets(context.topic).get(OBSERVED_PARTITION)
    healing.callback(context.start, leader)
    context.kill(leader)
    killed_s = context.since_load_began_s() - context.after_s
    context.resume(last)
    if not context.noticed(lambda: leader_left(context, leader), parameters.patience_s):
        return False
    free_topic(context)
    forced = _force(context) if force else True
    _tell_who_leads(context, end)
    context.until(killed_s + parameters.restart_after_s)
    return forced


def _force(context: FaultContext) -> bool:
    """Have a leader elected whatever it lacks; say whether that was needed."""
    eligible = eligible_now(context)
    with asking():
        needless = elect_leader(
            context.cluster.admin_servers, context.topic, OBSERVED_PARTITION, unclean=True
        )
    if needless:
        context.saw(
            f"no unclean election was needed: the partition has a leader, chosen from those that Kafka knows to have all that is committed ({needless})"
        )
        return False
    context.saw(
        f"an unclean election was asked for and held; eligible without it: {nodes_in_words(eligible) or 'nobody'}"
    )
    return True


def _tell_who_leads(context: FaultContext, ended_at: int | None) -> None:
    state = observed(context)
    if state.leader is None:
        context.saw(
            f"nobody leads the partition; eligible: {nodes_in_words(eligible_now(context)) or 'nobody'}"
        )
        return
    context.saw(
        f"node {state.leader} leads in epoch {state.leader_epoch}; the dead leader's log had ended at offset {ended_at} or behind it"
    )


def _left_alone(
    context: FaultContext, leader: int, others: list[int], last: int, patience_s: float
) -> bool:
    """Put the followers out, the last one to stand still; again where one came back meanwhile, for only one at a time can stand still and leave a majority."""
    ends_s = context.since_load_began_s() + patience_s
    while _kept_out(context, others, patience_s) and _put_out(context, last, patience_s):
        if _soon(context, lambda isr: isr == (leader,)):
            return True
        context.resume(last)
        if context.since_load_began_s() > ends_s:
            break
    context.saw(f"the ISR was {nodes_in_words(in_sync_now(context))} when no more was tried")
    return False


def _kept_out(context: FaultContext, nodes: list[int], patience_s: float) -> bool:
    """Put followers out and let them go; again with whoever came back with what it had been sent before the quota held, say whether all stay out."""
    ends_s = context.since_load_began_s() + patience_s
    while _soon(context, lambda isr: set(nodes) & set(isr)):
        if context.since_load_began_s() > ends_s or not all(
            _put_out_and_let_go(context, node, patience_s)
            for node in nodes
            if node in in_sync_now(context)
        ):
            return False
    return True


def _soon(context: FaultContext, look: Callable[[tuple[int, ...]], object]) -> bool:
    """Say whether the ISR was so within the time in which one who comes back has come back."""
    try:
        context.wait(
            lambda: look(in_sync_now(context)),
            awaiting="the ISR to change",
            timeout_s=_COMES_BACK_S,
        )
    except WaitTimeout:
        return False
    return True


def _put_out_and_let_go(context: FaultContext, node: int, patience_s: float) -> bool:
    out = _put_out(context, node, patience_s)
    context.resume(node)
    return out


def _put_out(context: FaultContext, node: int, patience_s: float) -> bool:
    try:
        put_out(context, node, patience_s)
    except WaitTimeout:
        context.saw(f"node {node} stood still for {patience_s:g} s and was in the ISR all the same")
        return False
    return True


def _stayed_alone(context: FaultContext, leader: int, alone_s: float) -> bool:
    """Let the leader be alone for a while; say whether it was to the end."""
    let_pass(context, alone_s)
    isr, eligible = in_sync_now(context), eligible_now(context)
    context.saw(
        f"the ISR was {nodes_in_words(isr)} when the leader was about to die; eligible beside it: {nodes_in_words(eligible) or 'nobody'}"
    )
    return isr == (leader,)


def _held(context: FaultContext, parameters: ThrottledParameters, chosen: list[int]) -> bool:
    """Hold followers back for a while; say whether they stayed out of the ISR though their brokers were up."""
    began = context.cluster.log_end_offsets(context.topic).get(OBSERVED_PARTITION, 0)
    let_pass(context, parameters.held_s)
    isr, end = (
        in_sync_now(context),
        context.cluster.log_end_offsets(context.topic).get(OBSERVED_PARTITION, 0),
    )
    up = [node for node in chosen if node in context.state().brokers]
    ran = nodes_in_words(tuple(up)) or "none"
    grew = f"{parameters.held_s:g} s later the leader's log was {end - began} records longer"
    context.saw(f"{grew}, the ISR {nodes_in_words(isr)}, and of those held back {ran} ran")
    return len(up) == len(chosen) and not set(chosen) & set(isr)


def _evidence(
    kind: str, context: FaultContext, targets: tuple[int, ...], *, took_effect: bool
) -> FaultEvidence:
    return FaultEvidence(
        kind=kind, targets=targets, took_effect=took_effect, evidence=tuple(context.facts)
    )


def _nature_of_throttled(
    kind: str, parameters: ThrottledParameters, shape: Topology
) -> FaultEffects:
    """With more partitions a follower of one may lead another, and its pause takes it from there."""
    heals_ms = parameters.held_s * 1000
    return FaultEffects(
        kind=kind,
        followers_out_of_sync=parameters.followers,
        may_affect_leader=shape.partitions > 1,
        heals_after_ms=heals_ms,
        heals_within_ms=heals_ms + (parameters.followers + 1) * parameters.patience_s * 1000,
    )


def _nature_of_shrunk(kind: str, parameters: ShrunkParameters, shape: Topology) -> FaultEffects:
    heals_ms, followers = (
        (parameters.alone_s + parameters.restart_after_s) * 1000,
        shape.replication_factor - 1,
    )
    return FaultEffects(
        kind=kind,
        nodes_down=1,
        followers_out_of_sync=followers,
        may_affect_leader=True,
        heals_after_ms=heals_ms,
        heals_within_ms=heals_ms + (followers + 2) * parameters.patience_s * 1000,
    )


def _nature_of_unclean(kind: str, parameters: ShrunkParameters, shape: Topology) -> FaultEffects:
    return _nature_of_shrunk(kind, parameters, shape).model_copy(
        update={"forces_unclean_election": True}
    )


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
