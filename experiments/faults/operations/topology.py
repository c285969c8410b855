"""Faults that change what there is: more partitions, another topic of the same name, a node with an empty disk."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from experiments.clients.librdkafka.admin import elect_leader, add_partitions, topic_overrides
from experiments.faults.core import OBSERVED_PARTITION, FaultContext, FaultKind, FaultParameters
from experiments.faults.core.effects import FaultEffects, Topology
from experiments.faults.core.evidence import asking, leader_left
from experiments.faults.core.kind import TrialObservations
from experiments.ledger.record import FaultEvidence
from infra.errors import HarnessError
from infra.kafka.spec import PartitionState
from infra.process.waiting import wait_until

FAMILY: Final = "topology"
DELETED: Final = "topic_deleted"
RECREATED: Final = "topic_recreated"
_RAISED_TIMEOUT_S: Final = 15.0
_BACK_TIMEOUT_S: Final = 60.0
_LOOK_EVERY_S: Final = 0.2


class RaisedParameters(FaultParameters):
    """The topic gets more partitions, and keeps them."""

    to: int = Field(default=6, ge=2, le=1000, description="how many partitions the topic has then")

    def impossible_reason(self, shape: Topology) -> str | None:
        """Partitions are never taken away."""
        return (
            f"to is {self.to}; allowed: more than the {shape.partitions} that the topic has"
            if self.to <= shape.partitions
            else None
        )


class RecreatedParameters(FaultParameters):
    """The topic is deleted and made again."""

    gone_s: float = Field(
        default=1.0, gt=0, le=3600, description="how long there is no such topic, seconds"
    )

    def heals_at_s(self) -> float:
        """Return when it is made again."""
        return self.at_s + self.gone_s


class ReplacedParameters(FaultParameters):
    """A node is killed and comes back with an empty disk."""

    restart_after_s: float = Field(
        default=5.0,
        gt=0,
        le=3600,
        description="from the kill to the restart at the earliest, seconds",
    )
    patience_s: float = Field(
        default=10.0,
        ge=0,
        le=3600,
        description="how much longer it stays down while the cluster has not noticed, seconds",
    )

    def heals_at_s(self) -> float:
        """Return when the node is started again, where the cluster has noticed by then."""
        return self.at_s + self.restart_after_s


def raise_partition_count(context: FaultContext, parameters: RaisedParameters) -> FaultEvidence:
    """Give the topic more partitions; it bit when they had leaders, and, after the trial, when a producer had learned of one."""
    context.until(parameters.at_s)
    before = len(_partitions(context))
    with context.striking():
        with asking():
            add_partitions(context.cluster.admin_servers, context.topic, parameters.to)
            led = context.wait(
                lambda: _all_led(context, parameters.to),
                awaiting=f"{parameters.to} partitions with leaders",
                timeout_s=_RAISED_TIMEOUT_S,
            )
        context.note("fault_effective", f"{len(led)} partitions have leaders")
    context.saw(
        f"the topic had {before} partitions, and {len(led)} with leaders {context.since_begin_s():.2f} s after more were asked for"
    )
    return FaultEvidence(
        kind="partitions-raised", took_effect=len(led) > before, evidence=tuple(context.facts)
    )


def learned_by_a_producer(evidence: FaultEvidence, aftermath: TrialObservations) -> FaultEvidence:
    """Add when the producers' own logs first tell of a partition that had not been there; where they never do, nothing was asked of them."""
    known = {
        event.partition
        for event in aftermath.events
        if aftermath.began_ns is not None
        and event.at_ns < aftermath.began_ns
        and event.kind == "leader_learned"
    }
    new = [
        event
        for event in aftermath.since("leader_learned")
        if event.detail.startswith("producer") and event.partition not in known
    ]
    if not new or aftermath.began_ns is None:
        return _with(
            evidence,
            "no producer learned of a new partition: topic.metadata.refresh.interval.ms is how often they ask",
            took_effect=False,
        )
    after_s = (new[0].at_ns - aftermath.began_ns) / 1e9
    return _with(
        evidence,
        f"a producer learned of a new partition {after_s:.2f} s after the fault began",
        took_effect=evidence.took_effect,
    )


