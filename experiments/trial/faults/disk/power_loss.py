"""Power loss: a node's process and the unsynced data of its disk go at the same moment.

Kafka syncs a segment when it is rolled, on a clean shutdown, and as `flush.messages` and `flush.ms`
require. Everything else is left to the operating system, and durability to replication
(https://kafka.apache.org/documentation/#appvsosflush).

The first section needs root: each node's data is on an image whose file system is shut down; see
`infra/cluster/supervisor.py` and `infra/disk/`. The second section needs no root: it truncates logs
to the recovery point, the worst that a power loss can leave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Final

from ackbench.experiments.ledger.trial_manifest import FaultEvidence
from ackbench.experiments.trial.faults.core import (
    EFFECTIVE,
    OBSERVED_PARTITION,
    FaultContext,
    FaultKind,
    FaultMissed,
)
from ackbench.experiments.trial.faults.core.context import format_nodes
from ackbench.experiments.trial.faults.core.evidence import wait_for_leader_change
from ackbench.experiments.trial.faults.disk.parameters import (
    FAMILY,
    PowerLossParameters,
    power_loss_effects,
    power_loss_everywhere_effects,
    truncation_effects,
    truncation_everywhere_effects,
)
from ackbench.experiments.trial.faults.process.parameters import CrashParameters
from ackbench.infra.cluster.capabilities import Capability
from ackbench.infra.cluster.node import NODE_LOG, node_folder
from ackbench.infra.kafka.replica_files import ReplicaLog
from ackbench.infra.process.log_tail import read_from

TakeDown = Callable[[FaultContext, Sequence[int]], bool]
"""Takes nodes down with the loss of data; returns whether each of them lost data."""


# Common to both sections


class NodeLogTail:
    """What a node appends to its own log (server.log) from now on."""

    LOADING: Final = "] INFO Loading logs from log dirs "
    """Kafka logs this when it begins to load its partitions' logs."""
    STARTED: Final = " Kafka Server started "
    """Kafka logs this when the start is complete."""

    def __init__(self, context: FaultContext, node: int) -> None:
        self._path = node_folder(context.cluster.folder, node) / NODE_LOG
        self._begin_bytes = self._path.stat().st_size

    def first_line_with(self, text: str) -> str | None:
        """Return the first line that contains the text, without its time; `None`: none does."""
        lines = read_from(self._path, self._begin_bytes).splitlines()
        return next((line.partition("] ")[2] or line for line in lines if text in line), None)


def _take_leader_down(
    context: FaultContext, parameters: CrashParameters, take_down: TakeDown
) -> FaultEvidence:
    """Take the observed partition's leader down and start it again.

    It took effect if the node lost data and the partition lost its leader.
    """
    context.sleep_until(parameters.at_s)
    leader = context.leader()
    with context.injected(leader) as heals:
        heals.callback(context.start, leader)
        lost_data = take_down(context, [leader])
        context.sleep_until(parameters.heals_at_s())
        reacted = wait_for_leader_change(context, leader, parameters.patience_s)
    return context.fault_evidence((leader,), took_effect=lost_data and reacted)


def _take_all_down(
    context: FaultContext, parameters: CrashParameters, take_down: TakeDown
) -> FaultEvidence:
    """Take all brokers down at the same moment and start them again.

    It took effect if each lost data.
    """
    context.sleep_until(parameters.at_s)
    nodes = context.cluster.node_ids()
    with context.injected(*nodes) as heals:
        for node in nodes:
            heals.callback(context.start, node)
        lost_data = take_down(context, nodes)
        context.sleep_until(parameters.heals_at_s())
    return context.fault_evidence(nodes, took_effect=lost_data)


