"""Commands with a store: `run --store`, `publish`, and those that read a published sweep."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.builders.records import a_spec
from support.builders.sweep_folders import measured_sweep_folder
from support.command_line import ackbench

from ackbench.experiments.commands import run as running
from ackbench.experiments.commands.run_process import RunOutcome
from ackbench.experiments.results import spark_job
from ackbench.experiments.results.history import warehouse
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.lookup import list_sweeps
from ackbench.experiments.sweep.published import publish_sweep, published_location
from ackbench.infra.machine.home import Home


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """Return a new home, which the commands use."""
    monkeypatch.setenv("ACKBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("ACKBENCH_STORE", raising=False)
    return Home(tmp_path / "home")


@pytest.fixture
def sweep(home: Home) -> SweepFolder:
    """Return a measured sweep of two sealed trials."""
    specs = [a_spec(trial_id=f"{n:03d}-abcdef", label=f"number={n}", order=n) for n in range(2)]
    return measured_sweep_folder(home, "planted", specs, lambda _: {"lost_low_records": 1})


@pytest.fixture
def uri(sweep: SweepFolder, tmp_path: Path) -> str:
    """Return the URI of the published sweep."""
    done = ackbench("publish", sweep.sweep_id, str(tmp_path / "store"))
    assert done.exit_code == 0, done.output
    return done.stdout.strip()


def test_publish_prints_the_uri_and_remembers_the_store(
    sweep: SweepFolder, uri: str, tmp_path: Path
) -> None:
    """A folder becomes a URI, so that readers know that trials may be published partly."""
    assert uri == (tmp_path / "store" / sweep.sweep_id).as_uri()
    again = ackbench("publish", "planted")
    assert (again.exit_code, again.stdout.strip()) == (0, uri)


def test_a_published_sweep_is_in_the_warehouse_of_its_store_and_again_when_it_is_measured(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that could not be published when it ran."""
    kept = tmp_path / "store" / warehouse.WAREHOUSE
    before = {path: path.read_bytes() for path in kept.rglob("*.parquet")}
    assert len(before) == len(warehouse.TABLES)
    for path in before:
        path.unlink()
    monkeypatch.setattr(spark_job, "measure_location", lambda *_, **__: None)
    assert ackbench("measure", uri).exit_code == 0
    assert {path: path.read_bytes() for path in kept.rglob("*.parquet")} == before


def test_show_prints_the_same_for_a_published_sweep(sweep: SweepFolder, uri: str) -> None:
    """As a table and as JSON."""
    for options in ([], ["--json"]):
        here, there = ackbench("show", sweep.sweep_id, *options), ackbench("show", uri, *options)
        assert there.exit_code == 0
        assert without_folder(there.stdout) == without_folder(here.stdout)


def without_folder(shown: str) -> list[str]:
    """Return the lines without those that say where the sweep is."""
    places = ("folder: ", "store: ", "details: ", "next: ")
    return [line for line in shown.splitlines() if not line.startswith(places)]


def test_compare_and_matrix_take_uris(sweep: SweepFolder, uri: str) -> None:
    """Mixed with sweeps of this home."""
    compared = ackbench("compare", uri, sweep.sweep_id, "--json")
    assert compared.exit_code == 0
    assert json.loads(compared.stdout)
    assert ackbench("matrix", uri).stdout == ackbench("matrix", sweep.sweep_id).stdout


def test_the_report_of_a_published_sweep_is_written_on_this_machine(
    home: Home, sweep: SweepFolder, uri: str
) -> None:
    """Reading needs no permission to write to the store."""
    done = ackbench("report", uri)
    page = Path(done.stdout.strip())
    assert (done.exit_code, page.is_relative_to(home.published)) == (0, True)
    assert page.is_file()
    target = published_location(sweep)
    assert target
    assert "report.html" not in target.list_files()


def test_clean_removes_the_copies_of_published_sweeps(
    home: Home, sweep: SweepFolder, uri: str
) -> None:
    """They are fetched again when they are needed; other folders are kept."""
    ackbench("show", uri)
    (home.published / "thesis").mkdir()
    cleaned = ackbench("clean")
    assert cleaned.stdout == f"removed the copy of published sweep {sweep.sweep_id}\n"
    assert [path.name for path in home.published.iterdir()] == ["thesis"]
    assert ackbench("clean").stdout == "nothing to clean\n"


