"""The index of all sweeps: states, filters, and how fast it is for many."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from support.builders.nights import history, keep_night
from support.builders.records import a_record, a_spec
from support.builders.sweep_folders import measured_sweep_folder
from support.command_line import ackbench

from ackbench.experiments.commands.cli import cli
from ackbench.experiments.messages.errors import UnknownName
from ackbench.experiments.messages.phrases import format_bytes
from ackbench.experiments.results import trials
from ackbench.experiments.results.history import summarize as summaries
from ackbench.experiments.results.history.index import (
    IndexFilter,
    SweepState,
    index,
    index_filter,
    is_version,
)
from ackbench.experiments.results.history.kept import keep_pruned, summary_of
from ackbench.experiments.results.history.summary import SweepSummary
from ackbench.experiments.results.run_description import trials_s
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.lock import SweepLock
from ackbench.infra.machine.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Return a home with one measured sweep of two cells."""
    home = Home(tmp_path / "home")
    specs = [
        a_spec(
            trial_id=f"{place:03d}-aaaaa{repeat}",
            cell={"acks": acks, "fault": "leader-crash"},
            label=f"acks={acks} leader-crash",
            repeat=repeat,
        )
        for place, acks in enumerate((1, "all"))
        for repeat in (0, 1)
    ]
    measured_sweep_folder(home, "planted", specs, lambda _: {})
    return home


def test_a_measured_sweep_is_complete(home: Home) -> None:
    """With the counts of its trials and its size."""
    (one,) = index(home)
    assert one.state is SweepState.COMPLETE
    assert (one.summary.sealed_trials, one.summary.pending_trials) == (4, 0)
    assert one.summary.size_bytes > 10_000
    assert one.summary.measured


def test_a_summary_is_made_once(home: Home) -> None:
    """Reading all ledgers takes a second per sweep; the kept summary takes a millisecond."""
    made: list[tuple[str, int, int]] = []
    index(home, on_new=lambda *one: made.append(one))
    index(home, on_new=lambda *one: made.append(one))
    assert made == [("planted-20260101T000000-abcd", 1, 1)]


def test_a_summary_is_made_again_when_the_sweep_was_measured_again(home: Home) -> None:
    """Its tables are replaced then, which the folder of the results shows."""
    (one,) = index(home)
    os.utime(home.sweeps / one.summary.sweep_id / "results")
    made: list[tuple[str, int, int]] = []
    index(home, on_new=lambda *one: made.append(one))
    assert made == [(one.summary.sweep_id, 1, 1)]