def _pause_and_take_down(
    context: FaultContext,
    nodes: Sequence[int],
    description: str,
    take_down: Callable[[Sequence[int]], bool],
) -> bool:
    """Pause nodes, take them down, and report what their logs held before and after.

    They are paused first, so that no node acknowledges a record or reacts while others go down.
    Each stays down until `FaultContext.start`.

    Args:
        context: the fault's context.
        nodes: the nodes; those that are down already are left out.
        description: what is done to them, for the journal and the evidence.
        take_down: leaves them stopped, with their logs as they are then; returns whether it had its
            effect.
    """
    with ExitStack() as locks:
        for node in sorted(nodes):
            locks.enter_context(context.held_nodes.locked(node))
            context.held_nodes.hold(node, "down", context.name)
        running = [node for node in nodes if context.process_state(node) != "stopped"]
        if not running:
            raise FaultMissed(f"no target node ran ({format_nodes(nodes)})")
        for node in running:
            context.note("fault_kill", description, node)
            context.cluster.pause(node)
        before = _replica_logs(context, [node for node in running if _has_replica(context, node)])
        had_effect = take_down(running)
        for node in running:
            context.note(EFFECTIVE, f"{description}: the process has ended", node)
    after = _replica_logs(context, [log.node_id for log in before])
    context.add_evidence(
        f"{format_nodes(running)}: {description} {context.load_elapsed_s():.2f} s into the load"
    )
    for sentence in _losses(before, after):
        context.add_evidence(sentence)
    return had_effect


def _replica_logs(context: FaultContext, nodes: Sequence[int]) -> tuple[ReplicaLog, ...]:
    return tuple(
        context.cluster.disks.replica_log(node, context.topic, OBSERVED_PARTITION) for node in nodes
    )


def _has_replica(context: FaultContext, node: int) -> bool:
    return (context.cluster.disks.log_dir(node) / f"{context.topic}-{OBSERVED_PARTITION}").is_dir()


def _losses(before: Sequence[ReplicaLog], after: Sequence[ReplicaLog]) -> Iterator[str]:
    for was, now in zip(before, after, strict=True):
        recovery_point = (
            "it had written no recovery point"
            if was.recovery_point is None
            else f"its recovery point was {was.recovery_point}"
        )
        old_end, new_end = (
            f"offset {log.end_offset} ({log.size_bytes} bytes)" for log in (was, now)
        )
        yield (
            f"node {was.node_id}'s log of partition {OBSERVED_PARTITION} ended at {old_end} before"
            f" and at {new_end} after: {was.end_offset - now.end_offset} records lost;"
            f" {recovery_point}"
        )


# Power loss: the file systems of the nodes' images are shut down

_POWER_LOSS: Final = "power lost"
_LOADING_TIMEOUT_S: Final = 60.0
_REQUIRED: Final = frozenset({Capability.DISK_IMAGES})


def leader_loses_power(context: FaultContext, parameters: PowerLossParameters) -> FaultEvidence:
    """Cut the power of the observed partition's leader.

    It took effect if its disk lost unsynced data and the partition lost its leader.
    """
    return _take_leader_down(context, parameters, _lose_power)


def all_lose_power(context: FaultContext, parameters: PowerLossParameters) -> FaultEvidence:
    """Cut the power of all nodes at the same moment.

    It took effect if each disk lost unsynced data.
    """
    return _take_all_down(context, parameters, _lose_power)


def leader_loses_power_in_recovery(
    context: FaultContext, parameters: PowerLossParameters
) -> FaultEvidence:
    """Cut the leader's power, start it, and cut its power again while it loads its logs.

    It took effect if the disk lost unsynced data both times, the partition lost its leader, and the
    node's start was not complete at the second power loss.
    """
    context.sleep_until(parameters.at_s)
    leader = context.leader()
    with context.injected(leader) as heals:
        heals.callback(context.start, leader)
        lost_data = _lose_power(context, [leader])
        context.sleep_until(parameters.heals_at_s())
        reacted = wait_for_leader_change(context, leader, parameters.patience_s)
        log = NodeLogTail(context, leader)
        context.start(leader)
        context.wait_for(
            lambda: log.first_line_with(NodeLogTail.LOADING),
            awaiting=f"node {leader} to load its logs",
            timeout_s=_LOADING_TIMEOUT_S,
        )
        lost_data_again = _lose_power(context, [leader])
        in_recovery = log.first_line_with(NodeLogTail.STARTED) is None
        context.add_evidence(
            f"node {leader} was loading its logs when it lost power again"
            if in_recovery
            else f"node {leader} had completed its start when it lost power again"
        )
    return context.fault_evidence(
        (leader,), took_effect=lost_data and reacted and lost_data_again and in_recovery
    )


