"""What every family of faults is made of: the kind, its parameters and its nature, the scene where it strikes, and what tells that it bit."""

from __future__ import annotations

from experiments.faults.base.kind import FaultKind, FaultParameters
from experiments.faults.base.misses import GivenUp, Missed
from experiments.faults.base.scene import OBSERVED_PARTITION, Scene

__all__ = ["OBSERVED_PARTITION", "FaultKind", "FaultParameters", "GivenUp", "Missed", "Scene"]
