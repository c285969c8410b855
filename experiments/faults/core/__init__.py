"""What every family of faults is made of: the kind, its parameters and its nature, the scene where it strikes, and what tells that it bit."""

from __future__ import annotations

from experiments.faults.core.context import OBSERVED_PARTITION, FaultContext
from experiments.faults.core.kind import FaultAbandoned, FaultKind, FaultMissed, FaultParameters

__all__ = [
    "OBSERVED_PARTITION",
    "FaultAbandoned",
    "FaultContext",
    "FaultKind",
    "FaultMissed",
    "FaultParameters",
]
