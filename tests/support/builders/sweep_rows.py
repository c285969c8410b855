"""Rows of the tables that a page draws, for a trial that was made by hand."""

from __future__ import annotations

import random
from typing import Any

from experiments.ledger.record import Cell, TrialRecord
from experiments.ledger.result_tables import Measure, OutageStep, Phase, Side
from experiments.results.models import TrialResult

LOAD_S = 10.0
BEGIN_S, HEAL_S = 2.0, 6.0
_NS = 1_000_000_000
_MS = 1_000_000


def has_fault(cell: Cell) -> bool:
    """Say whether a cell's trials have one."""
    return cell["fault"] != "none"


def timeline_rows(record: TrialRecord, dice: random.Random) -> list[dict[str, Any]]:
    """Return what flowed in each slot; nothing while the fault lasted, and then three times as much."""
    down = range(25, 55) if has_fault(record.cell) else range(0)
    rows = []
    for slot in range(110):
        sent = 1000 if slot < 100 else 0
        flowing = (
            0 if slot in down else dice.randint(960, 1040) * (3 if 55 <= slot < 65 and down else 1)
        )
        rows.append(
            {
                "trial_id": record.trial_id,
                "slot": slot,
                "sent_records": sent,
                "acked_records": flowing,
                "read_records": flowing,
            }
        )
    return rows


def histogram_rows(trial: TrialResult, dice: random.Random) -> list[dict[str, Any]]:
    """Return latencies by measure and phase; slow ones only while the fault lasted."""
    phases = (
        [Phase.ALL, Phase.BEFORE, Phase.DURING, Phase.AFTER]
        if has_fault(trial.cell)
        else [Phase.ALL]
    )
    p99_us = trial.latency_ms.ack.p99 * 1000 if trial.latency_ms.ack else 1000.0
    rows = []
    for measure in Measure:
        for phase in phases:
            slow = phase in {Phase.ALL, Phase.DURING}
            slots = sorted({int(1000 * 1.09**step * dice.uniform(1, 1.05)) for step in range(120)})
            kept = [slot for slot in slots if slot < (p99_us * 1.2 if slow else 20_000)]
            rows += [
                _slot(trial.trial_id, measure, phase, low, max(1, int(40_000 * 0.9**place)))
                for place, low in enumerate(kept)
            ]
    return rows


def _slot(trial_id: str, measure: Measure, phase: Phase, low: int, records: int) -> dict[str, Any]:
    return {
        "trial_id": trial_id,
        "measure": measure.value,
        "phase": phase.value,
        "from_us": low,
        "to_us": low + max(1, low // 128),
        "records": records,
    }


def outage_rows(trial: TrialResult) -> list[dict[str, Any]]:
    """Return the marks of the one outage, on both sides; a pause has none within."""
    healthy_ns = int((trial.unavailable_ms or 0) * _MS)
    begin_ns = int((1_700_000_000 + BEGIN_S) * _NS)
    apart = trial.cell["fault"] != "leader-pause"
    shares = {
        OutageStep.LAST_BEFORE: 0.0,
        OutageStep.DETECTED: 0.6,
        OutageStep.ELECTED: 0.63,
        OutageStep.LEARNED: 0.8,
        OutageStep.FIRST_AFTER: 1.0,
    }
    rows = []
    for side in Side:
        for mark, part in shares.items():
            inner = mark not in {OutageStep.LAST_BEFORE, OutageStep.FIRST_AFTER}
            at_ns = begin_ns + int(healthy_ns * part) if apart or not inner else None
            rows.append(
                {
                    "trial_id": trial.trial_id,
                    "partition": 0,
                    "side": side.value,
                    "mark": mark.value,
                    "at_ns": at_ns,
                    "source": "broker" if inner else "ledger",
                    "resolution_ns": _MS if inner else 1000,
                }
            )
    return rows


def attribution_rows(trial: TrialResult) -> list[dict[str, Any]]:
    """Return what the loss is put down to."""
    records = trial.lost[0] if trial.lost else 0
    scene = {
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
            **scene,
            "records": records,
            **at,
        }
    ]
