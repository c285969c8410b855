"""Faults of followers that are out of sync, and of a leader that crashes while they are.

What they can lose: KIP-101 (an old leader truncates its log to the new leader's epoch), KIP-106
(unclean leader election), KIP-966 (eligible leader replicas).

Followers are kept out of the ISR, while their nodes run, by Kafka's replication quotas (KIP-73).
Kafka never throttles a follower that is in sync (`RemoteLeaderEndPoint.shouldFollowerThrottle`,
`ReplicaManager.shouldLeaderThrottle`): the quotas are for followers that catch up. So a follower is
paused (SIGSTOP) until the leader has removed it from the ISR, and is resumed with a quota too small
to catch up. This requires a high watermark that advances without it: with fewer replicas in sync
than `min.insync.replicas` it does not (KIP-966), every follower that has all records below it
counts as in sync, and so the follower rejoins the ISR.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Final

from pydantic import Field

from ackbench.experiments.ledger.trial_manifest import FaultEvidence
from ackbench.experiments.messages.phrases import format_list
from ackbench.experiments.trial.clients.librdkafka.admin import alter_configs, elect_leader
from ackbench.experiments.trial.faults.core import (
    OBSERVED_PARTITION,
    FaultContext,
    FaultKind,
    FaultParameters,
    Seconds,
)
from ackbench.experiments.trial.faults.core.effects import FaultEffects, Topology
from ackbench.experiments.trial.faults.core.evidence import (
    refusals_as_missed,
    wait_for_leader_change,
)
from ackbench.infra.cluster.replicas import leader_candidates
from ackbench.infra.errors import HarnessError, WaitTimeout
from ackbench.infra.kafka.spec import PartitionState
from ackbench.infra.process.waiting import wait_until

FAMILY: Final = "replication"
_NO_FOLLOWER: Final = "replication.factor 1 has no follower"


# Parameters


class ThrottledParameters(FaultParameters):
    """Followers are taken out of the ISR and throttled."""

    followers: int = Field(default=1, ge=1, le=8, description="how many followers are throttled")
    held_s: Seconds = Field(
        default=4.0, description="how long, once they are out of the ISR, seconds"
    )
    patience_s: Seconds = Field(
        default=15.0, description="how long each may take to leave the ISR, seconds"
    )

    def heals_at_s(self) -> float:
        """Return when the quotas are removed, if the followers left the ISR at once."""
        return self.at_s + self.held_s

    def impossible_reason(self, topology: Topology) -> str | None:
        """Refuse topics with fewer followers."""
        if topology.replication_factor == 1:
            return _NO_FOLLOWER
        available = topology.replication_factor - 1
        if self.followers <= available:
            return None
        return (
            f"followers is {self.followers}; allowed: at most {available},"
            f" as replication.factor is {topology.replication_factor}"
        )


class ShrunkParameters(FaultParameters):
    """The ISR shrinks to the leader, and the leader crashes."""

    alone_s: Seconds = Field(
        default=1.0,
        description="how long the leader is alone in the ISR before it crashes, seconds",
    )
    restart_after_s: Seconds = Field(
        default=6.0, description="from the crash to the restart at the earliest, seconds"
    )
    patience_s: Seconds = Field(
        default=15.0,
        description="how long each follower may take to leave the ISR, and the cluster to react to"
        " the leader's crash, seconds",
    )

    def heals_at_s(self) -> float:
        """Return when the leader is started again, if the followers left the ISR at once."""
        return self.at_s + self.alone_s + self.restart_after_s

    def impossible_reason(self, topology: Topology) -> str | None:
        """Refuse topics without followers."""
        return _NO_FOLLOWER if topology.replication_factor == 1 else None


# The faults


def throttle_followers(context: FaultContext, parameters: ThrottledParameters) -> FaultEvidence:
    """Take followers out of the ISR and throttle them.

    It took effect if they stayed out of the ISR until the end while their nodes ran.
    """
    context.sleep_until(parameters.at_s)
    followers = _followers(context, context.partition_with_leader())[: parameters.followers]
    with context.injected(*followers) as heals:
        _set_quotas(context, heals)
        for node in followers:
            heals.callback(context.resume, node)
        took_effect = _take_out(context, followers, parameters.patience_s) and _stayed_out(
            context, parameters, followers
        )
    return context.fault_evidence(followers, took_effect=took_effect)


def crash_leader_alone_in_isr(context: FaultContext, parameters: ShrunkParameters) -> FaultEvidence:
    """Shrink the ISR to the leader, crash it, and resume the followers.

    It took effect if the partition lost its leader.
    """
    return _crash_leader_alone(context, parameters, unclean_election=False)


def force_unclean_election(context: FaultContext, parameters: ShrunkParameters) -> FaultEvidence:
    """Crash the leader as `crash_leader_alone_in_isr` does, and request an unclean election.

    It took effect if a replica that was out of sync was elected.
    """
    return _crash_leader_alone(context, parameters, unclean_election=True)


def _crash_leader_alone(
    context: FaultContext, parameters: ShrunkParameters, *, unclean_election: bool
) -> FaultEvidence:
    context.sleep_until(parameters.at_s)
    leader = context.leader()
    *others, last = followers = _followers(context, context.partition_with_leader())
    with context.injected(leader, *followers) as heals:
        _set_quotas(context, heals)
        for node in followers:
            heals.callback(context.resume, node)
        alone = _isolate_in_isr(context, leader, others, last, parameters.patience_s)
        took_effect = (
            alone
            and _stayed_alone(context, leader, parameters.alone_s)
            and _crash_leader(
                context, leader, last, parameters, heals, unclean_election=unclean_election
            )
        )
    return context.fault_evidence((leader, *followers), took_effect=took_effect)


def _crash_leader(
    context: FaultContext,
    leader: int,
    last: int,
    parameters: ShrunkParameters,
    heals: ExitStack,
    *,
    unclean_election: bool,
) -> bool:
    """Crash the leader while the last follower is paused: no follower can catch up in between.

    Returns:
        Whether the partition lost its leader and, if requested, an unclean election was held.
    """
    end_offset = context.cluster.log_end_offsets(context.topic).get(OBSERVED_PARTITION)
    heals.callback(context.start, leader)
    context.kill(leader)
    crashed_s = context.load_elapsed_s() - context.origin_s
    context.resume(last)
    if not wait_for_leader_change(context, leader, parameters.patience_s):
        return False
    _remove_topic_quotas(context)
    took_effect = _elect_uncleanly(context) if unclean_election else True
    _report_leader(context, end_offset)
    context.sleep_until(crashed_s + parameters.restart_after_s)
    return took_effect


def _elect_uncleanly(context: FaultContext) -> bool:
    """Request an unclean election; return whether one was held."""
    eligible = _eligible_leaders(context)
    with refusals_as_missed():
        not_needed = elect_leader(
            context.cluster.admin_servers, context.topic, OBSERVED_PARTITION, unclean=True
        )
    if not_needed:
        context.add_evidence(
            "no unclean election was needed: the partition has a leader, elected from replicas that"
            f" have all committed records ({not_needed})"
        )
        return False
    context.add_evidence(
        f"an unclean election was held on request; eligible leader replicas: {_ids(eligible)}"
    )
    return True


def _report_leader(context: FaultContext, end_offset: int | None) -> None:
    partition = context.current_partition()
    if partition.leader is None:
        context.add_evidence(
            "the partition had no leader; eligible leader replicas:"
            f" {_ids(_eligible_leaders(context))}"
        )
        return
    context.add_evidence(
        f"node {partition.leader} leads in epoch {partition.leader_epoch};"
        f" the crashed leader's log ended at offset {end_offset} or later"
    )


def _stayed_out(
    context: FaultContext, parameters: ThrottledParameters, followers: Sequence[int]
) -> bool:
    """Wait while the followers are throttled.

    Returns whether they stayed out of the ISR while their brokers ran.
    """
    begin_offset = context.cluster.log_end_offsets(context.topic).get(OBSERVED_PARTITION, 0)
    context.sleep(parameters.held_s)
    isr = _isr(context)
    end_offset = context.cluster.log_end_offsets(context.topic).get(OBSERVED_PARTITION, 0)
    live = context.cluster_state().brokers
    running = [node for node in followers if node in live]
    context.add_evidence(
        f"{parameters.held_s:g} s later the leader's log was {end_offset - begin_offset} records"
        f" longer, the ISR was {_ids(isr)}, and of the throttled followers {_ids(running)} ran"
    )
    return len(running) == len(followers) and not set(followers) & set(isr)


def _stayed_alone(context: FaultContext, leader: int, alone_s: float) -> bool:
    """Wait while the leader is alone in the ISR; return whether it was until the end."""
    context.sleep(alone_s)
    isr, eligible = _isr(context), _eligible_leaders(context)
    context.add_evidence(
        f"the ISR was {_ids(isr)} just before the leader crashed;"
        f" other eligible leader replicas: {_ids(eligible)}"
    )
    return isr == (leader,)


# Followers taken out of the ISR

_ISR_RETURN_S: Final = 1.5
"""A follower that rejoins the ISR does so with its first fetch requests, within this time."""


def _isolate_in_isr(
    context: FaultContext, leader: int, others: Sequence[int], last: int, patience_s: float
) -> bool:
    """Take all followers out of the ISR; the last one stays paused.

    This is repeated if a follower has come back in the meantime: they cannot all be paused, as a
    majority of the nodes must run.

    Returns:
        Whether the leader is alone in the ISR.
    """
    give_up_s = context.load_elapsed_s() + patience_s
    while _take_out(context, others, patience_s) and _pause_out(context, last, patience_s):
        if _isr_becomes(context, lambda isr: isr == (leader,)):
            return True
        context.resume(last)
        if context.load_elapsed_s() > give_up_s:
            break
    context.add_evidence(
        f"the ISR was {_ids(_isr(context))} when the attempt was given up:"
        " the leader was never alone in it"
    )
    return False


def _take_out(context: FaultContext, followers: Sequence[int], patience_s: float) -> bool:
    """Take followers out of the ISR and resume them; return whether all stay out.

    This is repeated for those that come back with what the leader had sent them before the quota
    took effect.
    """
    give_up_s = context.load_elapsed_s() + patience_s
    while _isr_becomes(context, lambda isr: set(followers) & set(isr)):
        if context.load_elapsed_s() > give_up_s:
            return False
        for node in followers:
            if node in _isr(context):
                out = _pause_out(context, node, patience_s)
                context.resume(node)
                if not out:
                    return False
    return True


def _pause_out(context: FaultContext, follower: int, patience_s: float) -> bool:
    """Pause a follower until the ISR does not contain it; return whether that happened in time.

    The follower stays paused. That the ISR shrank earlier does not count: the follower may have
    come back since.
    """

    def isr_without() -> str | None:
        isr = _isr(context)
        return None if follower in isr else _ids(isr)

    context.pause(follower)
    try:
        isr = context.wait_for(
            isr_without, awaiting=f"the ISR without node {follower}", timeout_s=patience_s
        )
    except WaitTimeout:
        context.add_evidence(
            f"node {follower} was paused for {patience_s:g} s and stayed in the ISR"
        )
        return False
    context.add_evidence(
        f"the ISR of partition {OBSERVED_PARTITION} was {isr}, without node {follower},"
        f" {context.elapsed_s():.2f} s after the fault began"
    )
    return True


def _isr_becomes(context: FaultContext, condition: Callable[[tuple[int, ...]], object]) -> bool:
    """Return whether the ISR meets a condition within the time in which followers rejoin it."""
    try:
        context.wait_for(
            lambda: condition(_isr(context)), awaiting="the ISR to change", timeout_s=_ISR_RETURN_S
        )
    except WaitTimeout:
        return False
    return True


def _isr(context: FaultContext) -> tuple[int, ...]:
    """Return the observed partition's ISR as the active controller's broker reports it now."""
    return context.current_partition().isr


def _eligible_leaders(context: FaultContext) -> tuple[int, ...]:
    """Return the observed partition's eligible leader replicas (KIP-966).

    Empty if Kafka is too old to report them.
    """
    for choice in leader_candidates(context.cluster.status(), context.topic):
        if choice.partition == OBSERVED_PARTITION:
            return choice.eligible
    return ()


def _followers(context: FaultContext, partition: PartitionState) -> tuple[int, ...]:
    """Return the followers in the order in which to take them out of the ISR.

    The active controller's node is the last, as its pause causes an election.
    """
    controller = context.cluster_state().controller
    followers = [node for node in partition.replicas if node != partition.leader]
    return tuple(sorted(followers, key=lambda node: node == controller))


# Replication quotas

_RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
_REPLICAS: Final = (
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)
_BYTES_PER_S: Final = "1"
_SET_TIMEOUT_S: Final = 10.0
_REMOVE_TIMEOUT_S: Final = 60.0
_REMOVE_REQUEST_TIMEOUT_S: Final = 3.0
_QUOTA_WINDOW_S: Final = 1.0
"""A sample window of the quota: after it, replication has used the quota up."""


def _set_quotas(context: FaultContext, heals: ExitStack) -> None:
    """Throttle followers that are out of sync, on all nodes; return once the quota is used up."""
    nodes = context.cluster.node_ids()
    heals.callback(_remove_quotas, context, nodes)
    with refusals_as_missed():
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
    context.add_evidence(
        f"replication quotas of {_BYTES_PER_S} byte/s throttle followers that are out of sync"
    )
    context.sleep(_QUOTA_WINDOW_S)


def _remove_quotas(context: FaultContext, nodes: tuple[int, ...]) -> None:
    """Remove the quotas of the topic and the nodes.

    Each node is asked itself, so this waits for a node that crashed.
    """
    _remove_topic_quotas(context)
    for node in nodes:
        _remove_configs(context, "broker", str(node), _RATES)


def _remove_topic_quotas(context: FaultContext) -> None:
    """Let the topic's followers catch up, whatever the nodes' quotas."""
    _remove_configs(context, "topic", context.topic, _REPLICAS)


def _remove_configs(context: FaultContext, kind: str, name: str, configs: tuple[str, ...]) -> None:
    """Reset configs to their defaults; retry until the broker accepts.

    A client keeps waiting for the broker that it first picked, so each retry uses a new client.
    """
    last_error = ["no request was sent"]

    def removed() -> bool:
        try:
            alter_configs(
                context.cluster.admin_servers,
                kind,
                name,
                dict.fromkeys(configs, None),
                timeout_s=_REMOVE_REQUEST_TIMEOUT_S,
            )
        except HarnessError as error:
            last_error[0] = str(error)
            return False
        return True

    wait_until(
        removed,
        awaiting=f"{kind} {name} without quotas",
        timeout_s=_REMOVE_TIMEOUT_S,
        seen=lambda: last_error[0],
    )


# Evidence and effects


def _ids(nodes: Sequence[int]) -> str:
    return format_list([str(node) for node in nodes]) or "none"


def _throttled_effects(parameters: ThrottledParameters, topology: Topology) -> FaultEffects:
    """Return the effects.

    If there are more partitions, a follower of one may lead another, which moves when it is paused.
    """
    heals_ms = parameters.held_s * 1000
    return FaultEffects(
        followers_out_of_sync=parameters.followers,
        may_affect_leader=topology.partitions > 1,
        heals_after_ms=heals_ms,
        heals_within_ms=heals_ms + (parameters.followers + 1) * parameters.patience_s * 1000,
    )


def _shrunk_effects(parameters: ShrunkParameters, topology: Topology) -> FaultEffects:
    heals_ms = (parameters.alone_s + parameters.restart_after_s) * 1000
    followers = topology.replication_factor - 1
    return FaultEffects(
        nodes_down=1,
        followers_out_of_sync=followers,
        may_affect_leader=True,
        heals_after_ms=heals_ms,
        heals_within_ms=heals_ms + (followers + 2) * parameters.patience_s * 1000,
    )


def _unclean_effects(parameters: ShrunkParameters, topology: Topology) -> FaultEffects:
    return _shrunk_effects(parameters, topology).model_copy(
        update={"forces_unclean_election": True}
    )


KINDS: Final = (
    FaultKind(
        "followers-throttled",
        FAMILY,
        "followers leave the ISR, and Kafka's replication quotas keep them from catching up",
        ThrottledParameters,
        throttle_followers,
        _throttled_effects,
    ),
    FaultKind(
        "isr-shrunk-leader-crash",
        FAMILY,
        "the leader crashes (SIGKILL) while it is alone in the ISR;"
        " the followers run again at once, the leader is started later",
        ShrunkParameters,
        crash_leader_alone_in_isr,
        _shrunk_effects,
        acts_on_stored_records=True,
    ),
    FaultKind(
        "unclean-election",
        FAMILY,
        "the leader crashes (SIGKILL) while it is alone in the ISR,"
        " and an out-of-sync replica is elected on request (ElectLeaders, unclean)",
        ShrunkParameters,
        force_unclean_election,
        _unclean_effects,
        acts_on_stored_records=True,
    ),
)
