"""Did it bite? Answers from what the watcher saw of the cluster since the fault began."""

from __future__ import annotations

from experiments.faults.base import OBSERVED_PARTITION, Scene
from experiments.journal import Event
from infra.cluster import ClusterState


def leader_left(scene: Scene, node: int) -> bool:
    """Whether the observed partition was led by another node, or by none, after the fault began; says so."""
    for event in _seen(scene, "leader"):
        if event.node != node:
            scene.saw(f"partition {OBSERVED_PARTITION} {_led_by(event)} {_after_s(scene, event):.2f} s after the fault began")
            return True
    scene.saw(f"partition {OBSERVED_PARTITION} kept node {node} as its leader: the fault was over before the cluster noticed")
    return False


def isr_shrank(scene: Scene, node: int) -> bool:
    """Whether the node left the observed partition's ISR after the fault began; says so."""
    for event in _seen(scene, "isr"):
        if str(node) not in event.detail.split(","):
            scene.saw(f"the ISR of partition {OBSERVED_PARTITION} shrank to {event.detail or 'nothing'} {_after_s(scene, event):.2f} s after the fault began")
            return True
    scene.saw(f"node {node} stayed in the ISR of partition {OBSERVED_PARTITION}: the fault was over before the cluster noticed")
    return False


def controller_moved(scene: Scene, before: ClusterState) -> bool:
    """Whether another controller became active after the fault began; says so."""
    for event in _seen(scene, "controller", partition=None):
        if event.node is not None and event.node != before.controller:
            scene.saw(f"the active controller moved from node {before.controller} to node {event.node} {_after_s(scene, event):.2f} s after the fault began")
            return True
    scene.saw(f"node {before.controller} stayed the active controller: the fault was over before the quorum noticed")
    return False


def _seen(scene: Scene, kind: str, partition: int | None = OBSERVED_PARTITION) -> list[Event]:
    began = scene.journal.events("fault_begin")[-1].at_ns
    return [event for event in scene.journal.events(kind) if event.partition == partition and event.at_ns >= began]


def _led_by(event: Event) -> str:
    return "had no leader" if event.node is None else f"was led by node {event.node}"


def _after_s(scene: Scene, event: Event) -> float:
    return (event.at_ns - scene.journal.events("fault_begin")[-1].at_ns) / 1e9
