"""Faults that an administrator causes on healthy nodes.

Leaders and replicas are moved, partitions added, a topic recreated, a node replaced; and what the
user's own commands do (`commands.command_kind`).
"""

from __future__ import annotations

from typing import Final

from ackbench.experiments.trial.faults.operations import moves, topology

KINDS: Final = (*moves.KINDS, *topology.KINDS)
