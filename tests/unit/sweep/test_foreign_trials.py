"""A trial that was copied from another sweep is left out, named, and run again on resume."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.builders.records import a_spec, no_rows, record_of
from support.builders.result_tables import write_results
from support.builders.sweep_folders import measured_sweep_folder

from ackbench.experiments.commands.api.sweeps import Sweep
from ackbench.experiments.commands.show import remarks
from ackbench.experiments.ledger.location import Location
from ackbench.experiments.ledger.seal import seal
from ackbench.experiments.messages.errors import LedgerError
from ackbench.experiments.pages.live.sweep import SweepFollower
from ackbench.experiments.pages.report.data import read_report_data
from ackbench.experiments.pages.report.page import render_page
from ackbench.experiments.results.comparing.findings import NoResult, TrialsMissing
from ackbench.experiments.results.comparing.gate import Gate
from ackbench.experiments.results.read import read_results
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.progress import ProgressReader
from ackbench.experiments.sweep.published import (
    fetch_sweep,
    keep_store,
    open_store,
    publish_plan,
    publish_sweep,
    publish_trial,
)
from ackbench.experiments.sweep.several_hosts import fetch_trials, is_published, resume
from ackbench.infra.machine.home import Home
from ackbench.spark_jobs.io.ledgers import InvalidLedger, open_ledgers
from ackbench.spark_jobs.planted import PlantedAttempt, PlantedTrial

FIRST, SECOND = "000-abcdef", "001-abcdef"
YESTERDAY, TODAY = "yesterday-20260101T000000-abcd", "today-20260101T000000-abcd"
REASON = f"trial {SECOND}: trial.json is of sweep {YESTERDAY}: it was copied from there"


def a_night(home: Home, name: str) -> SweepFolder:
    """Return a measured sweep of two sealed trials of one cell."""
    specs = [
        a_spec(trial_id=name, experiment="x", repeat=n, order=n)
        for n, name in enumerate((FIRST, SECOND))
    ]
    return measured_sweep_folder(home, name, specs, lambda _: {})


def copy_from_yesterday(sweep: SweepFolder, home: Home) -> None:
    """Replace a trial by that of another night, whose id is the same."""
    shutil.rmtree(sweep.trial(SECOND), ignore_errors=True)
    shutil.copytree(SweepFolder(home.sweeps / YESTERDAY).trial(SECOND), sweep.trial(SECOND))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Return a home with the sweep of another night."""
    home = Home(tmp_path / "home")
    a_night(home, "yesterday")
    return home


@pytest.fixture
def sweep(home: Home) -> SweepFolder:
    """Return a sweep whose second trial is of another night, and whose results were computed."""
    sweep = a_night(home, "today")
    copy_from_yesterday(sweep, home)
    write_results(sweep, {FIRST: {}})
    return sweep


def test_its_reason_is_shown_where_results_are_shown(sweep: SweepFolder) -> None:
    """As that of a failed trial: by `show`, the report and the API."""
    results = read_results(sweep)
    assert results.left_out == {SECOND: REASON}
    (trial,) = (trial for trial in results.trials if trial.status == "failed")
    assert (trial.trial_id, trial.reason) == (SECOND, f"left out of the results: {REASON}")
    assert sum(REASON in line for line in remarks(sweep, results)) == 1
    assert REASON in render_page(read_report_data(sweep))
    (reason,) = Sweep(sweep, results).trials.query("status == 'failed'")["reason"]
    assert REASON in reason


def test_it_is_no_trial_of_its_cell_and_of_the_gate(sweep: SweepFolder) -> None:
    """The other one is judged alone."""
    results = read_results(sweep)
    (cell,) = results.cells
    assert (cell.sealed_trials, cell.failed_trials, cell.planned_trials) == (1, 1, 2)
    assert all(SECOND not in judgement.trials for judgement in cell.judgements)
    assert list(Gate.parse(["violated"]).sweep_failures(results)) == [
        TrialsMissing(TODAY, NoResult.FAILED, (SECOND,))
    ]


def test_it_is_not_complete(sweep: SweepFolder) -> None:
    """So a resumed sweep runs it, and its progress counts it when that has happened."""
    assert (sweep.complete_ids(), sweep.pending()) == ((FIRST,), (SECOND,))
    assert [record.trial_id for record in sweep.complete_trials()] == [FIRST]
    reader = ProgressReader(sweep, sweep.plan())
    assert reader.read().done == 1
    resume(sweep, complete=True)
    PlantedTrial(SECOND, [PlantedAttempt(0, 0)]).plant(sweep.root)
    progress = reader.read()
    assert (progress.done, progress.failed) == (2, 0)
    assert (sweep.complete_ids(), sweep.pending()) == ((FIRST, SECOND), ())


