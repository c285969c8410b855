"""Faults of server processes: crashes, clean shutdowns, pauses, and restarts in a row.

Which of them loses or duplicates records, and why: KIP-101 (an old leader truncates its log to the
leader epoch when it rejoins), KIP-98 (idempotent producers), KIP-966 (eligible leader replicas),
and `docs/faults.md`. A fault of one signal is a target (`targets`) times an action (`actions`);
faults of several signals are scripts of their own (`actions`, `restarts`). Faults of ZooKeeper
servers (`zookeeper`) form a family of their own.
"""

from __future__ import annotations

from typing import Final

from ackbench.experiments.trial.faults.process import actions, restarts

KINDS: Final = (*actions.KINDS, *restarts.KINDS)