def test_an_unknown_experiment_reads_no_sweep(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistake in a name costs no second per sweep, and writes nothing."""
    monkeypatch.setenv("ACKBENCH_HOME", str(home.root))
    for command in ("sweeps", "trend"):
        done = CliRunner().invoke(cli, [command, "plantd"])
        assert done.exit_code == 2
        assert "did you mean planted?" in done.output
    assert not home.index.exists()


def test_a_sweep_that_misses_trials_is_incomplete(home: Home) -> None:
    """And one that was not measured says so."""
    sweep = SweepFolder(home.sweeps / "planted-20260101T000000-abcd")
    for table in sweep.results.iterdir():
        table.unlink()
    assert index(home)[0].state is SweepState.UNMEASURED
    sweep.trial("000-aaaaa0").rename(sweep.failed("000-aaaaa0"))
    (one,) = index(home)
    assert one.state is SweepState.INCOMPLETE
    assert (one.summary.failed_trials, one.summary.pending_trials) == (1, 1)


def test_a_sweep_takes_as_long_as_its_trials(home: Home) -> None:
    """A command that works on it days later adds nothing; `show` says the same."""
    sweep = SweepFolder(home.sweeps / "planted-20260101T000000-abcd")
    sweep.report_activity("done")
    measured = index(home)[0].summary.took_s
    for table in sweep.results.iterdir():
        table.unlink()

    assert measured == trials_s(sweep.complete_trials())
    assert measured == index(home)[0].summary.took_s


def test_a_running_sweep_is_running(home: Home) -> None:
    """As long as a process has its lock."""
    sweep = SweepFolder(home.sweeps / "planted-20260101T000000-abcd")
    with SweepLock(home, sweep):
        assert index(home)[0].state is SweepState.RUNNING
    assert index(home)[0].state is SweepState.COMPLETE


def test_a_sweep_with_a_damaged_ledger_is_unreadable_and_says_why(home: Home) -> None:
    """The index still lists it, and all others."""
    sweep = SweepFolder(home.sweeps / "planted-20260101T000000-abcd")
    (sweep.trial("000-aaaaa0") / "trial.json").write_text("{}")
    os.utime(sweep.results)
    (one,) = index(home)
    assert one.state is SweepState.UNREADABLE
    assert "000-aaaaa0" in (one.summary.problem or "")


def test_filters_select_by_experiment_version_cell_and_state(home: Home) -> None:
    """Each of them, and together."""
    (one,) = index(home)
    version = one.summary.kafka_versions[0]
    for accepted in (
        IndexFilter(experiment="planted"),
        IndexFilter(version=version),
        IndexFilter(version=version.rpartition(".")[0]),
        IndexFilter(cell=("acks=all", "leader-crash")),
        index_filter(state="complete"),
    ):
        assert index(home, accepted) == (one,)
    for refused in (
        IndexFilter(experiment="plant"),
        IndexFilter(version="1.0"),
        IndexFilter(cell=("acks=0",)),
        index_filter(state="pruned"),
    ):
        assert index(home, refused) == ()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("trend planted --kafka 9", "no sweep of experiment planted with Kafka 9; versions: 4.3.1"),
        ("sweeps --kafka 9", "no sweep with Kafka 9; versions: 4.3.1"),
        ("sweeps --state incomplete", "no sweep is incomplete; states: complete"),
        (
            "sweeps --kafka 4 --cell leader-crsh",
            "no sweep with Kafka 4 has a cell of the words leader-crsh; did you mean leader-crash?",
        ),
        (
            "sweeps --cell acks=1 --state pruned",
            "no sweep has a cell of the words acks=1 and is pruned; states: complete",
        ),
    ],
)
def test_a_filter_that_no_sweep_matches_names_the_word_and_what_there_is(
    home: Home, monkeypatch: pytest.MonkeyPatch, arguments: str, message: str
) -> None:
    """Not the versions of Kafka if none was asked for."""
    monkeypatch.setenv("ACKBENCH_HOME", str(home.root))
    done = ackbench(*arguments.split())

    assert (done.exit_code, done.stderr) == (2, f"ackbench: {message}\n")


def test_a_version_is_no_beginning_of_a_longer_number() -> None:
    """4.1 is not 4.10."""
    assert is_version("4.1", "4.1.2")
    assert not is_version("4.1", "4.10.0")
    assert is_version("4", "4.10.0")


def test_an_unknown_state_names_what_is_allowed() -> None:
    """In one line."""
    with pytest.raises(UnknownName, match="allowed: complete"):
        index_filter(state="done")


def test_1000_sweeps_are_listed_in_two_seconds(tmp_path: Path) -> None:
    """From their kept summaries; with a plan each, which is not read."""
    home = Home(tmp_path / "home")
    (night,) = history(1, seed=1)
    for number in range(1_000):
        summary = night.model_copy(
            update={
                "sweep_id": f"nightly-20260101T000000-{number:04x}",
                "planned_s": night.planned_s + number,
            }
        )
        keep_night(home, summary)
    begin_s = time.process_time()
    found = index(home)
    assert len(found) == 1_000
    assert [one.summary.planned_s for one in found] == sorted(
        (one.summary.planned_s for one in found), reverse=True
    )
    assert time.process_time() - begin_s < 2.0


def test_the_table_fits_80_columns(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids are folded before anything is cut off."""
    monkeypatch.setenv("ACKBENCH_HOME", str(home.root))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    done = CliRunner().invoke(cli, ["sweeps"], standalone_mode=False)
    lines = done.output.splitlines()
    assert max(map(len, lines)) <= 160
    assert any("planted-20260101T000000-abcd" in line for line in lines)


def test_a_table_that_is_piped_has_aligned_columns_and_loads_no_rich(home: Home) -> None:
    """Laying out 2,000 rows with rich took more than half of the command's time."""
    keep_night(home, *history(1, seed=1))
    program = (
        "import sys\nfrom ackbench.experiments.commands.cli import cli\ntry:\n  cli(['sweeps'])\n"
        "finally:\n  print('rich' in sys.modules, file=sys.stderr)"
    )
    environment = {**os.environ, "ACKBENCH_HOME": str(home.root)}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
    )

    head, rule, *rows = done.stdout.splitlines()[:4]
    assert (head.index("Kafka"), set(rule)) == (rows[0].index("4.3.1"), {"─"})
    assert rows[0].index("4.3.1") == rows[1].index("4.3.1")
    assert done.stderr == "False\n"


