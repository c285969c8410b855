"""Faults of disks: power loss, and disks that are full, removed, slow or corrupted.

`power_loss` also has the worst case of a power loss that needs no root.
"""

from __future__ import annotations

from typing import Final

from ackbench.experiments.trial.faults.disk import failing, power_loss

KINDS: Final = (*power_loss.KINDS, *failing.KINDS)
