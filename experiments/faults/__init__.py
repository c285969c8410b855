"""The catalogue of faults: what can go wrong, under the names that experiments use. Each family has a file or a package, and adds its kinds here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from experiments.faults import clients, disk, network, process, replication, transactions
from experiments.faults.core import FaultContext, FaultKind, FaultParameters
from experiments.faults.core.effects import FaultEffects, Topology
from experiments.faults.network import relay
from experiments.faults.operations import topology
from experiments.faults.process import zookeeper
from experiments.ledger.record import FaultEvidence
from infra.cluster.capabilities import missing
from infra.errors import MachineError


def _nothing(_scene: FaultContext, _parameters: FaultParameters) -> FaultEvidence:
    return FaultEvidence(kind="none", took_effect=True, evidence=("no fault was asked for",))


def _does_nothing(kind: str, _parameters: FaultParameters, _shape: Topology) -> FaultEffects:
    return FaultEffects(kind=kind)


_ALL = (
    FaultKind(
        "none",
        "none",
        "no fault: the control",
        FaultParameters,
        _nothing,
        _does_nothing,
        supports_external_cluster=True,
    ),
    *process.KINDS,
    *zookeeper.KINDS,
    *network.KINDS,
    *relay.KINDS,
    *disk.KINDS,
    *replication.KINDS,
    *topology.KINDS,
    *transactions.KINDS,
    *clients.KINDS,
)

FAULTS: Final[Mapping[str, FaultKind]] = MappingProxyType({fault.kind: fault for fault in _ALL})


def require_capabilities(kind: str) -> None:
    """See that this machine can do a fault.

    Raises:
        MachineError: it cannot; says why, and what would enable it.
    """
    for capability in sorted(FAULTS[kind].required_capabilities):
        lack = missing(capability)
        if lack:
            raise MachineError(
                f"fault {kind} needs {capability}, and there are none here: {lack.reason}; {lack.then}, or leave it out"
            )


__all__ = ["FAULTS", "FaultContext", "FaultKind", "FaultParameters", "require_means"]
