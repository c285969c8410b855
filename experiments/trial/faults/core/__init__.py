"""What every family of faults is built from.

`kind`: a fault kind with its parameters. `effects`: what Kafka's guarantees depend on. `context`:
the cluster, clock and journal that a fault is injected with, and the guarantee that it heals.
`evidence`: the checks that a fault took effect. `narrative`: the course of a fault in sentences.
Faults themselves belong in the family packages.
"""

from __future__ import annotations

from ackbench.experiments.trial.faults.core.context import (
    EFFECTIVE,
    OBSERVED_PARTITION,
    FaultContext,
)
from ackbench.experiments.trial.faults.core.kind import (
    FaultAbandoned,
    FaultKind,
    FaultMissed,
    FaultParameters,
    Seconds,
    SecondsOrNone,
)

__all__ = [
    "EFFECTIVE",
    "OBSERVED_PARTITION",
    "FaultAbandoned",
    "FaultContext",
    "FaultKind",
    "FaultMissed",
    "FaultParameters",
    "Seconds",
    "SecondsOrNone",
]
