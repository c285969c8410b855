"""Power loss: a node's process and what its disk had not been told to keep go at one moment. Needs root: each node's data lies on an image.

Kafka syncs on segment roll, on a clean end, and as `flush.messages` and `flush.ms` say; all else is left to the operating system, and durability
to replication (https://kafka.apache.org/documentation/#appvsosflush). How the cut is made: `infra/cluster/supervisor.py`, `infra/disk/`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Final

from experiments.faults.core import OBSERVED_PARTITION, FaultContext, FaultKind, FaultMissed
from experiments.faults.core.evidence import leader_left
from experiments.faults.disk.parameters import (
    FAMILY,
    PowerLossParameters,
    nature_of_cut,
    nature_of_cut_everywhere,
    nature_of_power_loss,
    nature_of_power_loss_everywhere,
)
from experiments.faults.process.parameters import CrashParameters
from experiments.ledger.record import FaultEvidence
from infra.cluster.capabilities import Capability
from infra.cluster.node import LOG, node_folder
from infra.kafka.replica_files import ReplicaLog
from infra.process.log_tail import read_from

# ---------- Nodes that go down together with what their disks had not kept: how they are taken down, and what is read off their logs before and after.


class NodeLogState:
    """What a node writes in its own log from now on."""

    LOADING: Final = "] INFO Loading logs from log dirs "
    STARTED: Final = " Kafka Server started "
    """Kafka's own lines: its logs are about to be loaded, and all is done."""

    def __init__(self, context: FaultContext, node: int) -> None:
        """Begin here."""
        self._path = node_folder(context.cluster.folder, node) / LOG
        self._begin_bytes = self._path.stat().st_size

    def first(self, telltale: str) -> str | None:
        """Return the first line so far that holds a text, without its time; `None`: there is none."""
        lines = read_from(self._path, self._begin_bytes).splitlines()
        return next((line.partition("] ")[2] or line for line in lines if telltale in line), None)


def leader_down(
    kind: str,
    context: FaultContext,
    parameters: CrashParameters,
    deed: Callable[[FaultContext, Sequence[int]], bool],
) -> FaultEvidence:
    """Take the observed partition's leader down and start it again; it bit when the deed had its effect, and the partition lost its leader."""
    context.until(parameters.at_s)
    leader = context.leader()
    with context.striking(leader) as healing:
        healing.callback(context.start, leader)
        done = deed(context, [leader])
        context.until(parameters.heals_at_s())
        left = context.noticed(lambda: leader_left(context, leader), parameters.patience_s)
    return FaultEvidence(
        kind=kind, targets=(leader,), took_effect=done and left, evidence=tuple(context.facts)
    )


def all_down(
    kind: str,
    context: FaultContext,
    parameters: CrashParameters,
    deed: Callable[[FaultContext, Sequence[int]], bool],
) -> FaultEvidence:
    """Take all brokers down at one moment and start them again; it bit when the deed had its effect on each."""
    context.until(parameters.at_s)
    nodes = context.cluster.node_ids()
    with context.striking(*nodes) as healing:
        for node in nodes:
            healing.callback(context.start, node)
        done = deed(context, nodes)
        context.until(parameters.heals_at_s())
    return FaultEvidence(kind=kind, targets=nodes, took_effect=done, evidence=tuple(context.facts))


def take_down(
    context: FaultContext, nodes: Sequence[int], how: str, deed: Callable[[Sequence[int]], bool]
) -> bool:
    """Bring nodes to a stand, take them down by a deed, and keep what their logs held before and after; each stays down until `Scene.start`.

    Args:
        context: where.
        nodes: those that are down already are left out.
        how: what is done to them, for the journal.
        deed: leaves them stopped, their logs as they are then; returns whether it had its effect.

    Raises:
        Missed: none of them runs.
    """
    with ExitStack() as alone:
        for node in sorted(nodes):
            alone.enter_context(context.held_nodes.alone(node))
            context.held_nodes.take(node, "down", context.name)
        running = [node for node in nodes if context.state_of(node) != "stopped"]
        if not running:
            raise FaultMissed(f"{_nodes(nodes)} was down already")
        for node in running:
            context.note("fault_kill", how, node)
            context.cluster.pause(node)
        before = _logs(context, [node for node in running if _has_replica(context, node)])
        struck = deed(running)
        for node in running:
            context.note("fault_effective", f"{how}: the process is gone", node)
    after = _logs(context, [log.node_id for log in before])
    context.saw(f"{_nodes(running)}: {how} {context.since_load_began_s():.2f} s into the load")
    for sentence in _losses(before, after):
        context.saw(sentence)
    return struck


def _logs(context: FaultContext, nodes: Sequence[int]) -> tuple[ReplicaLog, ...]:
    return tuple(
        context.cluster.disks.replica(node, context.topic, OBSERVED_PARTITION) for node in nodes
    )


def _has_replica(context: FaultContext, node: int) -> bool:
    return (context.cluster.disks.data(node) / f"{context.topic}-{OBSERVED_PARTITION}").is_dir()


def _losses(before: Sequence[ReplicaLog], after: Sequence[ReplicaLog]) -> Iterator[str]:
    for was, now in zip(before, after, strict=True):
        point = (
            "it had noted down no recovery point"
            if was.recovery_point is None
            else f"its recovery point was {was.recovery_point}"
        )
        was_there, is_there = (
            f"offset {log.end_offset} ({log.size_bytes} bytes)" for log in (was, now)
        )
        lost = f"{was.end_offset - now.end_offset} records lost"
        yield f"node {was.node_id}'s log of partition {OBSERVED_PARTITION} ended at {was_there} and comes back up to {is_there}: {lost}; {point}"


