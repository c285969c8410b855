"""Faults of processes: a signal to one node or to several, a leader that dies ahead of its followers, and restarts in a row.

Which of these loses or duplicates what: KIP-101 (truncation to the leader epoch when an old leader rejoins),
KIP-98 (idempotent producers), KIP-966 (eligible leader replicas), and `docs/faults.md`.
"""

from __future__ import annotations

from typing import Final

from experiments.faults.process import actions, restarts

KINDS: Final = (*actions.KINDS, *restarts.KINDS)
