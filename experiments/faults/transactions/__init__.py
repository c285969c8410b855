"""Faults of transactions: a fenced producer, an abandoned transaction, a crashed coordinator."""

from __future__ import annotations

from typing import Final

from experiments.faults.transactions import coordinator, producers

KINDS: Final = (*producers.KINDS, *coordinator.KINDS)
