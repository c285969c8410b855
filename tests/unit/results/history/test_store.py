"""The kept summaries: a cache in one file, which may be damaged, missing or only readable."""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from support.builders.nights import a_night

from ackbench.experiments.results.history import kept, store
from ackbench.experiments.results.history.index import SweepState, index
from ackbench.experiments.results.history.store import STORE, SummaryStore, without_details
from ackbench.experiments.results.history.summary import SweepSummary
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.infra.machine.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Return an empty home."""
    return Home(tmp_path / "home")


@pytest.fixture
def night() -> SweepSummary:
    """Return a summary with cells and settings."""
    return a_night(0, random.Random(1))  # noqa: S311 - not used for secrets


def plan_of(home: Home, summary: SweepSummary) -> SweepFolder:
    """Make the folder of a sweep; its plan cannot be read, which the index says."""
    sweep = SweepFolder(home.sweeps / summary.sweep_id)
    sweep.root.mkdir(parents=True)
    (sweep.root / "plan.json").write_text("{}")
    return sweep


def _no_database(path: Path) -> None:
    path.write_text("[" * 10_000)


def _beginning_of_one(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 8192)


def _with_other_tables(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.executescript("CREATE TABLE summaries (x); PRAGMA user_version = 99;")


def _without_tables(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.executescript(f"PRAGMA user_version = {store._VERSION};")


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _link_to_nowhere(path: Path) -> None:
    path.symlink_to("/no/such/folder/file")


def test_a_summary_is_returned_as_it_was_kept(home: Home, night: SweepSummary) -> None:
    """Its cells and settings on request."""
    with SummaryStore(home) as opened:
        opened.keep(night)
    with SummaryStore(home) as opened:
        head = opened.heads()[night.sweep_id]
        assert head == without_details(night)
        assert not head.cells
        assert opened.complete(head) == night


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "damage",
    [
        _no_database,
        _beginning_of_one,
        _with_other_tables,
        _without_tables,
        _pipe,
        Path.mkdir,
        _link_to_nowhere,
    ],
)
def test_whatever_is_in_the_place_of_the_file_summaries_are_kept(
    home: Home, night: SweepSummary, damage: Callable[[Path], None]
) -> None:
    """In a new file, or in memory where none can be made."""
    home.index.mkdir(parents=True)
    damage(home.index / STORE)
    with SummaryStore(home) as opened:
        opened.keep(night)
        assert opened.complete(opened.heads()[night.sweep_id]) == night


def test_a_file_that_is_damaged_while_it_is_open_is_made_rebuilt(
    home: Home, night: SweepSummary
) -> None:
    """As by a disk that is full of errors."""
    with SummaryStore(home) as opened:
        opened.keep(night)
    with (home.index / STORE).open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 4096)
    with SummaryStore(home) as opened:
        assert opened.heads() == {}
        opened.keep(night)
        assert night.sweep_id in opened.heads()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE summaries SET figures = x'00'",
        "UPDATE summaries SET constants = 'of another sweep'",
        "UPDATE constants SET content = x'00'",
        "DELETE FROM constants",
    ],
)
def test_damaged_details_are_read_again(home: Home, night: SweepSummary, statement: str) -> None:
    """A trend does without no sweep in silence."""
    sweep = plan_of(home, night)
    summary = kept.summary_of(sweep, home)
    with closing(sqlite3.connect(home.index / STORE)) as database, database:
        database.execute(statement)
    assert kept.summary_of(sweep, home) == summary


def test_equal_settings_and_cells_of_two_sweeps_are_kept_once(
    home: Home, night: SweepSummary
) -> None:
    """They are half of what a summary takes, and mostly the same for years."""
    other = night.model_copy(update={"sweep_id": "nightly-20260301T000000-0000"})
    with SummaryStore(home) as kept_summaries:
        kept_summaries.keep(night)
        kept_summaries.keep(other)
        one, two = (kept_summaries.complete(without_details(each)) for each in (night, other))
    assert one == night
    assert two == other
    assert one.cells[0].settings is two.cells[0].settings
    with closing(sqlite3.connect(home.index / STORE)) as database:
        assert database.execute("SELECT count(*) FROM constants").fetchone() == (1,)


def test_settings_that_no_sweep_has_any_more_are_forgotten(home: Home, night: SweepSummary) -> None:
    """The file does not grow with each change of an experiment."""
    with SummaryStore(home) as kept_summaries:
        kept_summaries.keep(night)
        kept_summaries.forget([night.sweep_id])
    with closing(sqlite3.connect(home.index / STORE)) as database:
        assert database.execute("SELECT count(*) FROM constants").fetchone() == (0,)


def test_the_files_of_earlier_versions_are_removed(home: Home, night: SweepSummary) -> None:
    """They kept a file per sweep; what is left of pruned sweeps stays."""
    kept.keep_pruned(home, night.model_copy(update={"pruned_s": 1.0}))
    (home.index / "nightly-20250101T000000-0001.json").write_text("{}")
    (one,) = index(home)
    assert one.state is SweepState.PRUNED
    assert {path.name for path in home.index.iterdir()} == {"pruned", STORE}


def test_a_home_that_can_only_be_read_has_an_index(
    home: Home, night: SweepSummary, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its kept summaries are used, and new ones are kept in memory."""
    other = a_night(1, random.Random(1))  # noqa: S311 - not used for secrets
    plan_of(home, night)
    index(home)
    before = (home.index / STORE).read_bytes()
    plan_of(home, other)
    monkeypatch.setattr(os, "access", lambda *_: False)
    made: list[str] = []
    assert len(index(home, on_new=lambda name, *_: made.append(name))) == 2
    assert made == [other.sweep_id]
    assert (home.index / STORE).read_bytes() == before


def test_two_commands_may_keep_summaries_at_once(home: Home, night: SweepSummary) -> None:
    """Each sees what the other has kept."""
    other = a_night(1, random.Random(1))  # noqa: S311 - not used for secrets
    with SummaryStore(home) as first, SummaryStore(home) as second:
        first.keep(night)
        second.keep(other)
        assert first.heads().keys() == second.heads().keys() == {night.sweep_id, other.sweep_id}


def test_the_summary_of_a_sweep_that_is_gone_is_forgotten(home: Home, night: SweepSummary) -> None:
    """Its folder was deleted by hand."""
    sweep = plan_of(home, night)
    assert len(index(home)) == 1
    (sweep.root / "plan.json").unlink()
    plan_of(home, a_night(1, random.Random(1)))  # noqa: S311 - not used for secrets
    index(home)
    with SummaryStore(home) as opened:
        assert night.sweep_id not in opened.heads()


def test_a_sweep_with_a_problem_is_read_again_when_a_file_of_a_trial_was_restored(
    home: Home, night: SweepSummary
) -> None:
    """That changes the folder of the trial, and not that of the trials."""
    sweep = plan_of(home, night)
    (sweep.root / "trials" / "000-aaaaaa").mkdir(parents=True)
    made: list[str] = []

    def note(name: str, number: int, total: int) -> None:
        del number, total
        made.append(name)

    index(home, on_new=note)
    index(home, on_new=note)
    assert len(made) == 1
    (sweep.root / "trials" / "000-aaaaaa" / "trial.json").touch()
    index(home, on_new=note)
    assert len(made) == 2
