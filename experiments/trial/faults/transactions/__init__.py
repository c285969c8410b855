"""Faults of transactions: a fenced producer, an abandoned transaction, a crashed coordinator.

Also requests of a transactional producer that arrive in its next transaction.
"""

from __future__ import annotations

from typing import Final

from ackbench.experiments.trial.faults.transactions import coordinator, delayed, producers

KINDS: Final = (*producers.KINDS, *coordinator.KINDS, *delayed.KINDS)
