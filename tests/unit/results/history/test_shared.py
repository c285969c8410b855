"""Several hosts with one store: each has the history of all."""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.builders.records import a_spec
from support.builders.result_tables import loss_counts, write_results
from support.builders.sweep_folders import measured_sweep_folder
from support.command_line import ackbench

from ackbench.experiments.commands.history.prune import prune_by_request
from ackbench.experiments.ledger.location import Location, LocationError, open_location
from ackbench.experiments.orchestration import alerts
from ackbench.experiments.results.history.index import IndexFilter, SweepState, index
from ackbench.experiments.results.history.kept import complete_summaries
from ackbench.experiments.results.history.pins import pinned_sweeps
from ackbench.experiments.results.history.pruning import DAY_S
from ackbench.experiments.results.history.shared import publish_history
from ackbench.experiments.sweep.folder import SEVERAL_HOSTS, SweepFolder
from ackbench.experiments.sweep.lookup import SUMMARIES
from ackbench.experiments.sweep.published import fetch_sweep
from ackbench.infra.errors import InputError
from ackbench.infra.machine.home import Home

TIMES = [f"2026010{day}T020000" for day in range(1, 5)]
NIGHTS = [f"nightly-{time}-abcd" for time in TIMES]


def plant(home: Home, time: str, lost: int = 0) -> SweepFolder:
    """Write a measured sweep of one trial."""
    spec = a_spec(cell={"acks": "all"}, label="acks=all")
    return measured_sweep_folder(home, "nightly", [spec], lambda _: loss_counts(100, lost), time)


@pytest.fixture
def store(tmp_path: Path) -> str:
    """Return the URI of a store, whose path has to be quoted."""
    folder = tmp_path / "the store, 50% full"
    folder.mkdir()
    return folder.as_uri()


@pytest.fixture
def on_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Home]:
    """Return a function that goes to another host, which has a home of its own."""

    def go(name: str) -> Home:
        home = Home(tmp_path / name)
        monkeypatch.setenv("ACKBENCH_HOME", str(home.root))
        return home

    return go


@pytest.fixture
def two_hosts(on_host: Callable[[str], Home], store: str) -> Callable[[str], Home]:
    """Have two hosts publish two sweeps each, in turn."""
    for place, night in enumerate(NIGHTS):
        plant(on_host(f"host {place % 2}"), TIMES[place])
        published = ackbench("publish", night, store)
        assert published.exit_code == 0, published.output
    return on_host


@pytest.mark.parametrize("host", ["host 0", "host 1", "a new laptop"])
def test_each_host_lists_the_sweeps_of_all(
    two_hosts: Callable[[str], Home], store: str, host: str
) -> None:
    """Those of others are published; the figures of cells are theirs too."""
    home = two_hosts(host)
    found = index(home, store=open_location(store))

    assert [one.summary.sweep_id for one in found] == NIGHTS[::-1]
    own = {night for place, night in enumerate(NIGHTS) if host == f"host {place % 2}"}
    assert {one.summary.sweep_id for one in found if one.state is SweepState.COMPLETE} == own
    assert sum(one.state is SweepState.PUBLISHED for one in found) == len(NIGHTS) - len(own)
    summaries = list(complete_summaries(home, [one.summary for one in found]))
    assert [summary.cells[0].label for summary in summaries] == ["acks=all"] * len(NIGHTS)


