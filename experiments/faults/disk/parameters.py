"""What faults of disks can be told."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from experiments.faults.core import FaultParameters
from experiments.faults.core.effects import FaultEffects, Topology
from experiments.faults.process.parameters import CrashParameters

FAMILY: Final = "disk"


class PowerLossParameters(CrashParameters):
    """Power goes, and comes back later."""

    restart_after_s: float = Field(
        default=5.0,
        gt=0,
        le=3600,
        description="from the power loss to the restart at the earliest, seconds",
    )


class DiskParameters(CrashParameters):
    """A node's disk fails it, and is put right later."""

    restart_after_s: float = Field(
        default=5.0,
        gt=0,
        le=3600,
        description="from the failure to the restart at the earliest, seconds",
    )


class SlowDiskParameters(FaultParameters):
    """A node's disk takes less than it is given."""

    slow_s: float = Field(
        default=4.0, gt=0, le=3600, description="how long the disk is slow, seconds"
    )
    write_bytes_per_s: int = Field(
        default=32_768,
        ge=1024,
        le=2**31 - 1,
        description="how many bytes a second it takes meanwhile",
    )

    def heals_at_s(self) -> float:
        """Return when the disk is as fast as before."""
        return self.at_s + self.slow_s


class BitFlipParameters(CrashParameters):
    """A bit flips, and then the log is read, or the leader is killed and has to recover it."""

    then: Literal["read", "restart"] = Field(
        default="read",
        description="what happens next: the log is read as it is, or the leader is killed and recovers its log",
    )

    def heals_at_s(self) -> float:
        """Return when the leader is started again; at once, where it is not killed."""
        return super().heals_at_s() if self.then == "restart" else self.at_s


# ---------- What faults of disks do, as far as promises hang on it. Pure.


def nature_of_power_loss(kind: str, parameters: CrashParameters, _shape: Topology) -> FaultEffects:
    """One node dies and forgets what was not synced; it may lead any partition, and be the active controller."""
    return _dead(kind, parameters).model_copy(update={"nodes_down": 1, "power_loss": True})


def nature_of_power_loss_everywhere(
    kind: str, parameters: CrashParameters, shape: Topology
) -> FaultEffects:
    """All nodes die at once, and each forgets what was not synced. Nobody waits for anybody to notice."""
    heals_ms = parameters.restart_after_s * 1000
    return _dead(kind, parameters).model_copy(
        update={"nodes_down": shape.nodes, "power_loss": True, "heals_within_ms": heals_ms}
    )


def nature_of_cut(kind: str, parameters: CrashParameters, shape: Topology) -> FaultEffects:
    """As a power loss, and what was synced and not noted down goes too."""
    return nature_of_power_loss(kind, parameters, shape).model_copy(
        update={"loses_synced_data": True}
    )


def nature_of_cut_everywhere(
    kind: str, parameters: CrashParameters, shape: Topology
) -> FaultEffects:
    """The same at every node."""
    return nature_of_power_loss_everywhere(kind, parameters, shape).model_copy(
        update={"loses_synced_data": True}
    )


def nature_of_full_disk(kind: str, parameters: CrashParameters, _shape: Topology) -> FaultEffects:
    """A node ends because its disk fails it; what it had written is there."""
    return _dead(kind, parameters).model_copy(update={"nodes_down": 1})


def nature_of_slow_disk(
    kind: str, parameters: SlowDiskParameters, _shape: Topology
) -> FaultEffects:
    """A node waits for its disk, its connections open; the metadata lies on the same disk, so it may be taken for dead."""
    lasts_ms = parameters.slow_s * 1000
    return FaultEffects(
        kind=kind,
        nodes_paused=1,
        pause_ms=lasts_ms,
        may_affect_leader=True,
        heals_after_ms=lasts_ms,
        heals_within_ms=lasts_ms,
    )


def nature_of_bit_flip(kind: str, parameters: BitFlipParameters, _shape: Topology) -> FaultEffects:
    """The leader serves the bytes as they are; killed, it cuts its log before them when it recovers, synced or not."""
    if parameters.then == "read":
        return FaultEffects(kind=kind, corrupts_records=True, may_affect_leader=True)
    return _dead(kind, parameters).model_copy(update={"nodes_down": 1, "loses_synced_data": True})


def _dead(kind: str, parameters: CrashParameters) -> FaultEffects:
    heals_ms = parameters.restart_after_s * 1000
    return FaultEffects(
        kind=kind,
        may_affect_leader=True,
        heals_after_ms=heals_ms,
        heals_within_ms=heals_ms + parameters.patience_s * 1000,
    )
