"""What faults of disks can be told."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from experiments.faults.base import FaultParameters
from experiments.faults.process.parameters import CrashParameters

FAMILY: Final = "disk"


class PowerLossParameters(CrashParameters):
    """Power goes, and comes back later."""

    restart_after_s: float = Field(default=5.0, gt=0, le=3600, description="from the power loss to the restart at the earliest, seconds")


class DiskParameters(CrashParameters):
    """A node's disk fails it, and is put right later."""

    restart_after_s: float = Field(default=5.0, gt=0, le=3600, description="from the failure to the restart at the earliest, seconds")


class SlowDiskParameters(FaultParameters):
    """A node's disk takes less than it is given."""

    slow_s: float = Field(default=4.0, gt=0, le=3600, description="how long the disk is slow, seconds")
    write_bytes_per_s: int = Field(default=32_768, ge=1024, le=2**31 - 1, description="how many bytes a second it takes meanwhile")

    def ends_s(self) -> float:
        """Return when the disk is as fast as before."""
        return self.at_s + self.slow_s


class BitFlipParameters(CrashParameters):
    """A bit flips, and then the log is read, or the leader is killed and has to recover it."""

    then: Literal["read", "restart"] = Field(
        default="read", description="what happens next: the log is read as it is, or the leader is killed and recovers its log"
    )

    def ends_s(self) -> float:
        """Return when the leader is started again; at once, where it is not killed."""
        return super().ends_s() if self.then == "restart" else self.at_s