def test_resuming_lets_it_count_as_failed_with_its_reason(sweep: SweepFolder) -> None:
    """Nothing of it is deleted."""
    assert list(resume(sweep, complete=True)) == [f"counts as failed, and is run again: {REASON}"]
    assert sweep.failure_reason(SECOND) == REASON
    assert (sweep.failed(SECOND) / "log.parquet").is_file()
    assert not sweep.trial(SECOND).exists()


def test_it_is_not_measured(sweep: SweepFolder) -> None:
    """The job names it, or leaves it out on request."""
    with pytest.raises(InvalidLedger, match=f"^{REASON}$"):
        open_ledgers(str(sweep.root))
    ledgers = open_ledgers(str(sweep.root), skip_unfit=True)
    assert [ledger.manifest.trial_id for ledger in ledgers.trials] == [FIRST]
    assert ledgers.left_out == {SECOND: REASON}


def test_results_that_were_computed_with_it_are_not_shown(home: Home) -> None:
    """The message says how to compute them again."""
    sweep = a_night(home, "today")
    copy_from_yesterday(sweep, home)
    with pytest.raises(
        LedgerError,
        match=f"^{TODAY}: {REASON}; results/ was computed with it: ackbench measure {TODAY} "
        "--skip-unfit$",
    ):
        read_results(sweep)


def test_a_trial_that_the_plan_does_not_have_is_listed_and_in_no_cell(sweep: SweepFolder) -> None:
    """It has no values either."""
    PlantedTrial("009-abcdef", [PlantedAttempt(0, 0)]).plant(sweep.root)
    results = read_results(sweep)
    listed = {trial.trial_id: trial for trial in results.trials}
    assert (listed["009-abcdef"].status.value, listed["009-abcdef"].cell) == ("failed", {})
    assert "trial.json is of no trial that plan.json has" in str(listed["009-abcdef"].reason)
    assert results.cells[0].failed_trials == 1
    assert REASON in render_page(read_report_data(sweep))


def test_a_live_sweep_names_it_until_it_was_run(sweep: SweepFolder) -> None:
    """As a trial without a valid ledger."""
    follower = SweepFollower(sweep)
    ended = follower.read().ended[0]
    assert (ended.outcome, ended.remark) == ("damaged", REASON)
    sweep.fail_foreign_trials()
    PlantedTrial(SECOND, [PlantedAttempt(0, 0)]).plant(sweep.root)
    assert follower.read().ended[0].outcome == "sealed"
    follower.close()


def test_a_sweep_in_a_store_is_read_without_it(home: Home, tmp_path: Path) -> None:
    """Wherever it was put: into the store itself, or into a folder that was published."""
    sweep = a_night(home, "today")
    target = open_store(str(tmp_path / "store")).at(sweep.sweep_id)
    publish_sweep(sweep, target)
    _put_into_store(home, target)
    target.delete("results/manifest.json")
    write_results(sweep, {FIRST: {}})
    for table in sweep.results.iterdir():
        target.upload(table, f"results/{table.name}")
    fetched = fetch_sweep(home, target.uri)
    assert read_results(fetched).left_out == {SECOND: REASON}
    assert open_ledgers(target.uri, skip_unfit=True).left_out == {SECOND: REASON}


def test_it_is_not_published(sweep: SweepFolder, tmp_path: Path) -> None:
    """A store gets the trials of the plan only."""
    target = open_store(str(tmp_path / "store")).at(sweep.sweep_id)
    publish_sweep(sweep, target)
    assert not any(name.startswith(f"trials/{SECOND}/") for name in target.list_files())


def test_several_hosts_run_it_although_the_store_has_it(home: Home, tmp_path: Path) -> None:
    """The trial that is run replaces it there."""
    sweep = a_night(home, "today")
    store = open_store(str(tmp_path / "store"))
    keep_store(sweep, store, several_hosts=True)
    target = store.at(sweep.sweep_id)
    publish_plan(sweep, target)
    _put_into_store(home, target)
    shutil.rmtree(sweep.trial(SECOND))
    assert not is_published(sweep, SECOND)
    assert fetch_trials(sweep) == ()
    assert sweep.failure_reason(SECOND) == REASON
    spec = sweep.plan().trial(SECOND)
    sweep.partial(SECOND).mkdir()
    seal(sweep.partial(SECOND), sweep.trial(SECOND), record_of(spec), no_rows())
    publish_trial(sweep, SECOND, target)
    assert is_published(sweep, SECOND)


def _put_into_store(home: Home, target: Location) -> None:
    for path in SweepFolder(home.sweeps / YESTERDAY).trial(SECOND).iterdir():
        target.upload(path, f"trials/{SECOND}/{path.name}")
