"""Checks that a fault took effect, from what the cluster reports after the fault began.

Each check returns a sentence with figures for the evidence, or `None` as long as there is nothing
to report. Changes of leader, ISR and controller are the metadata poller's events.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ackbench.experiments.trial.events.journal import Event
from ackbench.experiments.trial.faults.core.context import OBSERVED_PARTITION, FaultContext
from ackbench.experiments.trial.faults.core.kind import FaultMissed
from ackbench.infra.errors import HarnessError, WaitTimeout
from ackbench.infra.kafka.spec import ClusterState

_DESCRIBE_TIMEOUT_S: Final = 1.0
"""How long a broker may take to answer before the cluster counts as not answering."""


def leader_changed(context: FaultContext, node: int) -> str | None:
    """Return when the observed partition had another leader than the node, or none."""
    for event in _events_since_begin(context, "leader"):
        if event.node != node:
            change = "had no leader" if event.node is None else f"was led by node {event.node}"
            return f"partition {OBSERVED_PARTITION} {change} {_after(context, event)}"
    return None


def kept_leader(node: int) -> str:
    """Return what to report when the observed partition kept its leader."""
    return f"partition {OBSERVED_PARTITION} kept its leader (node {node})"


def wait_for_leader_change(context: FaultContext, node: int, patience_s: float) -> bool:
    """Return whether the observed partition loses this leader in time; add it to the evidence."""
    return context.wait_for_reaction(
        lambda: leader_changed(context, node), patience_s, kept_leader(node)
    )


def left_isr(context: FaultContext, node: int) -> str | None:
    """Return when the observed partition's ISR did not contain the node."""
    for event in _events_since_begin(context, "isr"):
        if str(node) not in event.detail.split(","):
            return (
                f"the ISR of partition {OBSERVED_PARTITION} shrank to"
                f" {event.detail or 'nothing'} {_after(context, event)}"
            )
    return None


def stayed_in_isr(node: int) -> str:
    """Return what to report when the node stayed in the observed partition's ISR."""
    return f"node {node} stayed in the ISR of partition {OBSERVED_PARTITION}"


def controller_changed(context: FaultContext, before: ClusterState) -> str | None:
    """Return when there was another active controller than before the fault."""
    for event in _events_since_begin(context, "controller", partition=None):
        if event.node not in {None, before.controller}:
            return (
                f"the active controller moved from node {before.controller}"
                f" to node {event.node} {_after(context, event)}"
            )
    return None


def kept_controller(before: ClusterState) -> str:
    """Return what to report when the active controller did not change."""
    return f"node {before.controller} stayed the active controller"


def no_controller(context: FaultContext) -> str | None:
    """Return that there is no active controller now, or that no broker answers."""
    try:
        state = context.cluster.describe([context.topic], timeout_s=_DESCRIBE_TIMEOUT_S)
    except WaitTimeout:
        return f"no broker answered {context.elapsed_s():.2f} s after the fault began"
    if state.controller is None:
        return f"there was no active controller {context.elapsed_s():.2f} s after the fault began"
    return None


def no_broker_answers(context: FaultContext) -> str | None:
    """Return since when no broker that knows the topic answered the metadata poller."""
    for event in context.journal.events("metadata_unavailable"):
        if event.at_ns >= context.began_ns:
            return f"no broker answered from {_after(context, event)}"
    return None


@contextmanager
def refusals_as_missed() -> Iterator[None]:
    """Treat a request that Kafka refuses, or that is not answered, as a fault that was missed.

    It is for faults that are operations of an administrator: another fault may have taken down the
    broker that they need.

    Raises:
        FaultMissed: with Kafka's error, or what was awaited.
    """
    try:
        yield
    except HarnessError as error:
        raise FaultMissed(str(error)) from error


def _events_since_begin(
    context: FaultContext, kind: str, partition: int | None = OBSERVED_PARTITION
) -> list[Event]:
    return [
        event
        for event in context.journal.events(kind)
        if event.partition == partition and event.at_ns >= context.began_ns
    ]


def _after(context: FaultContext, event: Event) -> str:
    return f"{(event.at_ns - context.began_ns) / 1e9:.2f} s after the fault began"
