"""What faults of disks do, as far as promises hang on it. Pure."""

from __future__ import annotations

from experiments.faults.base.nature import Nature, Shape
from experiments.faults.disk.parameters import BitFlipParameters, SlowDiskParameters
from experiments.faults.process.parameters import CrashParameters


def nature_of_power_loss(kind: str, parameters: CrashParameters, _shape: Shape) -> Nature:
    """One node dies and forgets what was not synced; it may lead any partition, and be the active controller."""
    return _dead(kind, parameters).model_copy(update={"kills": 1, "power_loss": True})


def nature_of_power_loss_everywhere(kind: str, parameters: CrashParameters, shape: Shape) -> Nature:
    """All nodes die at once, and each forgets what was not synced. Nobody waits for anybody to notice."""
    heals_ms = parameters.restart_after_s * 1000
    return _dead(kind, parameters).model_copy(update={"kills": shape.nodes, "power_loss": True, "heals_within_ms": heals_ms})


def nature_of_cut(kind: str, parameters: CrashParameters, shape: Shape) -> Nature:
    """As a power loss, and what was synced and not noted down goes too."""
    return nature_of_power_loss(kind, parameters, shape).model_copy(update={"forgets_synced": True})


def nature_of_cut_everywhere(kind: str, parameters: CrashParameters, shape: Shape) -> Nature:
    """The same at every node."""
    return nature_of_power_loss_everywhere(kind, parameters, shape).model_copy(update={"forgets_synced": True})


def nature_of_full_disk(kind: str, parameters: CrashParameters, _shape: Shape) -> Nature:
    """A node ends because its disk fails it; what it had written is there."""
    return _dead(kind, parameters).model_copy(update={"kills": 1})


def nature_of_slow_disk(kind: str, parameters: SlowDiskParameters, _shape: Shape) -> Nature:
    """A node waits for its disk, its connections open; the metadata lies on the same disk, so it may be taken for dead."""
    lasts_ms = parameters.slow_s * 1000
    return Nature(kind=kind, stalled=1, stalls_ms=lasts_ms, strikes_leader=True, heals_after_ms=lasts_ms, heals_within_ms=lasts_ms)


def nature_of_bit_flip(kind: str, parameters: BitFlipParameters, _shape: Shape) -> Nature:
    """The leader serves the bytes as they are; killed, it cuts its log before them when it recovers, synced or not."""
    if parameters.then == "read":
        return Nature(kind=kind, corrupts=True, strikes_leader=True)
    return _dead(kind, parameters).model_copy(update={"kills": 1, "forgets_synced": True})


def _dead(kind: str, parameters: CrashParameters) -> Nature:
    heals_ms = parameters.restart_after_s * 1000
    return Nature(kind=kind, strikes_leader=True, heals_after_ms=heals_ms, heals_within_ms=heals_ms + parameters.patience_s * 1000)
