"""Faults of replication: followers out of sync, and what follows when the leader then crashes.

Leadership and replicas that an administrator moves are `experiments.trial.faults.operations.moves`.
"""

from __future__ import annotations

from typing import Final

from ackbench.experiments.trial.faults.replication import isr

KINDS: Final = isr.KINDS
