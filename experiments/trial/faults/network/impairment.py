"""Injection of a network fault: traffic is impaired for a while, counted, and restored in any case.

The kernel or the relay counts the packets, bytes and connections that were affected. A fault that
affected none had no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pydantic import Field

from ackbench.experiments.ledger.trial_manifest import FaultEvidence
from ackbench.experiments.trial.events.clock import epoch_ns
from ackbench.experiments.trial.faults.core import (
    EFFECTIVE,
    FaultContext,
    FaultMissed,
    FaultParameters,
    Seconds,
    SecondsOrNone,
)
from ackbench.experiments.trial.faults.core.effects import Topology
from ackbench.infra.errors import ImpairmentConflict, WaitTimeout
from ackbench.infra.network.impairment import ImpairmentCounts, NodeImpairment
from ackbench.infra.network.rule_actions import RequestRule


class ImpairmentParameters(FaultParameters):
    """Traffic is impaired for a while."""

    lasts_s: Seconds = Field(
        default=4.0, description="how long traffic is impaired at least, seconds"
    )

    def heals_at_s(self) -> float:
        """Return when the traffic is restored, at the earliest."""
        return self.at_s + self.lasts_s


class PartitionParameters(ImpairmentParameters):
    """Nodes are isolated from each other until the cluster has reacted."""

    lasts_s: Seconds = Field(
        default=7.0, description="how long nodes are isolated at least, seconds"
    )
    patience_s: SecondsOrNone = Field(
        default=10.0,
        description="how much longer it lasts while the cluster has not reacted, seconds",
    )

    def impossible_reason(self, topology: Topology) -> str | None:
        """Refuse clusters of one node, which has no other to be isolated from."""
        if topology.nodes > 1:
            return None
        return "a single node has no other node to be isolated from; allowed: 2 nodes or more"


def impair(
    context: FaultContext,
    parameters: ImpairmentParameters,
    impairments: Sequence[NodeImpairment | RequestRule],
    reaction: tuple[Callable[[], str | None], str] | None = None,
    end: Callable[[], str | None] | None = None,
) -> FaultEvidence:
    """Impair traffic now for as long as the parameters request, and restore it.

    Args:
        context: the fault's context.
        parameters: how long it lasts.
        impairments: what is done to the traffic of which nodes.
        reaction: the probe for the cluster's reaction, which is awaited for up to `patience_s`, and
            what to report if there is none; see `FaultContext.wait_for_reaction`. `None`: the fault
            causes no reaction that the cluster's metadata shows.
        end: returns a sentence once an event has ended the fault early; `None`: none does.

    Returns:
        The evidence. The fault took effect if any traffic was affected and the cluster reacted.
    """
    targets = tuple(
        dict.fromkeys(one.node_id for one in impairments if not isinstance(one, RequestRule))
    )
    counts: list[ImpairmentCounts] = []
    with context.injected(*targets) as heals:
        heals.callback(lambda: counts.extend(context.cluster.heal(context.name)))
        _begin(context, impairments)
        context.note("fault_cut", "; ".join(map(str, impairments)))
        began_s = context.load_elapsed_s() - context.origin_s
        affected = _wait_for_affected_traffic(context, parameters)
        # On a busy machine the fault can begin late; it lasts as long as requested all the same.
        if end is None:
            context.sleep_until(began_s + parameters.lasts_s)
        else:
            _wait_for_end(context, end, parameters.lasts_s - context.elapsed_s())
        reacted = True
        if reaction is not None:
            patience_s = parameters.patience_s if isinstance(parameters, PartitionParameters) else 0
            probe, no_reaction = reaction
            reacted = context.wait_for_reaction(probe, patience_s, no_reaction)
        lasted_s = context.elapsed_s()
    context.add_evidence(f"the traffic was impaired for {lasted_s:.2f} s")
    for count in counts:
        context.add_evidence(str(count))
        if count.met:
            times_s = [
                (epoch_ns(met.at_ns / 1e9) - context.load_begin_ns) / 1e9 for met in count.met
            ]
            context.add_evidence(
                f"the first were met {', '.join(f'{one:.2f}' for one in times_s)} s into the load"
            )
    return context.fault_evidence(targets, took_effect=affected and reacted)


def _begin(context: FaultContext, impairments: Sequence[NodeImpairment | RequestRule]) -> None:
    try:
        context.cluster.impair(context.name, impairments)
    except ImpairmentConflict as conflict:  # a node has one relay
        raise FaultMissed(str(conflict)) from conflict


def _wait_for_end(context: FaultContext, end: Callable[[], str | None], timeout_s: float) -> None:
    try:
        sentence = context.wait_for(
            end, awaiting="the end of the rule", timeout_s=max(0.01, timeout_s), every_s=0.01
        )
    except WaitTimeout:
        sentence = "no event ended the rule before its time"
    context.add_evidence(sentence)


def _wait_for_affected_traffic(context: FaultContext, parameters: ImpairmentParameters) -> bool:
    """Return whether any traffic was affected while the fault lasted; note when it first was."""

    def probe() -> str | None:
        for count in context.cluster.impairment_counts(context.name):
            if count.any_traffic:
                return str(count)
        return None

    try:
        first = context.wait_for(
            probe, awaiting="traffic that is affected", timeout_s=parameters.lasts_s
        )
    except WaitTimeout:
        context.add_evidence("no traffic was affected")
        return False
    context.note(EFFECTIVE, first)
    return True
