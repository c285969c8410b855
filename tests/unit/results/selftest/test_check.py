"""The self-test without Spark: what it plants, in which records, and what it leaves behind.

`tests/spark/test_selftest.py` tests that every planted fault is found.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pytest
from support.bit_flips import damage_found_by_measure
from support.builders.sweep_folders import TRIAL, plant_sweep, realistic_trial
from support.command_line import ackbench

from ackbench.experiments.ledger.trial_manifest import Status
from ackbench.experiments.ledger.validation import optional_tables, validate_trial
from ackbench.experiments.messages.errors import LedgerError
from ackbench.experiments.results.selftest.check import BREAKAGES, BrokenLedger, _compared
from ackbench.experiments.results.selftest.check import TRIAL as BROKEN
from ackbench.experiments.results.selftest.ledger_copy import LedgerCopy
from ackbench.experiments.results.selftest.plants import (
    PLANTS,
    RECORDS,
    Plant,
    PlantContext,
    undisturbed_records,
)
from ackbench.experiments.sweep.documents import read_trial_manifest
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.infra.machine.home import Home
from ackbench.spark_jobs.io.ledgers import open_ledgers
from ackbench.spark_jobs.planted import PlantedTrial


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """Return a home for this test only."""
    monkeypatch.setenv("ACKBENCH_HOME", str(tmp_path / "a home"))
    return Home(tmp_path / "a home")


@pytest.fixture
def ledger(home: Home) -> LedgerCopy:
    """Return a trial's ledger as the self-test reads it."""
    return LedgerCopy.read(plant_sweep(home, realistic_trial()).trial(TRIAL))


def context(ledger: LedgerCopy, seed: int = 1) -> PlantContext:
    """Return the context in which faults are planted."""
    random = Random(seed)  # noqa: S311 - a sample, no secret
    return PlantContext(ledger, undisturbed_records(ledger), random)


def test_records_with_an_anomaly_are_not_undisturbed(ledger: LedgerCopy) -> None:
    """Lost and duplicated records are left out; the three rows of a record belong together."""
    records = undisturbed_records(ledger)
    ids = [
        ledger.values(name, "seq")[rows].tolist()
        for name, rows in (
            ("attempts", records.attempts),
            ("log", records.log),
            ("reads", records.reads),
        )
    ]
    assert ids[0] == ids[1] == ids[2]
    assert sorted(ids[0]) == [seq for seq in range(2_000) if seq % 100 and seq % 101]


def test_records_of_uncommitted_transactions_are_not_undisturbed(ledger: LedgerCopy) -> None:
    """They have another fate."""
    rows = undisturbed_records(ledger).attempts[:4]
    ends = pa.table(
        {
            "producer": [0, 0],
            "transaction": [0, 1],
            "begin_ns": [0, 0],
            "end_ns": [1, 1],
            "records": [2, 2],
            "error": [0, 0],
        }
    )
    ended = ends.append_column("outcome", pa.array(["committed", "unknown"])).select(
        ledger.tables["transactions"].schema.names
    )
    sent = ledger.changed("attempts", rows, {"transaction": [0, 0, 1, 1]}).appended(
        "transactions", ended
    )
    assert set(undisturbed_records(ledger).attempts.tolist()) - set(
        undisturbed_records(sent).attempts.tolist()
    ) == set(rows[2:].tolist())


def test_reads_of_a_group_do_not_disturb_records(ledger: LedgerCopy) -> None:
    """Only the concurrent consumer's reads are counted."""
    reads = ledger.tables["reads"]
    at = reads.schema.names.index("consumer")
    members = reads.set_column(
        at, reads.schema.field("consumer"), pa.array([1] * reads.num_rows, pa.int32())
    )
    assert (
        undisturbed_records(ledger.appended("reads", members)).reads.tolist()
        == undisturbed_records(ledger).reads.tolist()
    )


def test_out_of_order_records_are_not_undisturbed(ledger: LedgerCopy) -> None:
    """Both the reordered record and the one before it are left out."""
    rows = undisturbed_records(ledger).log[4:6]
    one, other = ledger.values("log", "seq")[rows].tolist()
    swapped = undisturbed_records(ledger.changed("log", rows, {"seq": [other, one]}))
    assert set(undisturbed_records(ledger).attempts.tolist()) - set(swapped.attempts.tolist()) == {
        one,
        other,
    }


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_a_planted_ledger_is_valid(plant: Plant, ledger: LedgerCopy, tmp_path: Path) -> None:
    """It passes the job's checks, and differs from the untouched ledger."""
    planted = plant.make(context(ledger))
    planted.write(tmp_path / "sweep", "000-planted")
    (opened,) = open_ledgers(str(tmp_path / "sweep")).trials
    assert (opened.log_rows, planted.tables == ledger.tables) == (
        planted.tables["log"].num_rows,
        False,
    )


def test_the_copy_of_a_ledger_with_the_brokers_batches_is_valid(home: Home, tmp_path: Path) -> None:
    """It has the tables of each ledger and no others, and its record says so."""
    trial = replace(realistic_trial(), batches=[])
    sweep = plant_sweep(home, trial)
    LedgerCopy.read(sweep.trial(TRIAL)).write(tmp_path, TRIAL)

    manifest = read_trial_manifest(tmp_path / "trials" / TRIAL)
    assert optional_tables(read_trial_manifest(sweep.trial(TRIAL))) == ("batches",)
    assert optional_tables(manifest) == ()
    validate_trial(pafs.LocalFileSystem(), str(tmp_path / "trials" / TRIAL))


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_equal_seeds_plant_the_same(plant: Plant, ledger: LedgerCopy) -> None:
    """A fault that was not found can be reproduced."""
    one, same = plant.make(context(ledger)), plant.make(context(ledger))
    assert all(one.tables[name].equals(same.tables[name]) for name in one.tables)


