"""Nodes that go down together with what their disks had not kept: how they are taken down, and what is read off their logs before and after."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Final

from experiments.faults.base import OBSERVED_PARTITION, Missed, Scene
from experiments.faults.base.observing import leader_left
from experiments.faults.process.parameters import CrashParameters
from experiments.ledger.record import FaultEvidence
from infra.disk.replica import ReplicaLog
from infra.node import LOG, node_folder


class NodeLog:
    """What a node writes in its own log from now on."""

    LOADING: Final = "] INFO Loading logs from log dirs "
    STARTED: Final = " Kafka Server started "
    """Kafka's own lines: its logs are about to be loaded, and all is done."""

    def __init__(self, scene: Scene, node: int) -> None:
        """Begin here."""
        self._path = node_folder(scene.cluster.folder, node) / LOG
        self._begin_bytes = self._path.stat().st_size

    def first(self, telltale: str) -> str | None:
        """Return the first line so far that holds a text, without its time; `None`: there is none."""
        with self._path.open("rb") as log:
            log.seek(self._begin_bytes)
            lines = log.read().decode(errors="replace").splitlines()
        return next((line.partition("] ")[2] or line for line in lines if telltale in line), None)


def leader_down(kind: str, scene: Scene, parameters: CrashParameters, deed: Callable[[Scene, Sequence[int]], bool]) -> FaultEvidence:
    """Take the observed partition's leader down and start it again; it bit when the deed had its effect, and the partition lost its leader."""
    scene.until(parameters.at_s)
    leader = scene.leader()
    with scene.striking(leader) as healing:
        healing.callback(scene.start, leader)
        done = deed(scene, [leader])
        scene.until(parameters.ends_s())
        left = scene.noticed(lambda: leader_left(scene, leader), parameters.patience_s)
    return FaultEvidence(kind=kind, targets=(leader,), bit=done and left, evidence=tuple(scene.facts))


def all_down(kind: str, scene: Scene, parameters: CrashParameters, deed: Callable[[Scene, Sequence[int]], bool]) -> FaultEvidence:
    """Take all brokers down at one moment and start them again; it bit when the deed had its effect on each."""
    scene.until(parameters.at_s)
    nodes = scene.cluster.node_ids()
    with scene.striking(*nodes) as healing:
        for node in nodes:
            healing.callback(scene.start, node)
        done = deed(scene, nodes)
        scene.until(parameters.ends_s())
    return FaultEvidence(kind=kind, targets=nodes, bit=done, evidence=tuple(scene.facts))


def take_down(scene: Scene, nodes: Sequence[int], how: str, deed: Callable[[Sequence[int]], bool]) -> bool:
    """Bring nodes to a stand, take them down by a deed, and keep what their logs held before and after; each stays down until `Scene.start`.

    Args:
        scene: where.
        nodes: those that are down already are left out.
        how: what is done to them, for the journal.
        deed: leaves them stopped, their logs as they are then; returns whether it had its effect.

    Raises:
        Missed: none of them runs.
    """
    with ExitStack() as alone:
        for node in sorted(nodes):
            alone.enter_context(scene.holding.alone(node))
            scene.holding.take(node, "down", scene.name)
        running = [node for node in nodes if scene.state_of(node) != "stopped"]
        if not running:
            raise Missed(f"{_nodes(nodes)} was down already")
        for node in running:
            scene.note("fault_kill", how, node)
            scene.cluster.pause(node)
        before = _logs(scene, [node for node in running if _has_replica(scene, node)])
        struck = deed(running)
        for node in running:
            scene.note("fault_bit", f"{how}: the process is gone", node)
    after = _logs(scene, [log.node_id for log in before])
    scene.saw(f"{_nodes(running)}: {how} {scene.since_load_began_s():.2f} s into the load")
    for sentence in _losses(before, after):
        scene.saw(sentence)
    return struck


def _logs(scene: Scene, nodes: Sequence[int]) -> tuple[ReplicaLog, ...]:
    return tuple(scene.cluster.disks.replica(node, scene.topic, OBSERVED_PARTITION) for node in nodes)


def _has_replica(scene: Scene, node: int) -> bool:
    return (scene.cluster.disks.data(node) / f"{scene.topic}-{OBSERVED_PARTITION}").is_dir()


def _losses(before: Sequence[ReplicaLog], after: Sequence[ReplicaLog]) -> Iterator[str]:
    for was, now in zip(before, after, strict=True):
        point = "it had noted down no recovery point" if was.recovery_point is None else f"its recovery point was {was.recovery_point}"
        was_there, is_there = (f"offset {log.end_offset} ({log.size_bytes} bytes)" for log in (was, now))
        lost = f"{was.end_offset - now.end_offset} records lost"
        yield f"node {was.node_id}'s log of partition {OBSERVED_PARTITION} ended at {was_there} and comes back up to {is_there}: {lost}; {point}"


def _nodes(ids: Sequence[int]) -> str:
    return ("node " if len(ids) == 1 else "nodes ") + " and ".join(map(str, ids))
