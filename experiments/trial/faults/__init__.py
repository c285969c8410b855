"""The fault catalogue: every kind of fault, under the name that experiments use.

A package has `KINDS`; the family is the heading under which `ackbench faults` lists a kind. To add
a fault, write its parameters (with their bounds, and when it is impossible), its injection (which
heals in any case), its effects (which Kafka's guarantees depend on) and, if only the logs show that
it took effect, its confirmation; then add a `FaultKind` to the `KINDS` of its module. `core` is
what all of them are built from, `composition` joins several faults of one trial.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ackbench.experiments.ledger.trial_manifest import FaultEvidence
from ackbench.experiments.trial.faults import (
    clients,
    disk,
    network,
    operations,
    process,
    replication,
    transactions,
)
from ackbench.experiments.trial.faults.core import FaultContext, FaultKind, FaultParameters
from ackbench.experiments.trial.faults.core.effects import FaultEffects, Topology
from ackbench.experiments.trial.faults.operations.commands import command_kind
from ackbench.experiments.trial.faults.process import zookeeper
from ackbench.infra.cluster.capabilities import missing_capability
from ackbench.infra.errors import MachineError


def _no_fault(_context: FaultContext, _parameters: FaultParameters) -> FaultEvidence:
    return FaultEvidence(kind="none", took_effect=True, evidence=("no fault was requested",))


def _no_effects(_parameters: FaultParameters, _topology: Topology) -> FaultEffects:
    return FaultEffects()


_ALL: Final = (
    FaultKind(
        "none",
        "none",
        "no fault: the control",
        FaultParameters,
        _no_fault,
        _no_effects,
        supports_external_cluster=True,
    ),
    *process.KINDS,
    *zookeeper.KINDS,
    *network.KINDS,
    *disk.KINDS,
    *replication.KINDS,
    *operations.KINDS,
    command_kind(lambda kind, topology: FAULTS[kind].effects_of({}, topology)),
    *transactions.KINDS,
    *clients.KINDS,
)

FAULTS: Final[Mapping[str, FaultKind]] = MappingProxyType({fault.kind: fault for fault in _ALL})


def require_capabilities(kind: str) -> None:
    """Check that this machine can inject a fault.

    Raises:
        MachineError: it cannot; with the reason and the remedy.
    """
    for capability in sorted(FAULTS[kind].required_capabilities):
        missing = missing_capability(capability)
        if missing:
            raise MachineError(
                f"fault {kind} needs {capability}, which this machine lacks: {missing.reason};"
                f" {missing.remedy}, or leave the fault out"
            )


__all__ = ["FAULTS", "FaultContext", "FaultKind", "FaultParameters", "require_capabilities"]
