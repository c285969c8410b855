"""Every flipped bit of a stored sweep is noticed, and the message names the file."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.bit_flips import damage_found_by_measure, damage_found_by_show, unnoticed_flips
from support.builders.records import a_spec
from support.builders.sweep_folders import (
    TRIAL,
    measured_sweep_folder,
    plant_sweep,
    plant_trials,
    realistic_trial,
)

from ackbench.experiments.commands.show import remarks
from ackbench.experiments.ledger.digests import with_digest, without_digest
from ackbench.experiments.ledger.seal import seal
from ackbench.experiments.pages.report.data import read_report_data
from ackbench.experiments.pages.report.page import render_page
from ackbench.experiments.results.read import read_results
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.infra.machine.home import Home
from ackbench.spark_jobs.io.ledgers import open_ledgers
from ackbench.spark_jobs.io.units import split
from ackbench.spark_jobs.io.writer import write_results
from ackbench.spark_jobs.pipeline import sweep_tables, tables_or_error, verify_and_measure
from ackbench.spark_jobs.planted import PlantedTrial

FLIPS = 12
"""Of each file; `make hostile` flips more."""


@pytest.fixture(name="sweep")
def a_measured_sweep(tmp_path: Path) -> SweepFolder:
    """Return a sweep of two trials, with files of clients, and with results."""
    first = realistic_trial(200)
    sweep = plant_sweep(
        Home(tmp_path), first, *[type(first)("001-other", first.attempts, first.log, first.reads)]
    )
    measure_without_spark(sweep)
    return sweep


def measure_without_spark(sweep: SweepFolder, *, skip_unfit: bool = False) -> None:
    """Write the results that the job writes."""
    ledgers = open_ledgers(str(sweep.root), skip_unfit=skip_unfit)
    tables, left_out = {}, dict(ledgers.left_out)
    for unit in split(ledgers.trials):
        trial_id, measures = verify_and_measure(ledgers.location, unit)
        found = tables_or_error(measures)
        if isinstance(found, Exception):
            left_out[trial_id] = str(found)
        else:
            tables[trial_id] = found
    hashes = {each.manifest.trial_id: each.sha256 for each in ledgers.trials}
    measured = {name: hashes[name] for name in tables}
    write_results(ledgers.files, ledgers.root, sweep_tables(tables), measured, left_out)


@pytest.mark.parametrize("check", [damage_found_by_measure, damage_found_by_show])
def test_every_flipped_bit_of_a_sealed_trial_is_noticed(
    sweep: SweepFolder, check: Callable[[Path], str | None]
) -> None:
    """By `measure`, and by the commands that show what was measured."""
    assert check(sweep.root) is None
    assert unnoticed_flips(sweep.trial(TRIAL), FLIPS, 17, partial(check, sweep.root)) == []


def test_every_flipped_bit_of_the_results_is_noticed(sweep: SweepFolder) -> None:
    """Also of their manifest."""
    check = partial(damage_found_by_show, sweep.root)
    assert unnoticed_flips(sweep.results, 1, 17, check) == []


def test_every_flipped_bit_of_the_plan_is_noticed(sweep: SweepFolder, tmp_path: Path) -> None:
    """Of a folder with nothing else."""
    folder = SweepFolder(tmp_path / "plan-only")
    folder.write_plan(sweep.plan())
    check = partial(damage_found_by_show, folder.root)
    assert check() is None
    assert unnoticed_flips(folder.root, 100, 17, check) == []


def test_a_file_of_a_client_is_covered_by_its_digest_and_may_be_missing(tmp_path: Path) -> None:
    """A published trial has no files of clients, and no figure is computed from them."""
    trial, sealed = realistic_trial(20), tmp_path / "trials" / TRIAL
    log = sealed.with_suffix(".partial") / "clients" / "producer-0.log"
    log.parent.mkdir(parents=True)
    log.write_text("connected")
    seal(sealed.with_suffix(".partial"), sealed, trial.record(tmp_path.name), trial.tables())
    assert damage_found_by_measure(tmp_path) is None
    (sealed / "clients" / log.name).write_text("Connected")
    message = damage_found_by_measure(tmp_path) or ""
    assert "clients/producer-0.log was altered after it was sealed" in message
    (sealed / "clients" / log.name).unlink()
    assert damage_found_by_measure(tmp_path) is None


def test_an_unfit_trial_is_left_out_on_request_and_named(sweep: SweepFolder) -> None:
    """The other trial keeps its figures."""
    log = sweep.trial(TRIAL) / "log.parquet"
    content = bytearray(log.read_bytes())
    content[40] ^= 1
    log.write_bytes(content)
    measure_without_spark(sweep, skip_unfit=True)
    results = read_results(sweep)
    assert (list(results.left_out), results.unmeasured) == ([TRIAL], ())
    assert "log.parquet was altered after it was sealed: its SHA-256" in results.left_out[TRIAL]
    assert pq.read_table(sweep.results / "trials.parquet")["trial_id"].to_pylist() == ["001-other"]


def test_the_terminal_and_the_report_name_a_trial_that_was_left_out(tmp_path: Path) -> None:
    """As a failed trial, with the file and the reason."""
    specs = [a_spec(trial_id=f"{number:03d}-abcdef", repeat=number) for number in range(2)]
    sweep = measured_sweep_folder(Home(tmp_path), "planted", specs, lambda _: {})
    events = sweep.trial("001-abcdef") / "events.parquet"
    events.write_bytes(events.read_bytes()[:-1])
    measure_without_spark(sweep, skip_unfit=True)
    results, named = (
        read_results(sweep),
        "left out of the results: trial 001-abcdef: events.parquet",
    )
    assert [named in line for line in remarks(sweep, results)] == [True]
    assert named in render_page(read_report_data(sweep))
    (cell,) = results.cells
    assert (cell.sealed_trials, cell.failed_trials) == (1, 1)


def test_results_of_another_record_of_a_trial_are_not_shown(sweep: SweepFolder) -> None:
    """A trial that ran again has other figures."""
    path = sweep.trial(TRIAL) / "trial.json"
    document, _ = without_digest(path.read_bytes())
    path.write_text(with_digest(document.decode().replace('"token": 0', '"token": 1')))
    message = damage_found_by_show(sweep.root) or ""
    assert "trial.json is not the one that results/ was computed from" in message


def test_results_of_two_measurements_are_not_mixed(sweep: SweepFolder) -> None:
    """As after a crash between the renames of two tables."""
    trials = (sweep.results / "trials.parquet").read_bytes()
    plant_trials(sweep, PlantedTrial("002-new", realistic_trial(20).attempts))
    measure_without_spark(sweep)
    (sweep.results / "trials.parquet").write_bytes(trials)
    message = damage_found_by_show(sweep.root) or ""
    assert "trials.parquet does not match manifest.json next to it" in message
    assert "ackbench measure" in message


def test_a_ledger_of_version_4_is_read_and_named_as_not_covered(sweep: SweepFolder) -> None:
    """It has the same tables, and no digests."""
    as_version_4(sweep.trial(TRIAL))
    (sweep.results / "manifest.json").unlink()
    assert damage_found_by_measure(sweep.root) is None
    assert read_results(sweep).without_digests == (TRIAL,)


def as_version_4(trial: Path) -> None:
    """Write a trial's files again as ledger version 4 had them."""
    document, _ = without_digest((trial / "trial.json").read_bytes())
    record = json.loads(document) | {"ledger_version": 4}
    del record["files"]
    (trial / "trial.json").write_text(json.dumps(record, indent=1))
    for path in trial.glob("*.parquet"):
        table = pq.read_table(path)
        metadata = {**table.schema.metadata, b"ackbench.ledger_version": b"4"}
        pq.write_table(table.replace_schema_metadata(metadata), path)
