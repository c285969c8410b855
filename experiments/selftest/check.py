"""The self-test: copies of one real trial, a fault in each, measured in one go by the real job, and compared with the untouched copy."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

import pyarrow as pa

from experiments.errors import LedgerError
from experiments.ledger.result_tables import QUANTILES, Fate, Phase
from experiments.ledger.schema import LEDGER_VERSION
from experiments.results.rows import read_table
from experiments.results.spark_job import measure
from experiments.selftest.ledger_copy import LedgerCopy
from experiments.selftest.plants import (
    DUPLICATE_COPIES,
    MISSED,
    PLANTS,
    REDELIVERED,
    REORDERED,
    Figures,
    NoPlaceToPlant,
    Plant,
    PlantContext,
    UndisturbedRecords,
)
from experiments.sweep.folder import SweepFolder
from infra.machine.home import Home

# ---------- Ledgers that must be refused: broken as a disk, a copy or a mixed-up folder breaks them, and what the refusal must tell.


TRIAL: Final = "000-broken"
OTHER: Final = "001-other"


@dataclass(frozen=True)
class BrokenLedger:
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
    short = LedgerCopy(
        ledger.record, {**ledger.tables, "attempts": ledger.tables["attempts"].slice(1)}
    )
    short.write(trial.parents[2] / "short", TRIAL).joinpath("attempts.parquet").replace(
        trial / "attempts.parquet"
    )


BREAKAGES: Final = (
    BrokenLedger("a file cut short", _cut_short, "log.parquet cannot be read"),
    BrokenLedger("a file missing", _missing, "reads.parquet is missing"),
    BrokenLedger(
        "a file of another trial",
        _of_another_trial,
        f"attempts.parquet is marked ackbench.trial_id={OTHER}",
    ),
    BrokenLedger("a newer version", _newer, f"ledger version {LEDGER_VERSION + 1}"),
    BrokenLedger("a row short of the schedule", _a_row_short, "attempts.parquet holds"),
)


UNTOUCHED: Final = "untouched"
MANY: Final = 5
SWEEP: Final = "selftest"
"""The name of the sweep of copies, and of its log."""


@dataclass(frozen=True)
class CheckResult:
    """What became of one planted fault."""

    planted: str
    expected: str
    found: str
    ok: bool
    """Found exactly, and nothing else with it."""


def check(
    ledger: LedgerCopy, of: UndisturbedRecords, folder: Path, home: Home, seed: int
) -> Iterator[CheckResult]:
    """Plant, measure and compare.

    Args:
        ledger: the trial's.
        of: its calm records.
        folder: an empty one, which the caller removes.
        home: where the job's caches and logs lie.
        seed: decides which records are hit.

    Raises:
        HarnessError: the job did not end well.
        LedgerError: it refused the untouched copy or a planted one.
    """
    sweep = SweepFolder(folder / SWEEP)
    ledger.write(sweep.root, UNTOUCHED)
    without_place: dict[str, str] = {}
    for plant in PLANTS:
        dice = Random(f"{seed} {plant.name}")  # noqa: S311 - no secret hangs on it
        if reason := _plant(plant, PlantContext(ledger, of, dice), sweep):
            without_place[plant.name] = reason
    measure(sweep, home)
    figures = _figures(sweep)
    for plant in PLANTS:
        if plant.name in without_place:
            yield CheckResult(
                plant.what,
                _told(plant.expected),
                f"not planted: {without_place[plant.name]}",
                ok=False,
            )
        else:
            yield _compared(plant, figures[UNTOUCHED], figures[plant.name])
    yield from (
        _refused(breakage, ledger, folder / f"broken-{number}", home)
        for number, breakage in enumerate(BREAKAGES)
    )


def _plant(plant: Plant, scene: PlantContext, sweep: SweepFolder) -> str:
    """Write the copy with the fault in it; return why there is no place for it, if so."""
    try:
        plant.make(scene).write(sweep.root, plant.name)
    except NoPlaceToPlant as reason:
        return str(reason)
    return ""


def _figures(sweep: SweepFolder) -> Mapping[str, Mapping[str, int | None]]:
    """Return what was measured of each copy, under the names that `plants` uses."""
    counts = (DUPLICATE_COPIES, REORDERED, MISSED, REDELIVERED)
    figures: dict[str, dict[str, int | None]] = {}
    for row in _rows(sweep, "trials"):
        figures[row["trial_id"]] = {
            **dict.fromkeys(Fate, 0),
            **{name: row[name] for name in counts},
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
    differ = {
        str(name): _difference(untouched.get(name), planted.get(name)) for name in plant.compared
    }
    found = {name: difference for name, difference in differ.items() if difference != 0}
    return CheckResult(
        plant.what,
        _told(plant.expected),
        _told(found),
        ok=found == {str(name): value for name, value in plant.expected.items()},
    )


def _difference(before: int | None, after: int | None) -> int | None:
    """Return by how much a figure changed; `None`: one of the two is not known."""
    if before is None or after is None:
        return 0 if before is after else None
    return after - before


def _told(figures: Figures | Mapping[str, int | None]) -> str:
    """Return by how much which figures differ; where many do by the same, the first and the last of them stand for all."""
    names, values = list(figures), set(figures.values())
    if len(names) >= MANY and len(values) == 1:
        return f"{names[0]} to {names[-1]} {_change(values.pop())} each"
    return ", ".join(f"{name} {_change(value)}" for name, value in figures.items()) or "nothing"


def _change(value: int | None) -> str:
    return "not known" if value is None else f"{value:+,}"


def _refused(breakage: BrokenLedger, ledger: LedgerCopy, folder: Path, home: Home) -> CheckResult:
    """Break a copy, and see that the job refuses it in one line that names trial and reason."""
    sweep = SweepFolder(folder / SWEEP)
    breakage.harm(ledger.write(sweep.root, TRIAL))
    said = _said(lambda: measure(sweep, home))
    refused = (
        said.startswith(f"trial {TRIAL}: ")
        and breakage.told in said
        and "\n" not in said
        and not sweep.results.exists()
    )
    expected = f"refused: {breakage.told}"
    return CheckResult(
        breakage.what, expected, expected if refused else said or "measured", ok=refused
    )


def _said(attempt: Callable[[], None]) -> str:
    try:
        attempt()
    except LedgerError as error:
        return str(error)
    return ""
