"""Faults of the partition of `__consumer_offsets` that has a group's commits; no node fails.

Its leader is the group's coordinator (https://kafka.apache.org/documentation/#design_offsettracking).
When another broker leads it, that broker loads the group and its offsets from the log, and members
find it by FindCoordinator. The moves are those of `moves`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from ackbench.experiments.ledger.trial_manifest import FaultEvidence
from ackbench.experiments.trial.clients.librdkafka.admin import group_coordinator
from ackbench.experiments.trial.faults.core import FaultContext, FaultKind, FaultMissed
from ackbench.experiments.trial.faults.core.effects import FaultEffects, Topology, no_group_reason
from ackbench.experiments.trial.faults.operations.moves import (
    FAMILY,
    MovedParameters,
    MovedPartition,
    move_and_back,
    with_other_first,
    without_leader,
)
from ackbench.experiments.trial.faults.process.coordinators import GROUP
from ackbench.infra.errors import HarnessError
from ackbench.infra.kafka.spec import PartitionState

_FIND_TIMEOUT_S: Final = 5.0


class OffsetsMovedParameters(MovedParameters):
    """The partition with the commits of the first consumer group is moved, and moved back."""

    def impossible_reason(self, topology: Topology) -> str | None:
        """Refuse clusters of one node, and workloads without a consumer group."""
        if topology.nodes == 1:
            return "one node has no other that could be the group's coordinator"
        return no_group_reason(topology)


def change_offsets_leader(
    context: FaultContext, parameters: OffsetsMovedParameters
) -> FaultEvidence:
    """Make a follower of the group's offsets the preferred leader and elect it; later restore it.

    It took effect if the brokers named another coordinator.
    """
    return _move_coordinator(context, parameters, with_other_first)


def reassign_offsets(context: FaultContext, parameters: OffsetsMovedParameters) -> FaultEvidence:
    """Move the coordinator's replica of the group's offsets, or remove it; later restore it.

    It took effect if the brokers named another coordinator.
    """
    return _move_coordinator(
        context, parameters, lambda before: without_leader(before, context.cluster.node_ids())
    )


def _move_coordinator(
    context: FaultContext,
    parameters: OffsetsMovedParameters,
    replicas_of: Callable[[PartitionState], tuple[int, ...]],
) -> FaultEvidence:
    context.sleep_until(parameters.at_s)
    before = context.wait_for_leader(
        partial(GROUP.partition, context), f"the group's partition of {GROUP.topic}"
    )
    replicas = replicas_of(before)
    if replicas[:1] in ((), (before.leader,)):
        raise FaultMissed(
            f"{before.topic}-{before.partition} has no replica that could lead but node "
            f"{before.leader} (offsets.topic.replication.factor)"
        )
    named = _named_coordinator(context)
    if named is None:
        raise FaultMissed("no broker named the coordinator of the group")
    context.add_evidence(
        f"before, the brokers named node {named} as the coordinator of "
        f"{GROUP.coordinated(context)}, whose commits are in {before.topic}-{before.partition}"
    )
    return move_and_back(context, parameters, MovedPartition(before, _coordinator_moved), replicas)


def _coordinator_moved(context: FaultContext, node: int) -> str | None:
    """Return when another node led the partition and the brokers named it as the coordinator."""
    change = GROUP.change(context, node)
    named = _named_coordinator(context) if change else None
    if named is None or named == node:
        return None
    return f"{change}; then the brokers named node {named} as the coordinator"


def _named_coordinator(context: FaultContext) -> int | None:
    """Return the node that the brokers name now; `None`: none, as while another one takes over."""
    group = GROUP.coordinated(context)
    if group is None:
        return None
    try:
        return group_coordinator(context.cluster.admin_servers, group, timeout_s=_FIND_TIMEOUT_S)
    except HarnessError:
        return None


def _effects(parameters: OffsetsMovedParameters, _topology: Topology) -> FaultEffects:
    """Return the times: the topic under test keeps its leaders, and every member runs."""
    away_ms = parameters.away_s * 1000
    return FaultEffects(
        heals_after_ms=away_ms, heals_within_ms=away_ms + parameters.patience_s * 1000
    )


KINDS: Final = (
    FaultKind(
        "offsets-preferred-leader-change",
        FAMILY,
        "a follower becomes the preferred leader of the group's partition of __consumer_offsets,"
        " and so its coordinator; later the first one again",
        OffsetsMovedParameters,
        change_offsets_leader,
        _effects,
    ),
    FaultKind(
        "offsets-reassignment",
        FAMILY,
        "the coordinator's replica of the group's partition of __consumer_offsets is moved to a"
        " node without one, or removed if every node has one; later it is restored",
        OffsetsMovedParameters,
        reassign_offsets,
        _effects,
    ),
)
