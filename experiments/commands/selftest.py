"""`ackbench selftest`: does the measuring job find what is planted into a real ledger?"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError

from experiments.ledger.record import Status, TrialRecord
from experiments.planning.new_sweep import find_sweep
from experiments.results.tables import console_for_results
from experiments.selftest.check import CheckResult, check
from experiments.selftest.ledger_copy import LedgerCopy
from experiments.selftest.plants import RECORDS, UndisturbedRecords, calm
from experiments.sweep.folder import SweepFolder
from infra.errors import HarnessError, InputError
from infra.machine.home import Home

ENOUGH_CALM_RECORDS: Final = 100 * RECORDS
INTERRUPTED: Final = 130
_FOLDER: Final = ".selftest-"
"""Begins the name of the folder of copies; the pid of its owner follows."""


def selftest(home: Home, named: str | None, seed: int) -> int:
    """Plant faults into copies of a sweep's trial, and print which were found; return the exit code.

    Raises:
        UnknownName: there is no such sweep, or none at all.
        InputError: it has no trial to plant into.
        HarnessError: something planted was not found, or found otherwise.
    """
    sweep = find_sweep(home, named)
    ledger, of = _fit_trial(sweep)
    click.echo(
        f"trial {ledger.record.trial_id} of {sweep.sweep_id}: {ledger.tables['attempts'].num_rows:,} records, {len(of.log):,} of them without any trouble"
    )
    try:
        with _ended_alike(), _folder(home) as folder:
            found = list(check(ledger, of, folder, home, seed))
    except KeyboardInterrupt:
        click.echo("ackbench: interrupted; the copies are removed", err=True)
        return INTERRUPTED
    _print(found)
    wrong = [one.planted for one in found if not one.ok]
    if wrong:
        raise HarnessError(
            f"{len(wrong)} of {len(found)} planted faults were not found as planted: {'; '.join(wrong)}"
        )
    click.echo(f"{len(found)} of {len(found)} planted faults found, exactly")
    return 0


def _fit_trial(sweep: SweepFolder) -> tuple[LedgerCopy, UndisturbedRecords]:
    """Return the first sealed trial, in the order they ran, that a reader read and in which enough records had no trouble."""
    for record in _records(sweep):
        folder = sweep.trial(record.trial_id)
        if (
            record.status is not Status.SEALED
            or not pq.read_metadata(folder / "reads.parquet").num_rows
        ):
            continue
        ledger = LedgerCopy.read(folder)
        of = calm(ledger)
        if len(of.log) >= ENOUGH_CALM_RECORDS and _read_to_the_end(ledger):
            return ledger, of
    wanted = f"that was read to its end and has {ENOUGH_CALM_RECORDS} records without trouble"
    raise InputError(
        f"sweep {sweep.sweep_id} has no sealed trial {wanted}: name another, or `ackbench run quick` first"
    )


def _read_to_the_end(ledger: LedgerCopy) -> bool:
    """Whether the reader along says that it came to the end: else what it missed is not known, planted or not."""
    endings = [
        json.loads(event["detail"])
        for event in ledger.tables["events"].to_pylist()
        if event["kind"] == "reader"
    ]
    return bool(endings) and all(ending["at_end"] for ending in endings)


def _records(sweep: SweepFolder) -> Sequence[TrialRecord]:
    try:
        return list(sweep.whole_trials())
    except (ValidationError, OSError, pa.ArrowInvalid) as error:
        raise InputError(
            f"a trial below {sweep.root / 'trials'} cannot be read: {' '.join(str(error).split())}"
        ) from error


@contextmanager
def _folder(home: Home) -> Iterator[Path]:
    """Yield a folder for the copies, and remove it, and those that killed runs left."""
    home.cache.mkdir(parents=True, exist_ok=True)
    for left in home.cache.glob(f"{_FOLDER}*-*"):
        if not Path("/proc", left.name.removeprefix(_FOLDER).split("-")[0]).exists():
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f"{_FOLDER}{os.getpid()}-", dir=home.cache) as folder:
        yield Path(folder)


@contextmanager
def _ended_alike() -> Iterator[None]:
    """Let SIGTERM and SIGHUP clean up as Ctrl-C does."""
    before = {
        heard: signal.signal(heard, signal.default_int_handler)
        for heard in (signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for heard, was in before.items():
            signal.signal(heard, was)


def _print(found: Sequence[CheckResult]) -> None:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for head in ("planted", "must be found", "found", ""):
        table.add_column(head, overflow="fold")
    for one in found:
        seen = "the same" if one.found == one.expected else one.found
        table.add_row(
            one.planted,
            one.expected,
            seen,
            "ok" if one.ok else "NOT FOUND",
            style="" if one.ok else "bold red",
        )
    console_for_results(terminal=sys.stdout.isatty()).print(table)
