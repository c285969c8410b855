"""Faults of disks: power loss with what was not synced, its worst case without root, a disk that is full, gone or slow, and a flipped bit."""

from __future__ import annotations

from typing import Final

from experiments.faults.disk import failing, power_loss

KINDS: Final = (*power_loss.KINDS, *failing.KINDS)
