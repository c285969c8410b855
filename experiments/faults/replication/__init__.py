"""Faults of replication: followers out of sync and what follows when the leader then dies, leadership and replicas moved between live nodes."""

from __future__ import annotations

from typing import Final

from experiments.faults.operations import moves
from experiments.faults.replication import isr

KINDS: Final = (*isr.KINDS, *moves.KINDS)
