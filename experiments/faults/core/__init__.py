"""What every family of faults is made of: the kind, its parameters and its nature, the scene where it strikes, and what tells that it bit."""

from __future__ import annotations

from experiments.faults.core.context import OBSERVED_PARTITION, Scene
from experiments.faults.core.kind import FaultKind, FaultParameters, GivenUp, Missed

__all__ = ["OBSERVED_PARTITION", "FaultKind", "FaultParameters", "GivenUp", "Missed", "Scene"]
