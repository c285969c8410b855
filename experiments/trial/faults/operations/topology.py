"""Faults that change the topology: more partitions, a recreated topic, a replaced node."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from ackbench.experiments.ledger.trial_manifest import FaultEvidence
from ackbench.experiments.trial.clients.librdkafka.admin import (
    add_partitions,
    elect_leader,
    topic_overrides,
)
from ackbench.experiments.trial.faults.core import (
    EFFECTIVE,
    OBSERVED_PARTITION,
    FaultContext,
    FaultKind,
    FaultParameters,
)
from ackbench.experiments.trial.faults.core.effects import FaultEffects, Topology
from ackbench.experiments.trial.faults.core.evidence import (
    refusals_as_missed,
    wait_for_leader_change,
)
from ackbench.experiments.trial.faults.core.kind import Seconds, TrialObservations, extend_evidence
from ackbench.experiments.trial.faults.process.parameters import CrashParameters, crash_effects
from ackbench.infra.errors import HarnessError
from ackbench.infra.kafka.spec import PartitionState
from ackbench.infra.process.waiting import wait_until

FAMILY: Final = "topology"
DELETED: Final = "topic_deleted"
"""Event: the deletion of the topic was requested."""
RECREATED: Final = "topic_recreated"
"""Event: the topic was created again."""
_CHANGE_TIMEOUT_S: Final = 15.0
"""How long a change may take once the load has ended."""
_HEAL_TIMEOUT_S: Final = 60.0
_POLL_S: Final = 0.2


def _partitions(context: FaultContext) -> tuple[PartitionState, ...]:
    return context.cluster.describe([context.topic]).of(context.topic)


# More partitions


class RaisedParameters(FaultParameters):
    """The topic gets more partitions, and keeps them."""

    to: int = Field(
        default=6, ge=2, le=1000, description="how many partitions the topic has afterwards"
    )

    def impossible_reason(self, topology: Topology) -> str | None:
        """Refuse a lower number: Kafka never removes partitions."""
        if self.to > topology.partitions:
            return None
        return f"to is {self.to}; allowed: more than the {topology.partitions} that the topic has"


def raise_partition_count(context: FaultContext, parameters: RaisedParameters) -> FaultEvidence:
    """Add partitions to the topic.

    It took effect if they had leaders and, by its log after the trial, a producer learned of one.
    """
    context.sleep_until(parameters.at_s)
    before = len(_partitions(context))
    with context.injected():
        with refusals_as_missed():
            add_partitions(context.cluster.admin_servers, context.topic, parameters.to)
            led = context.wait_for(
                lambda: _all_with_leader(context, parameters.to),
                awaiting=f"{parameters.to} partitions with leaders",
                timeout_s=context.at_least_while_loaded(_CHANGE_TIMEOUT_S),
            )
        context.note(EFFECTIVE, f"{len(led)} partitions have leaders")
    context.add_evidence(
        f"the topic had {before} partitions, and {len(led)} with leaders"
        f" {context.elapsed_s():.2f} s after more were requested"
    )
    return context.fault_evidence(took_effect=len(led) > before)


def _all_with_leader(context: FaultContext, count: int) -> tuple[PartitionState, ...] | None:
    led = tuple(partition for partition in _partitions(context) if partition.leader is not None)
    return led if len(led) == count else None


def require_known_by_producer(
    evidence: FaultEvidence, observations: TrialObservations
) -> FaultEvidence:
    """Return the evidence with the time at which a producer first logged one of the new partitions.

    If none did, the fault had no effect: producers sent as before.
    """
    began_ns = observations.began_ns
    known = {
        event.partition
        for event in observations.events
        if began_ns is not None and event.at_ns < began_ns and event.kind == "leader_learned"
    }
    new = [
        event
        for event in observations.since("leader_learned")
        if event.detail.startswith("producer") and event.partition not in known
    ]
    if not new or began_ns is None:
        return extend_evidence(
            evidence,
            "no producer learned of a new partition"
            " (producers refresh metadata every topic.metadata.refresh.interval.ms)",
            took_effect=False,
        )
    after_s = (new[0].at_ns - began_ns) / 1e9
    return extend_evidence(
        evidence, f"a producer learned of a new partition {after_s:.2f} s after the fault began"
    )


def _raised_effects(_parameters: RaisedParameters, _topology: Topology) -> FaultEffects:
    return FaultEffects(adds_partitions=True)


# A recreated topic


class RecreatedParameters(FaultParameters):
    """The topic is deleted and created again."""

    gone_s: Seconds = Field(default=1.0, description="how long the topic does not exist, seconds")

    def heals_at_s(self) -> float:
        """Return when the topic is created again."""
        return self.at_s + self.gone_s


def recreate_topic(context: FaultContext, parameters: RecreatedParameters) -> FaultEvidence:
    """Delete the topic, and create it again with the same partitions, replicas and configs.

    It took effect if the topic of that name has another id afterwards.
    """
    from ackbench.experiments.trial.clients.librdkafka.topics import delete_topic

    context.sleep_until(parameters.at_s)
    with refusals_as_missed():
        before = (context.partition_with_leader(), *_partitions(context)[1:])
        configs = topic_overrides(context.cluster.admin_servers, context.topic)
        end_offsets = context.cluster.log_end_offsets(context.topic)
    old_id = before[0].topic_id
    with context.injected() as heals:
        heals.callback(_recreate, context, before, configs)
        context.note(DELETED, f"id {old_id}, log ends {end_offsets}")
        with refusals_as_missed():
            delete_topic(context.cluster.admin_servers, context.topic)
            context.wait_for(
                lambda: not _partitions(context),
                awaiting=f"a cluster without {context.topic}",
                timeout_s=context.at_least_while_loaded(_CHANGE_TIMEOUT_S),
            )
        context.note(EFFECTIVE, "no broker knows the topic")
        context.add_evidence(
            f"the topic was deleted {context.elapsed_s():.2f} s after the request;"
            f" its logs had ended at {end_offsets}"
        )
        context.sleep_until(parameters.heals_at_s())
    new_id = context.partition_with_leader().topic_id
    context.add_evidence(f"topic id {old_id} was deleted; the topic of its name is {new_id} now")
    return context.fault_evidence(took_effect=new_id != old_id)


def _recreate(
    context: FaultContext, before: tuple[PartitionState, ...], configs: dict[str, str]
) -> None:
    """Create the topic, unless it still exists because it could not be deleted.

    Retry while too few nodes are up for its replicas.

    Raises:
        WaitTimeout: it could not be created in time; with Kafka's last error.
    """
    from ackbench.experiments.trial.clients.librdkafka.topics import create_topic

    replication_factor = len(before[0].replicas)
    last_error = ["no request was sent"]

    def exists() -> bool:
        try:
            if not _partitions(context):
                create_topic(
                    context.cluster.admin_servers,
                    context.topic,
                    partitions=len(before),
                    replication_factor=replication_factor,
                    config=configs,
                )
        except HarnessError as error:
            last_error[0] = str(error)
            return False
        return True

    wait_until(
        exists,
        awaiting=f"the topic {context.topic} again",
        timeout_s=_HEAL_TIMEOUT_S,
        every_s=_POLL_S,
        seen=lambda: last_error[0],
    )
    if any(partition.topic_id != before[0].topic_id for partition in _partitions(context)):
        context.note(
            RECREATED, f"with {len(before)} partitions and replication factor {replication_factor}"
        )


def _recreated_effects(parameters: RecreatedParameters, _topology: Topology) -> FaultEffects:
    gone_ms = parameters.gone_s * 1000
    return FaultEffects(
        deletes_topic=True, may_affect_leader=True, heals_after_ms=gone_ms, heals_within_ms=gone_ms
    )


# A replaced node


class ReplacedParameters(CrashParameters):
    """A node crashes and comes back with an empty disk."""


def replace_node(context: FaultContext, parameters: ReplacedParameters) -> FaultEvidence:
    """Crash the leader, give it an empty disk, and start it.

    It took effect if the partition lost its leader and the node's replica was empty.
    """
    context.sleep_until(parameters.at_s)
    leader = context.leader()
    with context.injected(leader) as heals:
        heals.callback(_elect_missing_leaders, context, leader)
        heals.callback(context.start, leader)
        context.kill(leader)
        context.sleep_until_lasted(parameters.restart_after_s)
        reacted = wait_for_leader_change(context, leader, parameters.patience_s)
        emptied = _replace_disk(context, leader)
    return context.fault_evidence((leader,), took_effect=reacted and emptied)


def _replace_disk(context: FaultContext, node: int) -> bool:
    """Give a stopped node an empty disk.

    Returns whether its log directory is another one, with an empty replica.
    """
    disks = context.cluster.disks
    old_id = disks.directory_id(node)
    old_log = disks.replica_log(node, context.topic, OBSERVED_PARTITION)
    disks.replace(node)
    new_id = disks.directory_id(node)
    new_log = disks.replica_log(node, context.topic, OBSERVED_PARTITION)
    context.note("fault_wipe", f"log directory {old_id} -> {new_id}", node)
    context.add_evidence(
        f"node {node} has an empty log directory, {new_id} instead of {old_id}: its log of the"
        f" partition ended at {old_log.end_offset}, and at {new_log.end_offset} now"
    )
    return old_id != new_id and new_log.size_bytes == 0


def _elect_missing_leaders(context: FaultContext, node: int) -> None:
    """Request unclean elections for the node's partitions that have no replica left to lead them.

    An administrator must do so, who accepts that they are empty.

    A node that comes back from an unclean shutdown leaves the ISR and the eligible leader replicas
    (KIP-966). A partition whose only replica it was has no candidate left.

    Raises:
        WaitTimeout: the node did not come back, or a partition still has no leader.
    """
    elected = set[tuple[str, int]]()

    def complete() -> bool:
        state = context.cluster.describe()
        leaderless = [
            (partition.topic, partition.partition)
            for partition in state.partitions
            if partition.leader is None and node in partition.replicas
        ]
        if node in state.brokers:
            elected.update(name for name in leaderless if _elect_uncleanly(context, *name))
        return node in state.brokers and not leaderless

    wait_until(
        complete,
        awaiting=f"node {node}, and leaders of its partitions",
        timeout_s=_HEAL_TIMEOUT_S,
        every_s=_POLL_S,
    )
    of_topic = sum(topic == context.topic for topic, _ in elected)
    if of_topic:
        context.add_evidence(
            f"{of_topic} partitions of the topic had no replica left that could lead:"
            " an unclean election was requested, as an administrator would have to"
        )


def _elect_uncleanly(context: FaultContext, topic: str, partition: int) -> bool:
    """Return whether a leader was elected uncleanly.

    The controller may refuse while the node has just come back; the caller tries again.
    """
    try:
        not_needed = elect_leader(context.cluster.admin_servers, topic, partition, unclean=True)
    except HarnessError:
        return False
    return not_needed is None


def _replaced_effects(parameters: ReplacedParameters, topology: Topology) -> FaultEffects:
    return crash_effects(parameters, topology).model_copy(update={"loses_synced_data": True})


KINDS: Final = (
    FaultKind(
        "partitions-raised",
        FAMILY,
        "the topic gets more partitions",
        RaisedParameters,
        raise_partition_count,
        _raised_effects,
        supports_external_cluster=True,
        confirm=require_known_by_producer,
    ),
    FaultKind(
        "topic-recreated",
        FAMILY,
        "the topic is deleted and created again under the same name",
        RecreatedParameters,
        recreate_topic,
        _recreated_effects,
    ),
    FaultKind(
        "node-replaced",
        FAMILY,
        "the leader's node crashes (SIGKILL) and comes back with the same id and an empty disk",
        ReplacedParameters,
        replace_node,
        _replaced_effects,
        needs_own_cluster=True,
    ),
)
