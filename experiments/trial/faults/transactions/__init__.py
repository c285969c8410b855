"""Faults of transactions: a fenced producer, an abandoned transaction.

Also requests of a transactional producer that arrive in its next transaction.
"""

from __future__ import annotations

from typing import Final

from ackbench.experiments.trial.faults.transactions import delayed, producers

KINDS: Final = (*producers.KINDS, *delayed.KINDS)
