"""Faults of the network in the kernel: nodes cut off from each other or from the clients, and traffic that is late, lost or limited."""

from __future__ import annotations

from typing import Final

from experiments.faults.network import isolation, quality

KINDS: Final = (*isolation.KINDS, *quality.KINDS)
