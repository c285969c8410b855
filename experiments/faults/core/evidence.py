"""Did it bite? Answers from what the watcher saw of the cluster since the fault began."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from experiments.events.journal import Event
from experiments.faults.core.context import OBSERVED_PARTITION, FaultContext
from experiments.faults.core.kind import FaultMissed
from infra.errors import HarnessError, WaitTimeout
from infra.kafka.spec import ClusterState, PartitionState

_LOOK_S: Final = 1.0
"""How long brokers are given to answer before nobody does."""


def leader_left(context: FaultContext, node: int) -> str | None:
    """Say when the observed partition was led by another node, or by none, after the fault began; `None`: not so far."""
    moves = (event for event in _seen(context, "leader") if event.node != node)
    return next(
        (
            f"partition {OBSERVED_PARTITION} {_led_by(event)} {_after_s(context, event):.2f} s after the fault began"
            for event in moves
        ),
        None,
    )


def isr_shrank(context: FaultContext, node: int) -> str | None:
    """Say when the node had left the observed partition's ISR after the fault began; `None`: not so far."""
    shrunk = (event for event in _seen(context, "isr") if str(node) not in event.detail.split(","))
    text = f"the ISR of partition {OBSERVED_PARTITION} shrank to"
    return next(
        (
            f"{text} {event.detail or 'nothing'} {_after_s(context, event):.2f} s after the fault began"
            for event in shrunk
        ),
        None,
    )


def controller_moved(context: FaultContext, before: ClusterState) -> str | None:
    """Say when another controller was active after the fault began; `None`: not so far."""
    others = (
        event
        for event in _seen(context, "controller", partition=None)
        if event.node not in {None, before.controller}
    )
    text = f"the active controller moved from node {before.controller} to node"
    return next(
        (
            f"{text} {event.node} {_after_s(context, event):.2f} s after the fault began"
            for event in others
        ),
        None,
    )


def no_controller(context: FaultContext) -> str | None:
    """Say that no node is the active controller now, or that no broker answers; `None`: one is."""
    try:
        controller = context.cluster.describe([context.topic], timeout_s=_LOOK_S).controller
    except WaitTimeout:
        return f"no broker answered {context.since_begin_s():.2f} s after the fault began"
    return (
        None
        if controller is not None
        else f"there was no active controller {context.since_begin_s():.2f} s after the fault began"
    )


def nobody_answers(context: FaultContext) -> str | None:
    """Say since when no broker that knows the topic answered; `None`: one did."""
    blind = (
        event
        for event in context.journal.events("metadata_unavailable")
        if event.at_ns >= context.began_ns
    )
    return next(
        (
            f"no broker answered from {_after_s(context, event):.2f} s after the fault began"
            for event in blind
        ),
        None,
    )


def _seen(
    context: FaultContext, kind: str, partition: int | None = OBSERVED_PARTITION
) -> list[Event]:
    return [
        event
        for event in context.journal.events(kind)
        if event.partition == partition and event.at_ns >= context.began_ns
    ]


def _led_by(event: Event) -> str:
    return "had no leader" if event.node is None else f"was led by node {event.node}"


def _after_s(context: FaultContext, event: Event) -> float:
    return (event.at_ns - context.began_ns) / 1e9


# ---------- What an operator asks of a cluster, as part of a fault: where another part has struck whom it needs, it missed.


@contextmanager
def asking() -> Iterator[None]:
    """Take a refusal, or no answer, for a miss.

    Raises:
        Missed: with Kafka's text, or what was awaited.
    """
    try:
        yield
    except HarnessError as error:
        raise FaultMissed(str(error)) from error


def observed(context: FaultContext) -> PartitionState:
    """Return the observed partition as the cluster tells it now, with a leader or without.

    Raises:
        Missed: there is no such topic now, or no broker answers.
    """
    partitions = context.state().of(context.topic)
    if not partitions:
        raise FaultMissed("there was no topic")
    return partitions[OBSERVED_PARTITION]
