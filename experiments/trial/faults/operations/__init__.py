"""Faults that an administrator causes on healthy nodes.

Leaders and replicas are moved, those of a group's offsets too, partitions added, a topic recreated,
a node replaced; and what the user's own commands do (`commands.command_kind`).
"""

from __future__ import annotations

from typing import Final

from ackbench.experiments.trial.faults.operations import moves, offsets, topology

KINDS: Final = (*moves.KINDS, *offsets.KINDS, *topology.KINDS)
