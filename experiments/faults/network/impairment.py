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

    lasts_s: float = Field(default=4.0, gt=0, le=3600, description="from the cut to the heal at the earliest, seconds")

    def ends_s(self) -> float:
        """Return when the traffic is let through again, at the earliest."""
        return self.at_s + self.lasts_s


class PartitionParameters(ImpairmentParameters):
    """Nodes are cut off from each other until the cluster has noticed."""

    lasts_s: float = Field(default=7.0, gt=0, le=3600, description="from the cut to the heal at the earliest, seconds")
    patience_s: float = Field(default=10.0, ge=0, le=3600, description="how much longer it lasts while the cluster has not noticed, seconds")

    def impossible(self, shape: Topology) -> str | None:
        """One node has nobody to be cut off from."""
        return None if shape.nodes > 1 else "there is one node, and nobody to cut it off from; allowed: 2 nodes or more"


def impair(
    kind: str,
    scene: FaultContext,
    parameters: ImpairmentParameters,
    impairments: Sequence[Impairment],
    noticed: Callable[[], str | None] | None = None,
) -> FaultEvidence:
    """Treat the traffic so for its time, and let it through again; it bit when it met with any traffic, and the cluster noticed.

    Args:
        kind: the fault's.
        scene: where it strikes, at the moment it does.
        parameters: how long it lasts.
        impairments: what is done, to which nodes.
        noticed: says what the cluster made of it, and is waited for up to `patience_s`; `None`: nothing that the watcher would see.
    """
    targets = tuple(dict.fromkeys(one.node_id for one in impairments))
    caught: list[ImpairmentCounts] = []
    with scene.striking(*targets) as healing:
        healing.callback(lambda: caught.extend(scene.cluster.mend(scene.name)))
        _impair(scene, impairments)
        scene.note("fault_cut", "; ".join(map(str, impairments)))
        acts_s = scene.since_load_began_s() - scene.after_s
        met = _met(scene, parameters)
        scene.until(acts_s + parameters.lasts_s)  # on a busy machine it strikes late, and lasts no shorter for it
        seen = noticed is None or scene.noticed(noticed, parameters.patience_s if isinstance(parameters, PartitionParameters) else 0)
        lasted_s = scene.since_begin_s()
    scene.saw(f"it lasted {lasted_s:.2f} s")
    for one in caught:
        scene.saw(str(one))
    return FaultEvidence(kind=kind, targets=targets, bit=met and seen, evidence=tuple(scene.facts))


def _impair(scene: FaultContext, impairments: Sequence[Impairment]) -> None:
    """Begin.

    Raises:
        Missed: another part of the fault treats that traffic already, and there is one relay.
    """
    try:
        scene.cluster.impair(scene.name, impairments)
    except Busy as busy:
        raise FaultMissed(str(busy)) from busy


def _met(scene: FaultContext, parameters: ImpairmentParameters) -> bool:
    """Keep the moment at which the first packet or byte was met with."""

    def look() -> str | None:
        return next((str(one) for one in scene.cluster.caught(scene.name) if one.anything), None)

    try:
        scene.note("fault_bit", scene.wait(look, awaiting="any traffic to be met with", timeout_s=parameters.lasts_s))
    except WaitTimeout:
        scene.saw("there was no traffic that it could have met with")
        return False
    return True