def recreate_topic(context: FaultContext, parameters: RecreatedParameters) -> FaultEvidence:
    """Delete the topic, and make it again as it was; it bit when the topic of that name was seen to be another one."""
    from experiments.clients.librdkafka.topics import delete_topic

    context.until(parameters.at_s)
    with asking():
        was, settings = (
            (context.partition(), *_partitions(context)[1:]),
            topic_overrides(context.cluster.admin_servers, context.topic),
        )
        ended = context.cluster.log_end_offsets(context.topic)
    with context.striking() as healing:
        healing.callback(_make_again, context, was, settings)
        context.note(DELETED, f"id {was[0].topic_id}, log ends {ended}")
        with asking():
            delete_topic(context.cluster.admin_servers, context.topic)
            context.wait(
                lambda: not _partitions(context),
                awaiting=f"a cluster without {context.topic}",
                timeout_s=_RAISED_TIMEOUT_S,
            )
        context.note("fault_effective", "no broker knows the topic")
        context.saw(
            f"the topic was gone {context.since_begin_s():.2f} s after its deletion was asked for; its logs had ended at {ended}"
        )
        context.until(parameters.heals_at_s())
    is_now = context.partition().topic_id
    context.saw(f"the topic {was[0].topic_id} was deleted, and {is_now} has its name now")
    return FaultEvidence(
        kind="topic-recreated", took_effect=is_now != was[0].topic_id, evidence=tuple(context.facts)
    )


def replace_node(context: FaultContext, parameters: ReplacedParameters) -> FaultEvidence:
    """Kill the leader, give it an empty disk, and start it; it bit when the partition lost its leader and the node had none of it."""
    context.until(parameters.at_s)
    leader = context.leader()
    with context.striking(leader) as healing:
        healing.callback(_give_leaders, context, leader)
        healing.callback(context.start, leader)
        context.kill(leader)
        context.lasting(parameters.restart_after_s)
        left = context.noticed(lambda: leader_left(context, leader), parameters.patience_s)
        emptied = _replaced_disk(context, leader)
    return FaultEvidence(
        kind="node-replaced",
        targets=(leader,),
        took_effect=left and emptied,
        evidence=tuple(context.facts),
    )


def _replaced_disk(context: FaultContext, node: int) -> bool:
    disks = context.cluster.disks
    was, had = disks.directory_id(node), disks.replica(node, context.topic, OBSERVED_PARTITION)
    disks.replace(node)
    becomes, has = disks.directory_id(node), disks.replica(node, context.topic, OBSERVED_PARTITION)
    context.note("fault_wipe", f"log folder {was} -> {becomes}", node)
    context.saw(
        f"node {node} has an empty log folder, {becomes} in place of {was}: its log of the partition ended at {had.end_offset}, and {has.end_offset} now"
    )
    return was != becomes and has.size_bytes == 0


def _give_leaders(context: FaultContext, node: int) -> None:
    """Have leaders elected for the partitions that nobody can lead any more, as an operator must who accepts that they are empty.

    A node that comes back from an unclean end leaves the ISR and the eligible leader replicas (KIP-966); of a partition that it alone had, nobody is left.

    Raises:
        WaitTimeout: the node did not come back, or a partition stayed without a leader.
    """
    forced = set[tuple[str, int]]()

    def led() -> bool:
        state = context.cluster.describe()
        lacking = [
            (one.topic, one.partition)
            for one in state.partitions
            if one.leader is None and node in one.replicas
        ]
        if node in state.brokers:
            forced.update(one for one in lacking if _elected(context, *one))
        return node in state.brokers and not lacking

    wait_until(
        led,
        awaiting=f"node {node}, and leaders of its partitions",
        timeout_s=_BACK_TIMEOUT_S,
        every_s=_LOOK_EVERY_S,
    )
    of_topic = sum(topic == context.topic for topic, _ in forced)
    if of_topic:
        context.saw(
            f"{of_topic} partitions of the topic had nobody left who could lead: an unclean election was asked for, as an operator must"
        )


