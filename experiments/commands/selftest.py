"""`ackbench selftest`: plant known damage into a real ledger and check that measuring finds it."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pyarrow.fs as pafs

from ackbench.experiments.ledger.digests import InvalidLedger
from ackbench.experiments.ledger.trial_manifest import Status, TrialManifest
from ackbench.experiments.ledger.validation import validate_trial
from ackbench.experiments.messages.console import console_for_results, result_table
from ackbench.experiments.messages.errors import LedgerError
from ackbench.experiments.messages.terminal import echo, echo_error
from ackbench.experiments.results.selftest.check import CheckResult, check
from ackbench.experiments.results.selftest.ledger_copy import LedgerCopy
from ackbench.experiments.results.selftest.plants import (
    RECORDS,
    UndisturbedRecords,
    undisturbed_records,
)
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.published import finished_sweep
from ackbench.infra.errors import HarnessError, InputError
from ackbench.infra.machine.home import Home
from ackbench.infra.machine.scratch import SELFTEST, scratch_folder
from ackbench.infra.process.interrupts import handled_by
from ackbench.infra.process.load_lock import hold_machine_lock_for_command

MIN_UNDISTURBED_RECORDS: Final = 100 * RECORDS
"""What a trial needs for every plant to find records to damage."""
INTERRUPTED: Final = 130


def selftest(home: Home, named: str | None, seed: int) -> int:
    """Plant damage into copies of a sweep's trial and print which of it was found.

    Returns:
        The exit code.

    Raises:
        UnknownName: there is no such sweep, or none at all.
        InputError: the sweep has no suitable trial.
        HarnessError: some damage was not found, or not as planted.
    """
    sweep = finished_sweep(home, named, echo_error)
    ledger, undisturbed = _suitable_trial(sweep)
    records, usable = ledger.tables["attempts"].num_rows, len(undisturbed.log)
    trial = f"trial {ledger.manifest.trial_id} of {sweep.sweep_id}"
    echo(f"{trial}: {records:,} records, {usable:,} of them undisturbed")
    try:
        with (
            handled_by(signal.default_int_handler),  # SIGTERM cleans up as Ctrl-C does
            hold_machine_lock_for_command(home, f"selftest {sweep.sweep_id}", echo_error),
            scratch_folder(home.cache, SELFTEST) as folder,
        ):
            results = list(check(ledger, undisturbed, folder, home, seed))
    except KeyboardInterrupt:
        echo_error("ackbench: interrupted; the copies are removed")
        return INTERRUPTED
    _print(results)
    wrong = [result.planted for result in results if not result.ok]
    if wrong:
        counts = f"{len(wrong)} of {len(results)} planted faults"
        raise HarnessError(f"{counts} were not found as planted: {'; '.join(wrong)}")
    echo(f"{len(results)} of {len(results)} planted faults found, exactly")
    return 0


def _suitable_trial(sweep: SweepFolder) -> tuple[LedgerCopy, UndisturbedRecords]:
    """Return the first sealed trial with enough undisturbed records and a complete consumer.

    Raises:
        InputError: the sweep has none.
        LedgerError: a trial's ledger is incomplete.
    """
    for record in _records(sweep):
        folder = sweep.trial(record.trial_id)
        if record.status is not Status.SEALED or not _rows(sweep, folder)["reads"]:
            continue
        ledger = LedgerCopy.read(folder)
        undisturbed = undisturbed_records(ledger)
        if len(undisturbed.log) >= MIN_UNDISTURBED_RECORDS and _was_read_to_end(ledger):
            return ledger, undisturbed
    needed = f"with {MIN_UNDISTURBED_RECORDS} undisturbed records that was read to its end"
    remedy = "name another sweep, or run `ackbench run quick` first"
    raise InputError(f"sweep {sweep.sweep_id} has no sealed trial {needed}: {remedy}")


def _was_read_to_end(ledger: LedgerCopy) -> bool:
    """Return whether the concurrent consumer reached the end; else missed records are unknown."""
    endings = [
        json.loads(event["detail"])
        for event in ledger.tables["events"].to_pylist()
        if event["kind"] == "consumer_end"
    ]
    return bool(endings) and all(ending["at_end"] for ending in endings)


def _rows(sweep: SweepFolder, folder: Path) -> Mapping[str, int]:
    """Return how many rows each table of a trial has, after validating it as measuring does.

    Raises:
        LedgerError: it is incomplete; the message names the file.
    """
    try:
        return validate_trial(pafs.LocalFileSystem(), str(folder))[1]
    except InvalidLedger as error:
        raise LedgerError(f"{sweep.sweep_id}: {error}") from error


def _records(sweep: SweepFolder) -> Sequence[TrialManifest]:
    try:
        return list(sweep.complete_trials())
    except OSError as error:
        raise InputError(
            f"a trial below {sweep.root / 'trials'} cannot be read: {error}"
        ) from error


def _print(results: Sequence[CheckResult]) -> None:
    table = result_table()
    for head in ("planted", "expected", "found", ""):
        table.add_column(head, overflow="fold")
    for result in results:
        table.add_row(
            result.planted,
            result.expected,
            "the same" if result.found == result.expected else result.found,
            "ok" if result.ok else "NOT FOUND",
            style="" if result.ok else "bold red",
        )
    console_for_results(terminal=sys.stdout.isatty()).print(table)
