"""Published sweeps: uploaded in an order that readers can rely on, and read from copies."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pyarrow.fs as pafs
import pytest
from support.builders.records import a_spec
from support.builders.sweep_folders import measured_sweep_folder

from ackbench.experiments.ledger.documents import without_version
from ackbench.experiments.ledger.location import Location, LocationError, open_location
from ackbench.experiments.ledger.validation import sealed_folders
from ackbench.experiments.messages.errors import LedgerError, StorageError, UnknownName
from ackbench.experiments.pages.report.data import read_report_data
from ackbench.experiments.results.read import read_results
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.published import (
    fetch_sweep,
    keep_store,
    open_store,
    open_sweep,
    publish_plan,
    publish_sweep,
    publish_trial,
    published_location,
    published_uri,
)
from ackbench.infra.machine.home import Home

FIRST, SECOND = "000-abcdef", "001-abcdef"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Return a new home."""
    return Home(tmp_path / "home")


@pytest.fixture
def sweep(home: Home) -> SweepFolder:
    """Return a measured sweep of two sealed trials."""
    specs = [a_spec(trial_id=name, label=name, order=n) for n, name in enumerate((FIRST, SECOND))]
    return measured_sweep_folder(home, "planted", specs, lambda _: {"lost_low_records": 1})


@pytest.fixture
def store(tmp_path: Path) -> Location:
    """Return an empty store in a folder with a space in its name."""
    return open_store(str(tmp_path / "a store"))


@pytest.fixture
def target(sweep: SweepFolder, store: Location) -> Location:
    """Return the location of the sweep in the store."""
    return store.at(sweep.sweep_id)


class Uploads:
    """Records the uploads to a location, and fails the one of a file."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fails: str = "") -> None:
        self.names: list[str] = []
        self.fails = fails
        original = Location.upload

        def upload(location: Location, source: Path, name: str) -> None:
            if self.fails and name.endswith(self.fails):
                raise LocationError(f"{location.uri}: the store does not answer")
            original(location, source, name)
            self.names.append(name)

        monkeypatch.setattr(Location, "upload", upload)


def test_the_record_of_a_trial_is_uploaded_last(
    sweep: SweepFolder, target: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An object store has no rename: the last object decides whether the trial is there."""
    uploads = Uploads(monkeypatch)
    publish_trial(sweep, FIRST, target)
    local = {f"trials/{FIRST}/{path.name}" for path in sweep.trial(FIRST).iterdir()}
    assert uploads.names[-1] == f"trials/{FIRST}/trial.json"
    assert set(uploads.names) == local == set(target.list_files())