def test_the_sizes_of_the_rows_add_up_to_that_below_them(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a pruned sweep nothing but its summary is in the home."""
    monkeypatch.setenv("ACKBENCH_HOME", str(home.root))
    (night,) = history(1, seed=1)
    keep_pruned(home, night.model_copy(update={"pruned_s": 1.0}))
    (here,) = index(home, index_filter(state="complete"))
    lines = CliRunner().invoke(cli, ["sweeps"]).stdout.splitlines()
    pruned, whole = (
        next(line for line in lines if line.startswith(one.sweep_id))
        for one in (night, here.summary)
    )

    assert "B" not in pruned.removeprefix(night.sweep_id)
    assert format_bytes(here.summary.size_bytes) in whole
    assert f"2 sweeps, {format_bytes(here.summary.size_bytes)}" in lines


def test_json_has_what_the_table_has(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the labels of the cells."""
    monkeypatch.setenv("ACKBENCH_HOME", str(home.root))
    done = CliRunner().invoke(cli, ["sweeps", "--json"], standalone_mode=False)
    (entry,) = json.loads(done.output)["sweeps"]
    assert entry["state"] == "complete"
    assert entry["planned"] == "2026-01-01T00:00:00Z"
    assert entry["cells"] == ["acks=1 leader-crash", "acks=all leader-crash"]


def test_the_summary_of_a_sweep_has_its_settings_once(home: Home) -> None:
    """Those that all cells share are not repeated per cell."""
    summary = summary_of(SweepFolder(home.sweeps / "planted-20260101T000000-abcd"), home)
    assert "cluster kafka.version" in summary.settings
    for cell in summary.cells:
        assert not cell.settings.keys() & summary.settings.keys()


def test_the_summary_of_a_cell_says_in_how_many_trials_the_machine_was_overloaded(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trend marks its times by that; a summary of an earlier version has no such trial."""
    monkeypatch.setattr(trials, "is_overloaded", lambda _: True)
    summary = summary_of(SweepFolder(home.sweeps / "planted-20260101T000000-abcd"), home)
    assert [cell.overloaded_trials for cell in summary.cells] == [2, 2]

    earlier = summary.model_dump_json(exclude={"cells": {"__all__": {"overloaded_trials"}}})
    cells = SweepSummary.model_validate_json(earlier).cells
    assert [cell.overloaded_trials for cell in cells] == [0, 0]


def test_the_client_of_a_cell_is_known_although_its_first_trial_failed(home: Home) -> None:
    """Unknown is not another version: a trend said that the client had changed, and back."""
    plan = SweepFolder(next(home.sweeps.iterdir())).plan()
    first, second = plan.trials[:2]
    cell: Any = SimpleNamespace(cell=first.cell)
    record = a_record(trial_id=second.trial_id)
    assert first.cell == second.cell
    settings = summaries._settings(plan, cell, {second.trial_id: record})
    assert settings["client version"] == record.client


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1_000, "1.0 kB"), (9_949, "9.9 kB"), (2.5e9, "2.5 GB")],
)
def test_sizes_have_three_digits(size: float, text: str) -> None:
    """In decimal units."""
    assert format_bytes(size) == text
