"""Parameters and effects of the faults of disks. Pure."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from ackbench.experiments.trial.faults.core import FaultParameters, Seconds
from ackbench.experiments.trial.faults.core.effects import FaultEffects, Topology
from ackbench.experiments.trial.faults.process.parameters import CrashParameters, crash_effects

FAMILY: Final = "disk"


class PowerLossParameters(CrashParameters):
    """Nodes lose power, and are started again later."""

    restart_after_s: Seconds = Field(
        default=5.0, description="from the power loss to the restart at the earliest, seconds"
    )


class DiskParameters(CrashParameters):
    """A node's disk fails, and is repaired later."""

    restart_after_s: Seconds = Field(
        default=5.0, description="from the failure to the restart at the earliest, seconds"
    )


class SlowDiskParameters(FaultParameters):
    """A node's disk is slower than what is written to it."""

    slow_s: Seconds = Field(default=4.0, description="how long the disk is slow, seconds")
    write_bytes_per_s: int = Field(
        default=32_768,
        ge=1024,
        le=2**31 - 1,
        description="the write rate of the slow disk, bytes per second",
    )

    def heals_at_s(self) -> float:
        """Return when the disk is as fast as before."""
        return self.at_s + self.slow_s


class BitFlipParameters(CrashParameters):
    """A bit flips; then the log is read, or the leader crashes and recovers it."""

    then: Literal["read", "restart"] = Field(
        default="read",
        description="read: the log is read with the flipped bit;"
        " restart: the leader crashes and recovers its log",
    )

    def heals_at_s(self) -> float:
        """Return when the leader is started again; at once if it does not crash."""
        return super().heals_at_s() if self.then == "restart" else self.at_s


# Effects


def power_loss_effects(parameters: CrashParameters, topology: Topology) -> FaultEffects:
    """Return the effects: one node goes down and loses unsynced data.

    It may lead any partition, or be the controller.
    """
    return crash_effects(parameters, topology).model_copy(update={"power_loss": True})


def power_loss_everywhere_effects(parameters: CrashParameters, topology: Topology) -> FaultEffects:
    """Return the effects: all nodes go down at the same time and lose unsynced data.

    The restart does not wait for a reaction, as there is no node left to react.
    """
    down = power_loss_effects(parameters, topology)
    return down.model_copy(
        update={"nodes_down": topology.nodes, "heals_within_ms": down.heals_after_ms}
    )


def truncation_effects(parameters: CrashParameters, topology: Topology) -> FaultEffects:
    """Return the effects of a power loss that also takes synced data above the recovery point."""
    return power_loss_effects(parameters, topology).model_copy(update={"loses_synced_data": True})


def truncation_everywhere_effects(parameters: CrashParameters, topology: Topology) -> FaultEffects:
    """Return the effects of `truncation_effects` at every node."""
    return power_loss_everywhere_effects(parameters, topology).model_copy(
        update={"loses_synced_data": True}
    )


def slow_disk_effects(parameters: SlowDiskParameters, _topology: Topology) -> FaultEffects:
    """Return the effects: one node waits for its disk, with its connections open.

    The metadata log is on the same disk, so the controller may fence the node.
    """
    lasts_ms = parameters.slow_s * 1000
    return FaultEffects(
        nodes_paused=1,
        pause_ms=lasts_ms,
        may_affect_leader=True,
        heals_after_ms=lasts_ms,
        heals_within_ms=lasts_ms,
    )


def bit_flip_effects(parameters: BitFlipParameters, topology: Topology) -> FaultEffects:
    """Return the effects: the leader serves the changed bytes.

    If it crashes, it truncates its log there during recovery, synced or not.
    """
    if parameters.then == "read":
        return FaultEffects(corrupts_records=True, may_affect_leader=True)
    return crash_effects(parameters, topology).model_copy(update={"loses_synced_data": True})