def _lose_power(context: FaultContext, nodes: Sequence[int]) -> bool:
    """Cut the power of nodes; return whether each disk lost unsynced data."""

    def take_down(running: Sequence[int]) -> bool:
        lost_data = context.cluster.disks.lose_power(running)
        for node in running:
            context.add_evidence(
                f"node {node}'s disk lost a file that had just been written and not synced"
                if node in lost_data
                else f"node {node}'s disk lost nothing"
            )
        return lost_data == set(running)

    return _pause_and_take_down(context, nodes, _POWER_LOSS, take_down)


# Logs truncated to the recovery point: the worst case of a power loss, without root
#
# Nodes crash, and each of their logs is truncated to `recovery-point-offset-checkpoint`. Kafka
# writes this file once a minute, so for a topic of a short trial it is the start of the log. A real
# power loss keeps all synced data, and also what the kernel had written back on its own.

_TRUNCATION: Final = (
    "crashed, and its logs truncated to their recovery points:"
    " the worst case of a power loss, not a real one"
)


def truncate_leader(context: FaultContext, parameters: CrashParameters) -> FaultEvidence:
    """Crash the leader and truncate its logs.

    It took effect if it lost data and the partition lost its leader.
    """
    return _take_leader_down(context, parameters, _truncate)


def truncate_all(context: FaultContext, parameters: CrashParameters) -> FaultEvidence:
    """Crash all nodes at the same moment and truncate their logs.

    It took effect if each lost data.
    """
    return _take_all_down(context, parameters, _truncate)


def _truncate(context: FaultContext, nodes: Sequence[int]) -> bool:
    """Crash nodes and truncate their logs; return whether each lost data."""
    disks, lost_bytes = context.cluster.disks, list[int]()

    def take_down(running: Sequence[int]) -> bool:
        for node in running:
            context.cluster.kill(node)
        lost_bytes.extend(disks.truncate_to_recovery_points(node) for node in running)
        return all(lost_bytes)

    return _pause_and_take_down(context, nodes, _TRUNCATION, take_down)


KINDS: Final = (
    FaultKind(
        "leader-power-loss",
        FAMILY,
        "the leader's node loses power and all data that its disk had not synced;"
        " it is started again later",
        PowerLossParameters,
        leader_loses_power,
        power_loss_effects,
        required_capabilities=_REQUIRED,
        disk="image",
        may_exit="targets",
        needs_own_cluster=True,
    ),
    FaultKind(
        "all-power-loss",
        FAMILY,
        "all nodes lose power at the same moment, and all data that their disks had not synced;"
        " they are started again later",
        PowerLossParameters,
        all_lose_power,
        power_loss_everywhere_effects,
        required_capabilities=_REQUIRED,
        disk="image",
        may_exit="targets",
        needs_own_cluster=True,
    ),
    FaultKind(
        "power-loss-in-recovery",
        FAMILY,
        "the leader's node loses power, is started, and loses power again while it loads its logs",
        PowerLossParameters,
        leader_loses_power_in_recovery,
        power_loss_effects,
        required_capabilities=_REQUIRED,
        disk="image",
        may_exit="targets",
        acts_on_stored_records=True,
        needs_own_cluster=True,
    ),
    FaultKind(
        "leader-recovery-point-cut",
        FAMILY,
        "the leader crashes (SIGKILL) and its logs are truncated to their recovery points:"
        " the worst case of a power loss, without root",
        CrashParameters,
        truncate_leader,
        truncation_effects,
        needs_own_cluster=True,
    ),
    FaultKind(
        "all-recovery-point-cut",
        FAMILY,
        "all nodes crash (SIGKILL) and their logs are truncated to their recovery points:"
        " the worst case of a power loss, without root",
        CrashParameters,
        truncate_all,
        truncation_everywhere_effects,
        needs_own_cluster=True,
    ),
)
