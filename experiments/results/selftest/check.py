"""Runs the self-test.

Each copy of a real trial has one planted fault. The real Spark job measures all copies at once, and
every copy is compared with the untouched one. In addition the job must refuse invalid ledgers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

import pyarrow as pa

from ackbench.experiments.ledger.result_terms import QUANTILES, Fate, Phase
from ackbench.experiments.ledger.terms import LEDGER_VERSION
from ackbench.experiments.messages.errors import LedgerError
from ackbench.experiments.results.rows import read_table
from ackbench.experiments.results.selftest.ledger_copy import LedgerCopy
from ackbench.experiments.results.selftest.plants import (
    COUNTS,
    PLANTS,
    READ_CONFLICT,
    Figures,
    NoPlaceToPlant,
    Plant,
    PlantContext,
    UndisturbedRecords,
)
from ackbench.experiments.results.spark_job import measure
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.infra.machine.home import Home

TRIAL: Final = "000-broken"
"""The trial with the invalid ledger."""
OTHER: Final = "001-other"
OTHER_SWEEP: Final = "other"
UNTOUCHED: Final = "untouched"
MIN_SUMMARIZED: Final = 5
"""From this many figures with an equal change, only the first and the last are named."""
_PARQUET_MAGIC: Final = b"PAR1"
"""The first bytes of a Parquet file; the header of the first page follows."""
SWEEP: Final = "selftest"
"""The name of the sweep of copies, and of its log."""


@dataclass(frozen=True)
class BrokenLedger:
    """One way to make the ledger of a sealed trial invalid, as disks and copying can."""

    what: str
    damage: Callable[[Path], None]
    message: str
    """What the error message must contain in addition to the trial's id."""