def test_the_commands_show_one_history_from_each_host(
    two_hosts: Callable[[str], Home], store: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A store that is named, or that of the environment."""
    two_hosts("host 1")
    assert all(night in ackbench("sweeps", store).output for night in NIGHTS)
    assert ackbench("sweeps").output.count("nightly-") == 2
    assert "4 sweeps" in ackbench("trend", "nightly", "--store", store).output

    two_hosts("a new laptop")
    monkeypatch.setenv("ACKBENCH_STORE", store)
    assert "4 sweeps" in ackbench("trend", "nightly").output
    for named, night in ((NIGHTS[0], NIGHTS[0]), ("nightly", NIGHTS[-1]), (None, NIGHTS[-1])):
        shown = ackbench("show", *filter(None, [named]))
        assert night in shown.output
        assert shown.exit_code == 0, shown.output
    assert "unknown sweep weekly" in ackbench("show", "weekly").output
    built = ackbench("site", str(tmp_path / "site"))
    assert built.exit_code == 0, built.output
    pages = sorted(path.stem for path in (tmp_path / "site" / "sweeps").iterdir())
    assert pages == NIGHTS
    assert all(night in (tmp_path / "site" / "index.html").read_text() for night in NIGHTS)


def test_the_folder_of_a_store_stands_in_place_of_an_experiment(
    on_host: Callable[[str], Home], tmp_path: Path
) -> None:
    """As its URI does; one line says that nothing is published in it, as its name may be wrong."""
    store = tmp_path / "shared"
    plant(on_host("a"), TIMES[0])
    assert ackbench("publish", "nightly", str(store)).exit_code == 0
    plant(on_host("b"), TIMES[1])

    listed, absent = ackbench("sweeps", str(store)), ackbench("sweeps", f"{store}d")
    assert [name in listed.stdout for name in NIGHTS[:2]] == [True, True]
    assert listed.stderr == ""
    assert NIGHTS[1] in absent.stdout
    assert absent.stderr == f"ackbench: no sweep is published in {store.as_uri()}d\n"


def test_a_sweep_that_is_measured_again_has_one_summary(
    two_hosts: Callable[[str], Home], store: str
) -> None:
    """The newer one, on every host."""
    laptop = two_hosts("a new laptop")
    assert index(laptop, store=open_location(store))[0].summary.violated == 0

    measured = SweepFolder(two_hosts("host 1").sweeps / NIGHTS[-1])
    write_results(measured, {"000-abcdef": loss_counts(100, 5)})
    assert ackbench("publish", NIGHTS[-1]).exit_code == 0
    laptop = two_hosts("a new laptop")
    (newest,) = (
        one
        for one in index(laptop, store=open_location(store))
        if one.summary.sweep_id == NIGHTS[-1]
    )
    assert newest.summary.violated == 1
    assert len(open_location(store).at(SUMMARIES).list_files()) == len(NIGHTS)


def test_another_host_that_measures_keeps_how_long_the_sweep_took(
    two_hosts: Callable[[str], Home], store: str
) -> None:
    """And its size: the copy has neither its activity nor all of its files."""
    ran = SweepFolder(two_hosts("host 1").sweeps / NIGHTS[-1])
    ran.report_activity("done")
    assert ackbench("publish", NIGHTS[-1]).exit_code == 0
    laptop, shared = two_hosts("a new laptop"), open_location(store)
    before = index(laptop, store=shared)[0].summary
    copy = fetch_sweep(laptop, shared.at(NIGHTS[-1]).uri)
    publish_history(copy, {}, shared.at(NIGHTS[-1]))
    after = index(laptop, store=shared)[0].summary
    assert after.took_s is not None
    assert (after.took_s, after.size_bytes) == (before.took_s, before.size_bytes)


def test_what_is_no_summary_is_not_taken_for_one(
    two_hosts: Callable[[str], Home], store: str
) -> None:
    """Another file, a damaged one, that of another sweep, a path."""
    folder = open_location(store).at(SUMMARIES)
    (name,) = (one for one in folder.list_files() if one.startswith(NIGHTS[0]))
    content = folder.read(name)
    assert content is not None
    digest = name.split(".")[1]
    other = "nightly-20260201T020000-0001"
    folder.write("readme.txt", b"")
    folder.write(f"{other}.{digest}.json", content)
    folder.write(f"nightly-20260202T020000-0001.{digest}.json", content[:100])
    folder.write(f"below/nightly-20260203T020000-0001.{digest}.json", content)

    found = index(two_hosts("a new laptop"), store=open_location(store))
    assert [one.summary.sweep_id for one in found] == NIGHTS[::-1]


def test_a_store_that_does_not_answer_is_one_line(
    two_hosts: Callable[[str], Home], monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of the environment is done without."""
    two_hosts("host 0")
    gone = "s3://no-such-bucket/sweeps?endpoint_override=127.0.0.1:9"
    named = ackbench("trend", "nightly", "--store", gone)
    assert named.exit_code == 2
    assert len(named.stderr.splitlines()) == 1
    monkeypatch.setenv("ACKBENCH_STORE", gone)
    listed = ackbench("sweeps")
    assert listed.exit_code == 0
    assert "only the sweeps of this home" in listed.stderr
    assert listed.output.count("nightly-") >= 2


def test_an_alert_compares_with_the_sweeps_of_other_hosts(
    two_hosts: Callable[[str], Home], caplog: pytest.LogCaptureFixture
) -> None:
    """And says aloud that a trend of so few cannot be judged."""
    home = two_hosts("host 0")
    sweep = SweepFolder(home.sweeps / NIGHTS[2])
    sweep.experiment_yaml.write_text("alert_on: [worse-than-trend]\n")
    with caplog.at_level(logging.WARNING):
        assert alerts.alert_of(sweep, home) is None
    assert "worse-than-trend: not judged: no figure has 8 sweeps before it" in caplog.text
    assert "(3 measured sweeps of nightly on such machines)" in caplog.text
    assert len(index(home, IndexFilter("nightly"))) == 2


def test_a_sweep_that_several_hosts_have_run_is_that_of_the_store_on_each(
    two_hosts: Callable[[str], Home], store: str
) -> None:
    """Each home has its own trials alone, and would list the sweep as incomplete."""
    home = two_hosts("host 0")
    part = SweepFolder(home.sweeps / NIGHTS[0])
    (part.root / SEVERAL_HOSTS).write_text("{}")
    shutil.rmtree(part.trial("000-abcdef"))
    assert states(home, store)[0] == "complete"
    assert [one.state.value for one in index(home)][-1] == "incomplete"


@pytest.fixture
def old_store(two_hosts: Callable[[str], Home], store: str) -> Callable[[str], Home]:
    """Have the four sweeps be of last week."""
    for path in Path(open_location(store).path).rglob("*"):
        os.utime(path, (time.time() - 7 * DAY_S,) * 2)
    return two_hosts


def left_in(store: str) -> list[str]:
    """Return the sweeps that a store has."""
    return [name for name in open_location(store).list_folders() if name in NIGHTS]


def states(home: Home, store: str) -> list[str]:
    """Return the states of the sweeps, as a host shows them, the oldest first."""
    return [one.state.value for one in index(home, store=open_location(store))][::-1]


def test_a_store_is_pruned_from_any_host_and_all_keep_the_history(
    old_store: Callable[[str], Home], store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Summaries and warehouse stay. A host that has the sweep itself keeps it."""
    old_store("a new laptop")
    said = ackbench("prune", "--store", store, "--keep", "1").output
    assert "prune 3 sweeps; keep 1 (1 newest)" in said
    assert "dry run: nothing was deleted" in said
    assert left_in(store) == NIGHTS

    pruned = ackbench("prune", "--store", store, "--keep", "1", "--apply")
    assert pruned.output.count("pruned sweep nightly-") == 3
    assert left_in(store) == NIGHTS[3:]
    assert states(old_store("another laptop"), store) == ["pruned"] * 3 + ["published"]
    assert states(old_store("host 0"), store) == ["complete", "pruned", "complete", "published"]
    assert "4 sweeps" in ackbench("trend", "nightly", "--store", store).output
    assert len(open_location(store).at("warehouse/cells").list_files()) == len(NIGHTS)
    assert "keep 1" in ackbench("prune", "--store", store, "--keep", "1", "--apply").output
    old_store("a new laptop")
    monkeypatch.setenv("ACKBENCH_STORE", store)
    shown = ackbench("show", NIGHTS[0]).stderr
    assert "was pruned: its ledgers" in shown
    assert "`ackbench trend nightly`" in shown


def test_what_is_pinned_in_progress_or_foreign_stays_in_a_store(
    old_store: Callable[[str], Home], store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pinned by another host, locked by one, and with a plan of another sweep."""
    monkeypatch.setenv("ACKBENCH_STORE", store)
    host = old_store("host 0")
    assert "is pinned, here and in its store" in ackbench("pin", NIGHTS[2]).output
    assert pinned_sweeps(host, [NIGHTS[2]])
    assert "no longer pinned, here and in its st" in ackbench("pin", NIGHTS[2], "--remove").output
    old_store("a new laptop")
    assert "is pinned in its store" in ackbench("pin", NIGHTS[0], "--reason", "mine").output
    folder = open_location(store)
    folder.at(NIGHTS[1]).write("claims/000-abcdef.0123.json", b"{}")
    plan = folder.at(NIGHTS[3]).read("plan.json")
    assert plan is not None
    folder.at(NIGHTS[2]).write("plan.json", plan)
    os.utime(Path(folder.path) / NIGHTS[2] / "plan.json", (time.time() - 7 * DAY_S,) * 2)

    old_store("another laptop")
    said = ackbench("prune", "--store", store, "--older-than", "1h", "--apply").output
    assert f"kept: {NIGHTS[2]}: the plan of sweep {NIGHTS[2]} is that of '{NIGHTS[3]}'" in said
    assert f"pruned sweep {NIGHTS[3]}" in said
    assert left_in(store) == NIGHTS[:3]
    assert "no longer pinned" in ackbench("pin", NIGHTS[0], "--remove").output
    ackbench("prune", "--store", store, "--older-than", "1h", "--apply")
    assert left_in(store) == NIGHTS[1:3]


def test_a_store_without_a_sweep_is_said_to_have_none(
    on_host: Callable[[str], Home], tmp_path: Path
) -> None:
    """As after a typo in its address."""
    on_host("a new laptop")
    said = ackbench("prune", "--store", str(tmp_path / "nowhere"), "--keep", "1")
    assert f"no finished sweep is published in file://{tmp_path}/nowhere" in said.output


def test_a_sweep_that_was_written_today_is_not_pruned_from_a_store(
    two_hosts: Callable[[str], Home], store: str
) -> None:
    """Another host may be publishing it."""
    two_hosts("a new laptop")
    said = ackbench("prune", "--store", store, "--keep", "1", "--apply").output
    assert "prune 0 sweeps; keep 4 (4 running)" in said
    assert left_in(store) == NIGHTS


def test_an_interrupted_pruning_of_a_store_is_finished_by_the_next(
    old_store: Callable[[str], Home], store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In between no host takes what is left for a sweep, and the plan is deleted last."""
    old_store("a new laptop")
    delete = Location.delete

    def deleted(location: Location, name: str) -> None:
        if name == "plan.json":
            raise LocationError("the store does not answer")
        delete(location, name)

    with monkeypatch.context() as patch:
        patch.setattr(Location, "delete", deleted)
        broken = ackbench("prune", "--store", store, "--keep", "3", "--apply")
    assert (broken.exit_code, broken.stderr.count("\n")) == (2, 1)
    assert [*open_location(store).at(NIGHTS[0]).list_files()] == ["plan.json"]
    assert states(old_store("another laptop"), store) == ["pruned", *["published"] * 3]
    finished = ackbench("prune", "--store", store, "--keep", "3", "--apply")
    assert f"removed the rest of {NIGHTS[0]} from the store" in finished.output
    assert left_in(store) == NIGHTS[1:]


def test_a_store_that_cannot_be_written_loses_nothing(
    old_store: Callable[[str], Home], store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The summary is marked before anything is deleted."""

    def refused(*_: object) -> None:
        raise LocationError("the store refuses the credentials")

    old_store("a new laptop")
    monkeypatch.setattr(Location, "write", refused)
    said = ackbench("prune", "--store", store, "--keep", "1", "--apply")
    assert said.exit_code == 2
    assert said.stderr == "ackbench: the store refuses the credentials\n"
    assert left_in(store) == NIGHTS
    assert states(old_store("another laptop"), store) == ["published"] * 4


def test_the_dag_that_prunes_prunes_the_store_within_limits_of_its_own(
    old_store: Callable[[str], Home], store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without them it leaves the store alone."""
    home = old_store("host 0")
    monkeypatch.setenv("ACKBENCH_PRUNE", "keep=1")
    monkeypatch.setenv("ACKBENCH_STORE", store)
    prune_by_request(home, {})
    assert left_in(store) == NIGHTS
    monkeypatch.setenv("ACKBENCH_PRUNE_STORE", "keep=3")
    prune_by_request(home, {})
    assert left_in(store) == NIGHTS[1:]
    monkeypatch.setenv("ACKBENCH_PRUNE_STORE", "all")
    with pytest.raises(InputError, match=r"^ACKBENCH_PRUNE_STORE=all: invalid, so that nothing"):
        prune_by_request(home, {})
