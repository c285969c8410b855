"""What a fault is: a value with parameters, a way to strike that heals for certain, and evidence that it bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from experiments.faults.base.aftermath import Aftermath, as_it_struck
from experiments.faults.base.nature import Nature, Shape
from experiments.ledger.record import FaultEvidence, Frozen, Scalar
from infra.cluster_spec import DiskKind, NetworkKind
from infra.means import Means


class FaultParameters(Frozen):
    """What every fault can be told; times are seconds after the load began."""

    at_s: float = Field(default=2.0, gt=0, le=3600, description="when it strikes, seconds after the load began")

    def ends_s(self) -> float:
        """Return when the heal has been asked for, seconds after the load began."""
        return self.at_s

    def unnoticed(self, client_timeout_s: float, acks: str) -> str | None:
        """Say why a producer with these settings could not notice the fault; `None`: it can."""
        del client_timeout_s, acks
        return None

    def impossible(self, shape: Shape) -> str | None:
        """Say why there can be no such fault on such a cluster, as the end of a sentence; `None`: there can."""
        del shape
        return None


@dataclass(frozen=True)
class FaultKind:
    """An entry of the catalogue of faults."""

    kind: str
    family: str
    summary: str
    """One line for a person."""
    parameters: type[FaultParameters]
    strike: Callable[..., FaultEvidence]
    """Called with the scene and the parameters as the load begins; returns once healed."""
    nature: Callable[[str, Any, Shape], Nature]
    """What it does, from its kind, its parameters and what it finds."""
    needs: frozenset[Means] = frozenset()
    """What the machine must have for it."""
    network: NetworkKind = "loopback"
    disk: DiskKind = "folder"
    outlives: bool = False
    """What it does can outlive its trial, healed or not: the next trial gets a fresh cluster."""
    outside: bool = False
    """Whether it can be done to a cluster that is somebody else's: nothing of it needs the nodes."""
    confirmed: Callable[[FaultEvidence, Aftermath], FaultEvidence] = as_it_struck
    """After the trial: its evidence, completed by what brokers and clients logged; or that it did not bite."""

    def nature_of(self, parameters: Mapping[str, Scalar], shape: Shape) -> Nature:
        """Return what it does with these parameters."""
        return self.nature(self.kind, self.parameters.model_validate(dict(parameters)), shape)