def test_measure_passes_the_uri_to_the_job(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job reads the ledgers and writes the results where they are."""
    measured: list[tuple[str, str]] = []
    monkeypatch.setattr(
        spark_job,
        "measure_location",
        lambda location, _, name, **_options: measured.append((location, name)),
    )
    done = ackbench("measure", uri)
    assert done.exit_code == 0
    assert measured == [(uri, uri.rsplit("/", 1)[-1])]


def test_remarks_about_a_published_sweep_name_its_uri(sweep: SweepFolder, uri: str) -> None:
    """The commands in them have to work."""
    target = published_location(sweep)
    assert target
    target.delete("trials/001-abcdef/trial.json")
    target.delete("results/cells.parquet")
    shown = ackbench("show", uri).stdout
    assert "not published: 1 trial; the machine that runs the sweep may have them" in shown
    assert f"not measured: 1 trial; measure with: ackbench measure {uri}" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "s3a://b/x"], "unknown scheme s3a:// of a sweep's location; write s3://"),
        (["report", "s3://k:SECRET@b/x"], "s3://***: a URI with credentials would be stored"),
        (["compare", "file:///nowhere/x", "A"], "no sweep at file:///nowhere/x: there is no plan"),
        (["matrix", "abfs://c/x"], "abfs://c/x cannot be opened: AzureOptions doesn't contain"),
        (["measure", "file:x"], "file:x cannot be opened: File URI cannot be relative"),
        (["publish", "absent"], "unknown sweep absent"),
        (["publish", "s3://k:SECRET@b/x"], "s3://... is a URI; allowed here: a sweep's id"),
        (["selftest", "file:///x"], "file://... is a URI; allowed here: a sweep's id"),
        (["run", "--resume", "file:///x"], "no sweep at file:///x: there is no plan.json"),
        (["run", "--resume", "s3://k:SECRET@b/x"], "s3://***: a URI with credentials would be"),
        (["run", "quick", "--store", "ftp://x/y"], "unknown scheme ftp:// of a sweep's location"),
        (["run", "quick", "--store", "/dev/null/x"], "file:///dev/null/x"),
    ],
)
@pytest.mark.usefixtures("home")
def test_bad_input_is_one_line_with_exit_code_2(arguments: list[str], message: str) -> None:
    """Nothing is started, and no credentials are repeated."""
    done = ackbench(*arguments)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith(f"ackbench: {message}")
    assert "k:SECRET" not in done.stderr


def test_a_sweep_without_a_store_asks_for_one(sweep: SweepFolder) -> None:
    """The message has an example."""
    done = ackbench("publish", sweep.sweep_id)
    assert done.exit_code == 2
    assert f"has no store: name it, as in `ackbench publish {sweep.sweep_id} s3://" in done.stderr


ONE_CELL = ("--no-controls", "--set", "acks=all", "--set", "fault=none", "--repeats", "1")


def test_run_publishes_the_plan_before_it_starts(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a store that cannot be written stops the run at once."""
    published: list[bool] = []

    def run_in_child(_home: Home, sweep: SweepFolder, *_others: object) -> RunOutcome:
        published.append((tmp_path / "store" / sweep.sweep_id / "plan.json").is_file())
        return RunOutcome(code=1, interrupted=0, killed=False)

    monkeypatch.setattr(running, "run_in_child", run_in_child)
    done = ackbench("run", "quick", *ONE_CELL, "--store", str(tmp_path / "store"))
    assert published == [True]
    assert done.exit_code == 1
    assert f"ackbench run --resume {list_sweeps(home)[0].sweep_id}" in done.stderr


def test_a_store_that_cannot_be_written_leaves_no_sweep(home: Home) -> None:
    """Nothing was started."""
    done = ackbench("run", "quick", *ONE_CELL, "--store", "/proc")
    assert done.exit_code == 2
    assert "file:///proc/quick-" in done.stderr
    assert "cannot be written" in done.stderr
    assert list_sweeps(home) == ()


def test_a_run_that_is_not_published_names_the_remedy_and_fails(
    home: Home, sweep: SweepFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The results are printed all the same."""
    log = running.log_of(home, sweep)
    log.parent.mkdir(parents=True)
    remedy = f"publish the rest with: ackbench publish {sweep.sweep_id}"

    def run_in_child(*_: object) -> RunOutcome:
        sweep.unpublished.write_text("the store does not answer\n")
        log.write_text(f"verify: not published: 1 of 2 trials, and the results; {remedy}\n")
        return RunOutcome(code=1, interrupted=0, killed=False)

    monkeypatch.setattr(running, "run_in_child", run_in_child)
    done = ackbench("run", "--resume", sweep.sweep_id, "--store", str(tmp_path / "store"))
    assert done.exit_code == 1
    assert "Who?" in done.stdout
    assert remedy in done.stderr
    assert "--resume" not in done.stderr
    target = published_location(sweep)
    assert target
    publish_sweep(sweep, target)
    assert "results/trials.parquet" in target.list_files()


def test_a_published_sweep_of_one_machine_is_not_resumed_on_another_one(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The locks of its trials are in its own folder, and the other one would not see them."""
    monkeypatch.setenv("ACKBENCH_HOME", str(tmp_path / "another home"))
    refused = ackbench("run", "--resume", uri)
    assert refused.exit_code == 2
    assert refused.stderr == (
        f"ackbench: one machine runs the sweep at {uri}: resume it there, by its id\n"
    )
