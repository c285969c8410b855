"""Faults of transactions: a producer that is fenced, one that leaves its transaction open, and the crash of the node that decides."""

from __future__ import annotations

from typing import Final

from experiments.faults.transactions import coordinator, producers

KINDS: Final = (*producers.KINDS, *coordinator.KINDS)