def _elected(context: FaultContext, topic: str, partition: int) -> bool:
    """Say whether a leader was elected uncleanly; a node that is just back may not be found yet, and is asked for again."""
    try:
        return elect_leader(context.cluster.admin_servers, topic, partition, unclean=True) is None
    except HarnessError:
        return False


def _make_again(
    context: FaultContext, was: tuple[PartitionState, ...], settings: dict[str, str]
) -> None:
    """Where it could not be deleted it is there still; where a node is down there may be too few for its replicas, until it is back.

    Raises:
        WaitTimeout: it could not be made in time, with Kafka's last text.
    """
    from experiments.clients.librdkafka.topics import create_topic

    factor, said = len(was[0].replicas), ["nothing was asked"]

    def there() -> bool:
        try:
            if not _partitions(context):
                create_topic(
                    context.cluster.admin_servers,
                    context.topic,
                    partitions=len(was),
                    replication_factor=factor,
                    config=settings,
                )
        except HarnessError as error:
            said[0] = str(error)
            return False
        return True

    wait_until(
        there,
        awaiting=f"the topic {context.topic} again",
        timeout_s=_BACK_TIMEOUT_S,
        every_s=_LOOK_EVERY_S,
        seen=lambda: said[0],
    )
    if any(partition.topic_id != was[0].topic_id for partition in _partitions(context)):
        context.note(RECREATED, f"with {len(was)} partitions and replication factor {factor}")


def _partitions(context: FaultContext) -> tuple[PartitionState, ...]:
    return context.cluster.describe([context.topic]).of(context.topic)


def _all_led(context: FaultContext, count: int) -> tuple[PartitionState, ...] | None:
    led = tuple(partition for partition in _partitions(context) if partition.leader is not None)
    return led if len(led) == count else None


def _with(evidence: FaultEvidence, sentence: str, *, took_effect: bool) -> FaultEvidence:
    return evidence.model_copy(
        update={"evidence": (*evidence.evidence, sentence), "took_effect": took_effect}
    )


def _nature_of_raised(kind: str, _parameters: RaisedParameters, _shape: Topology) -> FaultEffects:
    return FaultEffects(kind=kind)


def _nature_of_recreated(
    kind: str, parameters: RecreatedParameters, _shape: Topology
) -> FaultEffects:
    gone_ms = parameters.gone_s * 1000
    return FaultEffects(
        kind=kind,
        deletes_topic=True,
        may_affect_leader=True,
        heals_after_ms=gone_ms,
        heals_within_ms=gone_ms,
    )


def _nature_of_replaced(
    kind: str, parameters: ReplacedParameters, _shape: Topology
) -> FaultEffects:
    heals_ms = parameters.restart_after_s * 1000
    within_ms = heals_ms + parameters.patience_s * 1000
    return FaultEffects(
        kind=kind,
        nodes_down=1,
        loses_synced_data=True,
        may_affect_leader=True,
        heals_after_ms=heals_ms,
        heals_within_ms=within_ms,
    )


KINDS: Final = (
    FaultKind(
        "partitions-raised",
        FAMILY,
        "the topic gets more partitions",
        RaisedParameters,
        raise_partition_count,
        _nature_of_raised,
        supports_external_cluster=True,
        confirm=learned_by_a_producer,
    ),
    FaultKind(
        "topic-recreated",
        FAMILY,
        "the topic is deleted and made again under its name",
        RecreatedParameters,
        recreate_topic,
        _nature_of_recreated,
    ),
    FaultKind(
        "node-replaced",
        FAMILY,
        "the leader's node is killed and comes back under its number with an empty disk",
        ReplacedParameters,
        replace_node,
        _nature_of_replaced,
        needs_own_cluster=True,
    ),
)
