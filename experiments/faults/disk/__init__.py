"""Faults of disks: power loss with what was not synced, its worst case without root, a disk that is full, gone or slow, and a flipped bit."""

from __future__ import annotations

from typing import Final

from experiments.faults.disk import corruption, failing, power, recovery_point

KINDS: Final = (*power.KINDS, *recovery_point.KINDS, *failing.KINDS, *corruption.KINDS)
