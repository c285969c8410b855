"""Did it bite? Answers from what the watcher saw of the cluster since the fault began, and from what the clients logged."""

from __future__ import annotations

from experiments.faults.base import OBSERVED_PARTITION, Scene
from experiments.journal import Event
from experiments.ledger.record import FaultEvidence
from infra.cluster import ClusterState


def leader_left(scene: Scene, node: int) -> str | None:
    """Say when the observed partition was led by another node, or by none, after the fault began; `None`: not so far."""
    moves = (event for event in _seen(scene, "leader") if event.node != node)
    return next((f"partition {OBSERVED_PARTITION} {_led_by(event)} {_after_s(scene, event):.2f} s after the fault began" for event in moves), None)


def isr_shrank(scene: Scene, node: int) -> str | None:
    """Say when the node had left the observed partition's ISR after the fault began; `None`: not so far."""
    shrunk = (event for event in _seen(scene, "isr") if str(node) not in event.detail.split(","))
    text = f"the ISR of partition {OBSERVED_PARTITION} shrank to"
    return next((f"{text} {event.detail or 'nothing'} {_after_s(scene, event):.2f} s after the fault began" for event in shrunk), None)


def controller_moved(scene: Scene, before: ClusterState) -> str | None:
    """Say when another controller was active after the fault began; `None`: not so far."""
    others = (event for event in _seen(scene, "controller", partition=None) if event.node not in {None, before.controller})
    text = f"the active controller moved from node {before.controller} to node"
    return next((f"{text} {event.node} {_after_s(scene, event):.2f} s after the fault began" for event in others), None)


def with_timeouts(evidence: FaultEvidence, timed_out_requests: int, acks: str) -> FaultEvidence:
    """Add what the producers' own logs say to the evidence of a pause: with nobody kept waiting too long, it did not bite.

    With acks=0 there is no answer to wait for, and nothing can time out.
    """
    if evidence.kind != "leader-pause":
        return evidence
    if acks == "0":
        return evidence.model_copy(update={"evidence": (*evidence.evidence, "acks=0 waits for no answer, so no request can time out")})
    if timed_out_requests == 0:
        return evidence.model_copy(update={"bit": False, "evidence": (*evidence.evidence, "no request timed out at the client")})
    return evidence


def _seen(scene: Scene, kind: str, partition: int | None = OBSERVED_PARTITION) -> list[Event]:
    began = scene.journal.events("fault_begin")[-1].at_ns
    return [event for event in scene.journal.events(kind) if event.partition == partition and event.at_ns >= began]


def _led_by(event: Event) -> str:
    return "had no leader" if event.node is None else f"was led by node {event.node}"


def _after_s(scene: Scene, event: Event) -> float:
    return (event.at_ns - scene.journal.events("fault_begin")[-1].at_ns) / 1e9
