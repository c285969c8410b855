"""How a fault of the network strikes: the traffic is treated so, the kernel or the relay counts what it met with, and it is mended for certain."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pydantic import Field

from experiments.faults.core import FaultContext, FaultMissed, FaultParameters
from experiments.faults.core.effects import Topology
from experiments.ledger.record import FaultEvidence
from infra.errors import Busy, WaitTimeout
from infra.network.impairment import Impairment, ImpairmentCounts


class ImpairmentParameters(FaultParameters):
    """The traffic is treated so for a while."""

    lasts_s: float = Field(
        default=4.0, gt=0, le=3600, description="from the cut to the heal at the earliest, seconds"
    )

    def heals_at_s(self) -> float:
        """Return when the traffic is let through again, at the earliest."""
        return self.at_s + self.lasts_s


class PartitionParameters(ImpairmentParameters):
    """Nodes are cut off from each other until the cluster has noticed."""

    lasts_s: float = Field(
        default=7.0, gt=0, le=3600, description="from the cut to the heal at the earliest, seconds"
    )
    patience_s: float = Field(
        default=10.0,
        ge=0,
        le=3600,
        description="how much longer it lasts while the cluster has not noticed, seconds",
    )

    def impossible_reason(self, shape: Topology) -> str | None:
        """One node has nobody to be cut off from."""
        return (
            None
            if shape.nodes > 1
            else "there is one node, and nobody to cut it off from; allowed: 2 nodes or more"
        )


def impair(
    kind: str,
    context: FaultContext,
    parameters: ImpairmentParameters,
    impairments: Sequence[Impairment],
    noticed: Callable[[], str | None] | None = None,
) -> FaultEvidence:
    """Treat the traffic so for its time, and let it through again; it bit when it met with any traffic, and the cluster noticed.

    Args:
        kind: the fault's.
        context: where it strikes, at the moment it does.
        parameters: how long it lasts.
        impairments: what is done, to which nodes.
        noticed: says what the cluster made of it, and is waited for up to `patience_s`; `None`: nothing that the watcher would see.
    """
    targets = tuple(dict.fromkeys(one.node_id for one in impairments))
    caught: list[ImpairmentCounts] = []
    with context.striking(*targets) as healing:
        healing.callback(lambda: caught.extend(context.cluster.heal(context.name)))
        _impair(context, impairments)
        context.note("fault_cut", "; ".join(map(str, impairments)))
        acts_s = context.since_load_began_s() - context.after_s
        met = _met(context, parameters)
        context.until(
            acts_s + parameters.lasts_s
        )  # on a busy machine it strikes late, and lasts no shorter for it
        seen = noticed is None or context.noticed(
            noticed, parameters.patience_s if isinstance(parameters, PartitionParameters) else 0
        )
        lasted_s = context.since_begin_s()
    context.saw(f"it lasted {lasted_s:.2f} s")
    for one in caught:
        context.saw(str(one))
    return FaultEvidence(
        kind=kind, targets=targets, took_effect=met and seen, evidence=tuple(context.facts)
    )


def _impair(context: FaultContext, impairments: Sequence[Impairment]) -> None:
    """Begin.

    Raises:
        Missed: another part of the fault treats that traffic already, and there is one relay.
    """
    try:
        context.cluster.impair(context.name, impairments)
    except Busy as busy:
        raise FaultMissed(str(busy)) from busy


def _met(context: FaultContext, parameters: ImpairmentParameters) -> bool:
    """Keep the moment at which the first packet or byte was met with."""

    def look() -> str | None:
        return next(
            (str(one) for one in context.cluster.impairment_counts(context.name) if one.anything),
            None,
        )

    try:
        context.note(
            "fault_effective",
            context.wait(look, awaiting="any traffic to be met with", timeout_s=parameters.lasts_s),
        )
    except WaitTimeout:
        context.saw("there was no traffic that it could have met with")
        return False
    return True