def _nodes(ids: Sequence[int]) -> str:
    return ("node " if len(ids) == 1 else "nodes ") + " and ".join(map(str, ids))


_CUT: Final = "power lost"
_RECOVERING_TIMEOUT_S: Final = 60.0


def leader_loses_power(context: FaultContext, parameters: PowerLossParameters) -> FaultEvidence:
    """Cut the power of the observed partition's leader; it bit when its disk lost what was not synced, and the partition lost its leader."""
    return leader_down("leader-power-loss", context, parameters, _lose_power)


def all_lose_power(context: FaultContext, parameters: PowerLossParameters) -> FaultEvidence:
    """Cut the power of all nodes at one moment; it bit when each disk lost what was not synced."""
    return all_down("all-power-loss", context, parameters, _lose_power)


def leader_loses_power_in_recovery(
    context: FaultContext, parameters: PowerLossParameters
) -> FaultEvidence:
    """Cut the leader's power, and once more while it loads its logs again; it bit when the second cut came before it had started."""
    context.until(parameters.at_s)
    leader = context.leader()
    with context.striking(leader) as healing:
        healing.callback(context.start, leader)
        cut = _lose_power(context, [leader])
        context.until(parameters.heals_at_s())
        left = context.noticed(lambda: leader_left(context, leader), parameters.patience_s)
        log = NodeLogState(context, leader)
        context.start(leader)
        context.wait(
            lambda: log.first(NodeLogState.LOADING),
            awaiting=f"node {leader} to load its logs",
            timeout_s=_RECOVERING_TIMEOUT_S,
        )
        again = _lose_power(context, [leader])
        early = log.first(NodeLogState.STARTED) is None
        context.saw(
            "it was loading its logs when power went again"
            if early
            else "it had started when power went again"
        )
    took_effect = cut and left and again and early
    return FaultEvidence(
        kind="power-loss-in-recovery",
        targets=(leader,),
        took_effect=took_effect,
        evidence=tuple(context.facts),
    )


def _lose_power(context: FaultContext, nodes: Sequence[int]) -> bool:
    """Return whether each disk lost what was not synced."""

    def cut(running: Sequence[int]) -> bool:
        lost = context.cluster.disks.lose_power(running)
        for node in running:
            context.saw(
                f"node {node}'s disk lost a file that was written a moment before and not synced"
                if node in lost
                else f"node {node}'s disk lost nothing"
            )
        return lost == set(running)

    return take_down(context, nodes, _CUT, cut)


_ON_IMAGES: Final = frozenset({Capability.DISK_IMAGES})

_POWER_LOSS: Final = (
    FaultKind(
        "leader-power-loss",
        FAMILY,
        "the leader's node loses power: what its disk had not synced is gone; it is started again later",
        PowerLossParameters,
        leader_loses_power,
        nature_of_power_loss,
        required_capabilities=_ON_IMAGES,
        disk="image",
        needs_own_cluster=True,
    ),
    FaultKind(
        "all-power-loss",
        FAMILY,
        "all nodes lose power at one moment: what no disk had synced is gone; they are started again later",
        PowerLossParameters,
        all_lose_power,
        nature_of_power_loss_everywhere,
        required_capabilities=_ON_IMAGES,
        disk="image",
        needs_own_cluster=True,
    ),
    FaultKind(
        "power-loss-in-recovery",
        FAMILY,
        "the leader's node loses power, and once more while it loads its logs",
        PowerLossParameters,
        leader_loses_power_in_recovery,
        nature_of_power_loss,
        required_capabilities=_ON_IMAGES,
        disk="image",
        needs_own_cluster=True,
    ),
)


# ---------- The worst that a power loss may leave, for machines without root: nothing but what the broker had noted down as synced.
#
# A node is killed and each of its logs is cut to `recovery-point-offset-checkpoint`. That note is up to a minute old, so for a topic of a short
# trial it is the log's very start. A real power loss keeps all that was synced, and of the rest what the kernel wrote back by itself.


_HOW: Final = "killed, and its logs cut to their recovery points: the worst case of a power loss, not a real one"


def cut_leader(context: FaultContext, parameters: CrashParameters) -> FaultEvidence:
    """Kill the leader and cut its logs; it bit when something was cut, and the partition lost its leader."""
    return leader_down("leader-recovery-point-cut", context, parameters, _cut)


def cut_all(context: FaultContext, parameters: CrashParameters) -> FaultEvidence:
    """Kill all nodes at once and cut their logs; it bit when something was cut from each."""
    return all_down("all-recovery-point-cut", context, parameters, _cut)


def _cut(context: FaultContext, nodes: Sequence[int]) -> bool:
    """Return whether each node had something to lose, and lost it."""
    disks, lost_bytes = context.cluster.disks, list[int]()

    def cut(running: Sequence[int]) -> bool:
        for node in running:
            context.cluster.kill(node)
        lost_bytes.extend(disks.cut_to_recovery_points(node) for node in running)
        return all(lost_bytes)

    return take_down(context, nodes, _HOW, cut)


_RECOVERY_POINT: Final = (
    FaultKind(
        "leader-recovery-point-cut",
        FAMILY,
        "the leader is killed and its logs are cut to what it had noted down as synced: the worst case of a power loss, made without root",
        CrashParameters,
        cut_leader,
        nature_of_cut,
        needs_own_cluster=True,
    ),
    FaultKind(
        "all-recovery-point-cut",
        FAMILY,
        "all nodes are killed and their logs cut to what they had noted down as synced: the worst case of a power loss, made without root",
        CrashParameters,
        cut_all,
        nature_of_cut_everywhere,
        needs_own_cluster=True,
    ),
)

KINDS: Final = (*_POWER_LOSS, *_RECOVERY_POINT)