def test_a_partly_published_trial_is_not_there(
    home: Home, sweep: SweepFolder, target: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sweep is readable, without it."""
    publish_plan(sweep, target)
    publish_trial(sweep, FIRST, target)
    uploads = Uploads(monkeypatch, fails="log.parquet")
    with pytest.raises(StorageError, match="the store does not answer"):
        publish_trial(sweep, SECOND, target)
    fetched = fetch_sweep(home, target.uri)

    assert f"trials/{SECOND}/attempts.parquet" in uploads.names
    assert [record.trial_id for record in fetched.complete_trials()] == [FIRST]
    assert read_results(fetched).pending == (SECOND,)
    assert [
        Path(folder).name for folder in sealed_folders(target.files, target.path, published=True)
    ] == [FIRST]


def test_a_published_trial_is_not_uploaded_again(
    sweep: SweepFolder, target: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sealed trial does not change."""
    publish_trial(sweep, FIRST, target)
    uploads = Uploads(monkeypatch)
    publish_trial(sweep, FIRST, target)
    assert uploads.names == []


def test_another_trial_of_the_same_id_is_replaced_record_first(
    sweep: SweepFolder, target: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old record must not stand for the new tables."""
    publish_trial(sweep, FIRST, target)
    record = sweep.trial(FIRST) / "trial.json"
    record.write_text(record.read_text().replace('"seed": ', '"seed": 1'))
    uploads = Uploads(monkeypatch, fails="log.parquet")
    with pytest.raises(StorageError):
        publish_trial(sweep, FIRST, target)
    assert f"trials/{FIRST}/trial.json" not in target.list_files()
    uploads.fails = ""
    publish_trial(sweep, FIRST, target)
    assert target.read(f"trials/{FIRST}/trial.json") == record.read_bytes()


def test_a_published_sweep_has_the_results_of_the_local_one(
    home: Home, sweep: SweepFolder, target: Location
) -> None:
    """Show, compare and report read the same values."""
    publish_sweep(sweep, target)
    fetched = fetch_sweep(home, target.uri)
    assert read_results(fetched) == read_results(sweep)
    folders = {read_report_data(one).folder for one in (fetched, sweep)}
    assert folders == {target.uri, str(sweep.root)}
    assert replace(read_report_data(fetched), folder=str(sweep.root)) == read_report_data(sweep)
    assert (fetched.sweep_id, fetched.argument) == (sweep.sweep_id, target.uri)


def test_the_large_tables_stay_in_the_store(
    home: Home, sweep: SweepFolder, target: Location
) -> None:
    """The results validate their footers there."""
    publish_sweep(sweep, target)
    fetched = fetch_sweep(home, target.uri)
    assert {path.name for path in fetched.trial(FIRST).iterdir()} == {
        "trial.json",
        "events.parquet",
    }
    target.delete(f"trials/{FIRST}/log.parquet")
    with pytest.raises(LedgerError, match=f"trial {FIRST}: log.parquet is missing"):
        read_results(fetched)


def test_publishing_again_changes_nothing(sweep: SweepFolder, target: Location) -> None:
    """Whatever was published before."""
    publish_sweep(sweep, target)
    before = {name: target.read(name) for name in target.list_files()}
    publish_sweep(sweep, target)
    assert {name: target.read(name) for name in target.list_files()} == before


def test_what_describes_the_run_on_this_machine_is_not_published(
    sweep: SweepFolder, store: Location, target: Location
) -> None:
    """The machine's properties belong to the figures and are."""
    keep_store(sweep, store)
    sweep.report_activity("done")
    (sweep.root / "machine.json").write_text("{}")
    sweep.report.write_text("page")
    publish_sweep(sweep, target)
    own = {name for name in target.list_files() if "/" not in name}
    assert own == {"plan.json", "machine.json", "report.html"}


def test_a_failed_upload_is_noted_until_everything_is_published(
    sweep: SweepFolder, target: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message counts what is missing and has the command that publishes the rest."""
    publish_trial(sweep, FIRST, target)
    uploads = Uploads(monkeypatch, fails=f"{SECOND}/trial.json")
    with pytest.raises(StorageError) as failed:
        publish_sweep(sweep, target)
    assert str(failed.value) == (
        "not published: 1 of 2 trials, and the results; publish the rest with: "
        f"ackbench publish {sweep.sweep_id} ({target.uri}: the store does not answer)"
    )
    assert "does not answer" in sweep.unpublished.read_text()
    uploads.fails = ""
    publish_sweep(sweep, target)
    assert not sweep.unpublished.exists()


def test_trials_that_are_all_published_are_not_counted_as_missing(
    sweep: SweepFolder, target: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the results are missing then."""
    Uploads(monkeypatch, fails=next(path.name for path in sweep.results.glob("*.parquet")))
    with pytest.raises(StorageError, match=r"^not published: the results; publish the rest with: "):
        publish_sweep(sweep, target)


def test_a_store_that_is_not_writable_loses_nothing(sweep: SweepFolder) -> None:
    """The sealed trials are still on this machine."""
    nowhere = Location(
        "file:///proc/sweeps", pafs.SubTreeFileSystem("/proc", pafs.LocalFileSystem()), "sweeps"
    )
    with pytest.raises(StorageError, match="file:///proc/sweeps cannot be written"):
        publish_sweep(sweep, nowhere)
    assert {record.trial_id for record in sweep.complete_trials()} == {FIRST, SECOND}


def test_a_failed_trial_is_published_with_its_reason_until_it_is_sealed(
    home: Home, sweep: SweepFolder, target: Location
) -> None:
    """Readers see why it is missing."""
    sealed = sweep.trial(SECOND)
    sealed.rename(sweep.root / "sealed")
    sweep.failed(SECOND).mkdir()
    (sweep.failed(SECOND) / "reason.txt").write_text("NodeFailed: node 2 died\n")
    publish_sweep(sweep, target)
    failed = [trial for trial in read_results(fetch_sweep(home, target.uri)).trials if trial.reason]
    assert [trial.reason for trial in failed] == ["NodeFailed: node 2 died"]

    (sweep.failed(SECOND) / "reason.txt").unlink()
    sweep.failed(SECOND).rmdir()
    (sweep.root / "sealed").rename(sealed)
    publish_sweep(sweep, target)
    assert read_results(fetch_sweep(home, target.uri)) == read_results(sweep)


def test_a_copy_is_as_new_as_the_store(home: Home, sweep: SweepFolder, target: Location) -> None:
    """What is no longer published is removed from it."""
    publish_sweep(sweep, target)
    fetch_sweep(home, target.uri)
    target.delete(f"trials/{SECOND}/trial.json")
    fetched = fetch_sweep(home, target.uri)
    assert [path.name for path in (fetched.root / "trials").iterdir()] == [FIRST]


def test_results_that_are_not_complete_are_not_read(
    home: Home, sweep: SweepFolder, target: Location
) -> None:
    """They are being uploaded."""
    publish_sweep(sweep, target)
    target.delete("results/cells.parquet")
    assert read_results(fetch_sweep(home, target.uri)).unmeasured == (FIRST, SECOND)


def test_the_kept_store_has_no_credentials_and_names_the_sweep(
    sweep: SweepFolder, store: Location
) -> None:
    """Other processes read it."""
    assert published_uri(sweep) is None
    assert published_location(sweep) is None
    keep_store(sweep, store)
    assert json.loads(without_version(sweep.store.read_bytes())) == {
        "store": store.uri,
        "uri": f"{store.uri}/{sweep.sweep_id}",
        "several_hosts": False,
    }
    location = published_location(sweep)
    assert location
    assert location.path == f"{store.path}/{sweep.sweep_id}"


def test_a_truncated_store_file_is_named(sweep: SweepFolder) -> None:
    """The user names the store again."""
    sweep.store.write_text("{")
    with pytest.raises(LedgerError, match=r"store.json is truncated: name the store again"):
        published_location(sweep)


def test_a_uri_without_a_sweep_is_an_unknown_name(
    home: Home, sweep: SweepFolder, store: Location, target: Location
) -> None:
    """A store is not a sweep; the message names one that it holds."""
    with pytest.raises(UnknownName, match=f"no sweep at {store.uri}: there is no plan.json"):
        open_sweep(home, store.uri)
    publish_plan(sweep, target)
    with pytest.raises(UnknownName, match=f"holds 1 sweeps; name one, as in {target.uri}"):
        open_sweep(home, store.uri)


def test_without_a_uri_a_sweep_of_the_home_is_opened(home: Home, sweep: SweepFolder) -> None:
    """By id, or the newest."""
    assert open_sweep(home, sweep.sweep_id) == open_sweep(home, None) == sweep


def test_a_store_must_be_accessible(tmp_path: Path) -> None:
    """A file is no folder; the sweep is not started."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="file cannot be read"):
        open_store(str(tmp_path / "file"))
    if os.geteuid():
        (tmp_path / "locked").mkdir(mode=0)
        with pytest.raises(StorageError, match="Permission denied"):
            open_store(str(tmp_path / "locked"))
    assert open_location(str(tmp_path)).path == str(tmp_path)
