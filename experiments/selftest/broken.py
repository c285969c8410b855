"""Ledgers that must be refused: broken as a disk, a copy or a mixed-up folder breaks them, and what the refusal must tell."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from experiments.ledger.schema import LEDGER_VERSION
from experiments.selftest.copies import LedgerCopy

TRIAL: Final = "000-broken"
OTHER: Final = "001-other"


@dataclass(frozen=True)
class Breakage:
    """One way to break a sealed trial."""

    what: str
    harm: Callable[[Path], None]
    told: str
    """What the one line must hold besides the trial's id."""


def _cut_short(trial: Path) -> None:
    whole = (trial / "log.parquet").read_bytes()
    (trial / "log.parquet").write_bytes(whole[: len(whole) // 2])


def _missing(trial: Path) -> None:
    (trial / "reads.parquet").unlink()


def _of_another_trial(trial: Path) -> None:
    other = LedgerCopy.read(trial).write(trial.parents[2] / "other", OTHER)
    (other / "attempts.parquet").replace(trial / "attempts.parquet")


def _newer(trial: Path) -> None:
    record = json.loads((trial / "trial.json").read_text())
    (trial / "trial.json").write_text(json.dumps(record | {"ledger_version": LEDGER_VERSION + 1}))


def _a_row_short(trial: Path) -> None:
    ledger = LedgerCopy.read(trial)
    short = LedgerCopy(ledger.record, {**ledger.tables, "attempts": ledger.tables["attempts"].slice(1)})
    short.write(trial.parents[2] / "short", TRIAL).joinpath("attempts.parquet").replace(trial / "attempts.parquet")


BREAKAGES: Final = (
    Breakage("a file cut short", _cut_short, "log.parquet cannot be read"),
    Breakage("a file missing", _missing, "reads.parquet is missing"),
    Breakage("a file of another trial", _of_another_trial, f"attempts.parquet is marked ackbench.trial_id={OTHER}"),
    Breakage("a newer version", _newer, f"ledger version {LEDGER_VERSION + 1}"),
    Breakage("a row short of the schedule", _a_row_short, "attempts.parquet holds"),
)