def _truncate(trial: Path) -> None:
    content = (trial / "log.parquet").read_bytes()
    (trial / "log.parquet").write_bytes(content[: len(content) // 2])


def _flip_bit(trial: Path) -> None:
    content = bytearray((trial / "log.parquet").read_bytes())
    content[len(_PARQUET_MAGIC)] ^= 1
    (trial / "log.parquet").write_bytes(content)


def _delete(trial: Path) -> None:
    (trial / "reads.parquet").unlink()


def _take_from_another_trial(trial: Path) -> None:
    other = LedgerCopy.read(trial).write(trial.parents[2] / "other", OTHER)
    (other / "attempts.parquet").replace(trial / "attempts.parquet")


def _take_from_another_sweep(trial: Path) -> None:
    other = LedgerCopy.read(trial).write(trial.parents[2] / OTHER_SWEEP, TRIAL)
    trial.rename(trial.with_suffix(".failed"))
    other.rename(trial)


def _raise_version(trial: Path) -> None:
    record = json.loads((trial / "trial.json").read_text())
    (trial / "trial.json").write_text(json.dumps(record | {"ledger_version": LEDGER_VERSION + 1}))


def _drop_row(trial: Path) -> None:
    ledger = LedgerCopy.read(trial)
    short = LedgerCopy(
        ledger.manifest, {**ledger.tables, "attempts": ledger.tables["attempts"].slice(1)}
    )
    short.write(trial.parents[2] / "short", TRIAL).joinpath("attempts.parquet").replace(
        trial / "attempts.parquet"
    )


BREAKAGES: Final = (
    BrokenLedger("a truncated file", _truncate, "log.parquet cannot be read"),
    BrokenLedger("a flipped bit", _flip_bit, "log.parquet was altered after it was sealed"),
    BrokenLedger("a missing file", _delete, "reads.parquet is missing"),
    BrokenLedger(
        "a file of another trial",
        _take_from_another_trial,
        f"attempts.parquet has ackbench.trial_id={OTHER}",
    ),
    BrokenLedger(
        "a trial of another sweep",
        _take_from_another_sweep,
        f"trial.json is of sweep {OTHER_SWEEP}",
    ),
    BrokenLedger("a newer version", _raise_version, f"ledger version {LEDGER_VERSION + 1}"),
    BrokenLedger("a missing row of the schedule", _drop_row, "attempts.parquet has"),
)
"""Ledgers that the Spark job must refuse."""


@dataclass(frozen=True)
class CheckResult:
    """Whether one planted fault was found."""

    planted: str
    expected: str
    found: str
    ok: bool
    """Whether exactly the expected figures differ."""


def check(
    ledger: LedgerCopy, undisturbed: UndisturbedRecords, folder: Path, home: Home, seed: int
) -> Iterator[CheckResult]:
    """Plant all faults, measure the copies, and yield one result per fault.

    Args:
        ledger: the trial's ledger.
        undisturbed: its undisturbed records.
        folder: an empty folder, which the caller removes.
        home: has the job's caches and logs.
        seed: decides which records are affected.

    Raises:
        HarnessError: the Spark job failed.
        LedgerError: it refused the untouched copy or a copy with a planted fault.
    """
    sweep = SweepFolder(folder / SWEEP)
    ledger.write(sweep.root, UNTOUCHED)
    not_planted: dict[str, str] = {}
    for plant in PLANTS:
        random = Random(f"{seed} {plant.name}")  # noqa: S311 - a sample, no secret
        if reason := _plant(plant, PlantContext(ledger, undisturbed, random), sweep):
            not_planted[plant.name] = reason
    measure(sweep, home)
    figures = _figures(sweep)
    for plant in PLANTS:
        if plant.name in not_planted:
            yield CheckResult(
                plant.what,
                _changes_text(plant.expected),
                f"not planted: {not_planted[plant.name]}",
                ok=False,
            )
        else:
            yield _compared(plant, figures[UNTOUCHED], figures[plant.name])
    yield from (
        _refused(breakage, ledger, folder / f"broken-{number}", home)
        for number, breakage in enumerate(BREAKAGES)
    )


def _plant(plant: Plant, context: PlantContext, sweep: SweepFolder) -> str:
    """Write a copy with the fault; return the reason if the trial has no records for it."""
    try:
        plant.make(context).write(sweep.root, plant.name)
    except NoPlaceToPlant as reason:
        return str(reason)
    return ""


def _figures(sweep: SweepFolder) -> Mapping[str, Mapping[str, int | None]]:
    """Return the figures of each copy by trial, under the names that `plants` uses."""
    figures: dict[str, dict[str, int | None]] = {}
    for row in _rows(sweep, "trials"):
        figures[row["trial_id"]] = {
            **dict.fromkeys(Fate, 0),
            **{name: row[name] for name in COUNTS},
            # Null if no offset was received twice, which the plant changes.
            READ_CONFLICT: row[READ_CONFLICT] or 0,
        }
    for row in _rows(sweep, "fates"):
        figures[row["trial_id"]][row["fate"]] = row["records"]
    for row in _rows(sweep, "latency"):
        if row["phase"] == Phase.ALL:
            figures[row["trial_id"]] |= {
                f"{row['measure']}_{name}_us": row[f"{name}_us"] for name in QUANTILES
            }
    return figures


def _rows(sweep: SweepFolder, name: str) -> list[dict[str, Any]]:
    table: pa.Table = read_table(sweep, name)
    return list(table.to_pylist())


def _compared(
    plant: Plant, untouched: Mapping[str, int | None], planted: Mapping[str, int | None]
) -> CheckResult:
    changes = {
        str(name): _change(untouched.get(name), planted.get(name)) for name in plant.compared
    }
    found = {name: change for name, change in changes.items() if change != 0}
    return CheckResult(
        plant.what,
        _changes_text(plant.expected),
        _changes_text(found),
        ok=found == {str(name): value for name, value in plant.expected.items()},
    )


def _change(before: int | None, after: int | None) -> int | None:
    """Return the change of a figure; `None` if only one of the two is known."""
    if before is None or after is None:
        return 0 if before is after else None
    return after - before


def _changes_text(figures: Figures | Mapping[str, int | None]) -> str:
    """Return the changes as text.

    If many figures have an equal change, only the first and the last are named.
    """
    names, values = list(figures), set(figures.values())
    if len(names) >= MIN_SUMMARIZED and len(values) == 1:
        return f"{names[0]} to {names[-1]} {_change_text(values.pop())} each"
    return (
        ", ".join(f"{name} {_change_text(value)}" for name, value in figures.items()) or "nothing"
    )


def _change_text(value: int | None) -> str:
    return "unknown" if value is None else f"{value:+,}"


def _refused(breakage: BrokenLedger, ledger: LedgerCopy, folder: Path, home: Home) -> CheckResult:
    """Check that the job refuses a damaged copy in one line with the trial and the reason."""
    sweep = SweepFolder(folder / SWEEP)
    breakage.damage(ledger.write(sweep.root, TRIAL))
    message = _error_message(lambda: measure(sweep, home))
    refused = (
        message.startswith(f"trial {TRIAL}: ")
        and breakage.message in message
        and "\n" not in message
        and not sweep.results.exists()
    )
    expected = f"refused: {breakage.message}"
    return CheckResult(
        breakage.what, expected, expected if refused else message or "measured", ok=refused
    )


def _error_message(action: Callable[[], None]) -> str:
    try:
        action()
    except LedgerError as error:
        return str(error)
    return ""
