"""The catalogue of faults: what can go wrong, under the names that experiments use."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from experiments.faults import process
from experiments.faults.base import FaultKind, FaultParameters, Scene
from experiments.ledger.record import FaultEvidence


def _nothing(_scene: Scene, _parameters: FaultParameters) -> FaultEvidence:
    return FaultEvidence(kind="none", bit=True, evidence=("no fault was asked for",))


_ALL = (
    FaultKind("none", "no fault: the control", FaultParameters, _nothing),
    FaultKind("leader-crash", "the leader is killed (SIGKILL) and started again later", process.CrashParameters, process.crash_leader),
    FaultKind(
        "leader-crash-behind",
        "the followers stand still for a moment, the leader is killed, the followers go on",
        process.BehindParameters,
        process.crash_leader_with_followers_behind,
    ),
    FaultKind(
        "leader-pause",
        "the leader stands still (SIGSTOP) for longer than the client waits and shorter than its session",
        process.PauseParameters,
        process.pause_leader,
    ),
    FaultKind("follower-crash", "a follower is killed (SIGKILL) and started again later", process.CrashParameters, process.crash_follower),
    FaultKind("controller-crash", "the active controller is killed (SIGKILL) and started again later", process.CrashParameters, process.crash_controller),
)

FAULTS: Final[Mapping[str, FaultKind]] = MappingProxyType({fault.kind: fault for fault in _ALL})

__all__ = ["FAULTS", "FaultKind", "FaultParameters", "Scene"]