def test_seeds_decide_which_records_are_affected(ledger: LedgerCopy) -> None:
    """Another seed selects other records, and as many."""
    samples = [set(context(ledger, seed).sample().log.tolist()) for seed in (1, 2)]
    assert (samples[0] != samples[1], [len(rows) for rows in samples]) == (True, [RECORDS, RECORDS])


@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda breakage: breakage.what)
def test_an_invalid_ledger_is_refused_in_one_line(
    breakage: BrokenLedger, ledger: LedgerCopy, tmp_path: Path
) -> None:
    """The line has the trial, and the words that the self-test expects."""
    breakage.damage(ledger.write(tmp_path / "sweep", BROKEN))
    refusal = damage_found_by_measure(tmp_path / "sweep") or "measured"
    assert (
        refusal.startswith(f"trial {BROKEN}: "),
        breakage.message in refusal,
        "\n" in refusal,
    ) == (True, True, False)


def test_without_a_sweep_the_message_names_the_first_command(home: Home) -> None:
    """It is one line, with exit code 2."""
    result = ackbench("selftest")
    assert (result.exit_code, result.stderr) == (
        2,
        f"ackbench: no sweep in {home.sweeps} yet: start with `ackbench run quick`\n",
    )


@pytest.mark.parametrize(
    "trial",
    [
        pytest.param(realistic_trial(40), id="too few records"),
        pytest.param(replace(realistic_trial(), reads=()), id="no reads"),
        pytest.param(replace(realistic_trial(), events=()), id="no evidence of a complete read"),
        pytest.param(replace(realistic_trial(), status=Status.VOID), id="void"),
    ],
)
def test_a_sweep_without_a_suitable_trial_is_refused(trial: PlantedTrial, home: Home) -> None:
    """The message is one line, with exit code 2, and no file is left behind."""
    plant_sweep(home, trial)
    result = ackbench("selftest")
    assert (
        result.exit_code,
        result.stderr.count("\n"),
        "has no sealed trial with 700 undisturbed records that was read" in result.stderr,
    ) == (2, 1, True), result.stderr
    assert not home.cache.exists()


@pytest.mark.parametrize("error", [KeyboardInterrupt, LedgerError])
def test_the_copies_are_removed_after_an_interrupt_or_error(
    error: type[BaseException], home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sweep is not changed."""
    sweep, copies_per_run = plant_sweep(home, realistic_trial()), list[int]()

    def interrupted(copies: SweepFolder, _: Home) -> None:
        copies_per_run.append(len(list((copies.root / "trials").iterdir())))
        raise error

    monkeypatch.setattr("ackbench.experiments.results.selftest.check.measure", interrupted)
    before = {path: path.stat().st_mtime_ns for path in sweep.root.rglob("*")}
    result = ackbench("selftest")
    assert (result.exit_code, copies_per_run) == (
        130 if error is KeyboardInterrupt else 2,
        [len(PLANTS) + 1],
    )
    assert (
        list(home.cache.glob(".selftest-*")),
        {path: path.stat().st_mtime_ns for path in sweep.root.rglob("*")},
    ) == ([], before)


def test_a_figure_that_becomes_unknown_counts_as_a_change() -> None:
    """A known figure that becomes null is not equal."""
    found = _compared(
        PLANTS[0],
        {"LOST": 2, "DELIVERED_ONCE": 9, "missed_records": 0},
        {"LOST": 9, "DELIVERED_ONCE": 2, "missed_records": None},
    )
    assert (found.ok, found.found) == (False, "DELIVERED_ONCE -7, LOST +7, missed_records unknown")


def test_a_job_that_finds_nothing_fails_the_selftest(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit code is 1, and the message lists what was not found."""
    plant_sweep(home, realistic_trial())
    monkeypatch.setattr("ackbench.experiments.results.selftest.check.measure", lambda *_: None)
    monkeypatch.setattr(
        "ackbench.experiments.results.selftest.check._rows",
        lambda sweep, name: _trials_without_anomalies(sweep) if name == "trials" else [],
    )
    result = ackbench("selftest")
    assert (
        result.exit_code,
        "planted faults were not found as planted" in result.stderr,
        "removed from the log" in result.stderr,
    ) == (1, True, True)


def _trials_without_anomalies(sweep: SweepFolder) -> list[dict[str, object]]:
    trials = sorted(path.name for path in (sweep.root / "trials").iterdir())
    return [
        {
            "trial_id": trial,
            "duplicates": 0,
            "reordered_records": 0,
            "missed_records": 0,
            "redelivered_reads": 0,
            "lost_reads": 0,
            "conflicting_reads": None,
        }
        for trial in trials
    ]


def test_changing_some_rows_keeps_the_others(ledger: LedgerCopy) -> None:
    """Nulls and types stay."""
    changed = ledger.changed(
        "attempts", undisturbed_records(ledger).attempts[:2], {"outcome": "unknown", "offset": 5}
    )
    assert (changed.tables["attempts"].schema, changed.tables["attempts"]["offset"].null_count) == (
        ledger.tables["attempts"].schema,
        1_998,
    )
    assert pc.value_counts(changed.tables["attempts"]["outcome"].cast(pa.string())).to_pylist() == [
        {"values": "acked", "counts": 1_998},
        {"values": "unknown", "counts": 2},
    ]
