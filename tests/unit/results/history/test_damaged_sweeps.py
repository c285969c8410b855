"""A damaged sweep is named with the reason, and no other sweep of its home is affected."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from support.builders.records import a_spec
from support.builders.sweep_folders import measured_sweep_folder
from support.tiers import pairs

from ackbench.experiments.commands.cli import cli
from ackbench.experiments.results.history import summarize
from ackbench.experiments.results.read import read_results
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.infra.machine.home import Home

GOOD = ("good-20260101T000000-abcd", "good-20260102T000000-abcd")
DAMAGED = "damaged-20260101T000000-abcd"
TRIAL = "000-aaaaa0"


def _nested(path: Path) -> None:
    path.write_text("[" * 200_000)


def _nested_objects(path: Path) -> None:
    path.write_text('{"a":' * 200_000)


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _folder(path: Path) -> None:
    path.mkdir()


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _link_in_a_circle(path: Path) -> None:
    path.symlink_to(path.name)


def _socket(path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"/proc/self/fd/{folder}/{path.name}")
    os.close(folder)


def _huge(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 42)  # takes no space


def _no_text(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\x00" * 1000)


def _empty(path: Path) -> None:
    path.touch()


DAMAGES: tuple[Callable[[Path], None], ...] = (
    _nested,
    _nested_objects,
    _pipe,
    _folder,
    _device,
    _socket,
    _huge,
    _no_text,
    _empty,
)
FILES = (
    "plan.json",
    "machine.json",
    f"trials/{TRIAL}/trial.json",
    f"trials/{TRIAL}/attempts.parquet",
    "results/manifest.json",
    "results/trials.parquet",
)
HARMLESS = ("progress.json", "store.json", "unpublished.txt", "report.html", ".pinned", ".claim")
"""Their content does not decide what a sweep found."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """Return a home with two good sweeps, and one that is to be damaged."""
    home = Home(tmp_path / "home")
    home.ensure_writable()
    monkeypatch.setenv("ACKBENCH_HOME", str(home.root))
    specs = [a_spec(trial_id=f"000-aaaaa{repeat}", repeat=repeat) for repeat in (0, 1)]
    for name, sweep_id in (("good", GOOD[0]), ("later", GOOD[1]), ("damaged", DAMAGED)):
        sweep = measured_sweep_folder(home, name, specs, lambda _: {})
        sweep.root.rename(home.sweeps / sweep_id)
        _rename_plan(home.sweeps / sweep_id)
    return home


def _rename_plan(folder: Path) -> None:
    sweep = SweepFolder(folder)
    plan = sweep.plan()
    sweep.write_plan(plan.model_copy(update={"sweep_id": folder.name, "experiment": "good"}))


def damage(home: Home, name: str, make: Callable[[Path], None]) -> None:
    """Put something else in the place of a file of the sweep."""
    path = home.sweeps / DAMAGED / name
    path.unlink(missing_ok=True)
    make(path)


def run(*arguments: str) -> Result:
    """Run a command, whose errors end it as they would end the program."""
    return CliRunner().invoke(cli, list(arguments), standalone_mode=False)


def states() -> dict[str, tuple[str, str | None]]:
    """Return the state and the problem of each sweep that `ackbench sweeps` lists."""
    done = run("sweeps", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)["sweeps"]
    return {one["sweep_id"]: (one["state"], one["problem"]) for one in found}


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("make", "name"), pairs(DAMAGES, FILES))
def test_a_sweep_with_damage_is_unreadable_for_a_reason_and_the_others_are_listed(
    home: Home, name: str, make: Callable[[Path], None]
) -> None:
    """Whatever is in the place of the file: it is neither waited for nor read to its end."""
    damage(home, name, make)
    found = states()
    assert [found[good] for good in GOOD] == [("complete", None)] * 2
    state, problem = found[DAMAGED]
    assert state == "unreadable"
    assert problem is not None
    assert Path(name).name in problem
    assert len(problem) < 500
    assert len(problem.splitlines()) == 1


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("make", "name"), pairs(DAMAGES, HARMLESS))
def test_a_file_that_decides_nothing_makes_no_sweep_unreadable(
    home: Home, name: str, make: Callable[[Path], None]
) -> None:
    """And stops no command."""
    damage(home, name, make)
    assert {state for state, _ in states().values()} == {"complete"}
    assert run("prune", "--keep", "1").exit_code == 0


@pytest.mark.timeout(120)
@pytest.mark.further(make=[_pipe, _device])
@pytest.mark.parametrize(("make", "name"), pairs([_nested, _pipe, _folder, _device], FILES))
def test_no_command_about_all_sweeps_ends_with_a_damaged_one(
    home: Home, tmp_path: Path, name: str, make: Callable[[Path], None]
) -> None:
    """The trend has the good ones; pruning and cleaning leave what they cannot read."""
    damage(home, name, make)
    trend = run("trend", "good", "--json")
    assert trend.exit_code == 0, trend.output
    assert json.loads(trend.stdout)["sweeps"] == list(GOOD)
    for command in (
        ("prune", "--keep", "1"),
        ("clean",),
        ("site", str(tmp_path / "site")),
        ("show", GOOD[0]),
        ("sweeps",),
    ):
        done = run(*command)
        assert done.exit_code == 0, (command, done.output, done.exception)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("make", DAMAGES)
def test_a_sweep_whose_plan_is_damaged_is_kept_by_pruning(
    home: Home, make: Callable[[Path], None]
) -> None:
    """Nothing is deleted that is not known to be a sweep; the others are pruned."""
    damage(home, "plan.json", make)
    done = run("prune", "--older-than", "1h", "--apply")
    assert done.exit_code == 0, done.output
    assert f"kept: {DAMAGED}: " in done.output
    assert [path.name for path in home.sweeps.iterdir()] == [DAMAGED]


@pytest.mark.usefixtures("home")
def test_an_unexpected_error_of_one_sweep_is_its_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan may be valid and still be one that nobody thought of."""

    def failing(sweep: SweepFolder, *, in_full: bool) -> object:
        if sweep.sweep_id == DAMAGED:
            raise KeyError("no such cell")
        return read_results(sweep, in_full=in_full)

    monkeypatch.setattr(summarize, "read_results", failing)
    found = states()
    assert [found[good][0] for good in GOOD] == ["complete"] * 2
    assert found[DAMAGED] == ("unreadable", "unexpected KeyError: 'no such cell'")
