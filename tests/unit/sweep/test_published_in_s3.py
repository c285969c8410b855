"""Sweeps in an S3 store: a real one on loopback, which Arrow reaches through the environment."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.fs as pafs
import pytest
from support.builders.records import a_spec
from support.builders.sweep_folders import measured_sweep_folder
from support.command_line import ackbench
from support.object_store import ObjectStore, object_store

from ackbench.experiments.messages.errors import StorageError, UnknownName
from ackbench.experiments.results.history.pruning import DAY_S, PruneLimits
from ackbench.experiments.results.history.store_pruning import planned_store_pruning, prune_store
from ackbench.experiments.results.read import read_results
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.published import fetch_sweep, open_store, publish_sweep
from ackbench.infra.machine.home import Home


@pytest.fixture(scope="module")
def running_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """Return a store with an empty bucket."""
    with object_store(tmp_path_factory.mktemp("store")) as running:
        yield running


@pytest.fixture
def store(running_store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    """Return the store, with its endpoint and credentials in the environment."""
    for name, value in running_store.environment.items():
        monkeypatch.setenv(name, value)
    return running_store


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """Return a new home, which the commands use."""
    monkeypatch.setenv("ACKBENCH_HOME", str(tmp_path))
    return Home(tmp_path)


@pytest.fixture
def sweep(home: Home) -> SweepFolder:
    """Return a measured sweep of two sealed trials."""
    specs = [a_spec(trial_id=f"{n:03d}-abcdef", label=f"number={n}", order=n) for n in range(2)]
    return measured_sweep_folder(home, "planted", specs, lambda _: {"lost_low_records": 1})


def test_a_sweep_in_s3_is_shown_like_the_local_one(store: ObjectStore, sweep: SweepFolder) -> None:
    """Published twice, it is there once."""
    first = ackbench("publish", sweep.sweep_id, f"{store.uri}/shown")
    again = ackbench("publish", sweep.sweep_id)
    assert first.stdout == again.stdout == f"{store.uri}/shown/{sweep.sweep_id}\n"
    shown = [ackbench("show", named).stdout for named in (first.stdout.strip(), "planted")]
    there, here = (re.sub(r"(?m)^(folder|store|details|next): .*\n", "", text) for text in shown)
    assert there == here


def test_the_objects_of_a_trial_are_older_than_its_record(
    store: ObjectStore, sweep: SweepFolder
) -> None:
    """A reader that sees `trial.json` sees all tables."""
    target = open_store(f"{store.uri}/ordered").at(sweep.sweep_id)
    publish_sweep(sweep, target)
    objects = store.filesystem.get_file_info(
        pafs.FileSelector(f"{target.path}/trials/000-abcdef", recursive=True)
    )
    written = {info.base_name: info.mtime_ns for info in objects}
    assert len(written) > 6
    assert max(written.values()) == written["trial.json"]


def test_a_trial_without_its_record_is_not_in_the_sweep(
    home: Home, store: ObjectStore, sweep: SweepFolder
) -> None:
    """As after an upload that was killed."""
    target = open_store(f"{store.uri}/partial").at(sweep.sweep_id)
    publish_sweep(sweep, target)
    target.delete("trials/001-abcdef/trial.json")
    assert read_results(fetch_sweep(home, target.uri)).pending == ("001-abcdef",)


def test_a_store_in_s3_is_pruned_when_a_day_has_passed(
    home: Home, store: ObjectStore, sweep: SweepFolder
) -> None:
    """Its clock says when the sweep was written; summary and warehouse stay."""
    published = ackbench("publish", sweep.sweep_id, f"{store.uri}/pruned")
    assert published.exit_code == 0, published.output
    target, limits = open_store(f"{store.uri}/pruned"), PruneLimits(older_than_s=3600.0)
    now_s = time.time()

    assert planned_store_pruning(home, target, limits, now_s).kept == {"running": 1}
    plan = planned_store_pruning(home, target, limits, now_s + 2 * DAY_S)
    assert (len(plan.doomed), plan.bytes_before > 0, plan.bytes_after) == (1, True, 0)
    lines: list[str] = []
    assert prune_store(home, target, plan, lines.append) == (sweep.sweep_id,)
    left = {name.partition("/")[0] for name in target.list_files()}
    assert left == {"summaries", "warehouse"}
    assert prune_store(home, target, plan, lines.append) == ()
    assert "has no plan.json" in lines[-1]


def test_a_missing_bucket_is_named(home: Home, store: ObjectStore) -> None:
    """Before anything is started."""
    assert store.uri
    message = "s3://absent/x: there is no bucket absent: create it, or correct the URI"
    with pytest.raises(StorageError, match=message):
        open_store("s3://absent/x")
    with pytest.raises(StorageError, match=message):
        fetch_sweep(home, "s3://absent/x")


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("AWS_SECRET_ACCESS_KEY", "wrong", "the store refuses the credentials: check AWS_ACCESS"),
        ("AWS_ACCESS_KEY_ID", "", "the store refuses access without credentials: set AWS_ACCESS"),
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:1", r"does not answer at 127.0.0.1:1 \(AWS_ENDP"),
    ],
)
def test_an_error_of_the_environment_names_the_variable(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, message: str
) -> None:
    """Credentials and endpoint are set there only."""
    monkeypatch.setenv(variable, value)
    if not value:
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "")
    with pytest.raises(StorageError, match=message):
        open_store(store.uri)


def test_a_folder_without_a_plan_is_no_sweep(home: Home, store: ObjectStore) -> None:
    """The message says what is missing."""
    with pytest.raises(UnknownName, match=f"no sweep at {store.uri}/none: there is no plan.json"):
        fetch_sweep(home, f"{store.uri}/none")
