"""Rows of the tables that the report draws, for a trial of a test."""

from __future__ import annotations

import random
from typing import Any

from ackbench.experiments.ledger.result_terms import LatencyKind, OutageStep, Phase, Side
from ackbench.experiments.ledger.trial_manifest import Cell, TrialManifest
from ackbench.experiments.results.models import TrialResult

LOAD_S = 10.0
FAULT_BEGIN_S, FAULT_END_S = 2.0, 6.0
_NS = 1_000_000_000
_MS = 1_000_000


def has_fault(cell: Cell) -> bool:
    """Return whether a cell's trials have a fault."""
    return cell["fault"] != "none"


def timeline_rows(manifest: TrialManifest, rng: random.Random) -> list[dict[str, Any]]:
    """Return the timeline: no records during the fault, and three times as many after it."""
    down = range(25, 55) if has_fault(manifest.cell) else range(0)
    rows = []
    for slot in range(110):
        sent = 1000 if slot < 100 else 0
        flowing = 0
        if slot not in down:
            flowing = rng.randint(960, 1040) * (3 if 55 <= slot < 65 and down else 1)
        rows.append(
            {
                "trial_id": manifest.trial_id,
                "slot": slot,
                "sent_records": sent,
                "acked_records": flowing,
                "read_records": flowing,
            }
        )
    return rows


def histogram_rows(trial: TrialResult, rng: random.Random) -> list[dict[str, Any]]:
    """Return latencies by measure and phase; they are slow only during the fault."""
    phases = (
        [Phase.ALL, Phase.BEFORE, Phase.DURING, Phase.AFTER]
        if has_fault(trial.cell)
        else [Phase.ALL]
    )
    p99_us = trial.latency_ms.ack.p99 * 1000 if trial.latency_ms.ack else 1000.0
    rows = []
    for measure in LatencyKind:
        for phase in phases:
            slow = phase in {Phase.ALL, Phase.DURING}
            slots = sorted({int(1000 * 1.09**step * rng.uniform(1, 1.05)) for step in range(120)})
            kept = [slot for slot in slots if slot < (p99_us * 1.2 if slow else 20_000)]
            rows += [
                _slot(trial.trial_id, measure, phase, low, max(1, int(40_000 * 0.9**index)))
                for index, low in enumerate(kept)
            ]
    return rows


def _slot(
    trial_id: str, measure: LatencyKind, phase: Phase, low: int, records: int
) -> dict[str, Any]:
    return {
        "trial_id": trial_id,
        "measure": measure.value,
        "phase": phase.value,
        "from_us": low,
        "to_us": low + max(1, low // 128),
        "records": records,
    }


def outage_rows(trial: TrialResult) -> list[dict[str, Any]]:
    """Return the steps of one outage on both sides; in a pause no inner step is observed."""
    outage_ns = int((trial.unavailable_ms or 0) * _MS)
    begin_ns = int((1_700_000_000 + FAULT_BEGIN_S) * _NS)
    is_split = trial.cell["fault"] != "leader-pause"
    shares = {
        OutageStep.LAST_BEFORE: 0.0,
        OutageStep.DETECTED: 0.6,
        OutageStep.ELECTED: 0.63,
        OutageStep.LEARNED: 0.8,
        OutageStep.FIRST_AFTER: 1.0,
    }
    rows = []
    for side in Side:
        for step, share in shares.items():
            inner = step not in {OutageStep.LAST_BEFORE, OutageStep.FIRST_AFTER}
            at_ns = begin_ns + int(outage_ns * share) if is_split or not inner else None
            rows.append(
                {
                    "trial_id": trial.trial_id,
                    "partition": 0,
                    "side": side.value,
                    "began_ns": begin_ns,
                    "longest": True,
                    "step": step.value,
                    "at_ns": at_ns,
                    "source": "broker" if inner else "ledger",
                    "resolution_ns": _MS if inner else 1000,
                }
            )
    return rows


def attribution_rows(trial: TrialResult) -> list[dict[str, Any]]:
    """Return the cause of the loss."""
    records = trial.lost[0] if trial.lost else 0
    context = {
        "phase": "during",
        "leader": 1,
        "leader_epoch": 5,
        "isr": "1",
        "cause": "TRUNCATED",
        "truncated_to": 88_120,
        "truncated_by": 1,
    }
    at = {
        "first_offset": 88_120,
        "last_offset": 88_120 + records - 1,
        "first_at_ns": 1_700_000_002 * _NS,
        "last_at_ns": 1_700_000_002 * _NS + 5,
    }
    return [
        {
            "trial_id": trial.trial_id,
            "kind": "LOST",
            "partition": 0,
            **context,
            "records": records,
            **at,
        }
    ]
