"""The mark of a plan that this home has made: what is damaged counts as a stranger's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.builders.records import a_spec
from support.builders.sweep_folders import measured_sweep_folder

from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.own_plans import MARK, is_own, mark_as_own
from ackbench.infra.machine.home import PLAN_KEY, Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Return a new home."""
    return Home(tmp_path / "home")


@pytest.fixture
def sweep(home: Home) -> SweepFolder:
    """Return a sweep with the mark of the home."""
    sweep = measured_sweep_folder(home, "planted", [a_spec()], lambda _: {})
    mark_as_own(home, sweep)
    return sweep


def test_a_marked_plan_is_own_until_it_is_changed(home: Home, sweep: SweepFolder) -> None:
    """The mark is that of the plan's content."""
    assert is_own(home, sweep)
    (sweep.root / "plan.json").write_text("{}")
    assert not is_own(home, sweep)


@pytest.mark.parametrize("name", ["key", "mark", "plan"])
def test_what_is_no_regular_file_makes_a_plan_a_strangers(
    home: Home, sweep: SweepFolder, name: str
) -> None:
    """A pipe is not waited for."""
    path = {
        "key": home.root / PLAN_KEY,
        "mark": sweep.root / MARK,
        "plan": sweep.root / "plan.json",
    }[name]
    path.unlink()
    os.mkfifo(path)

    assert not is_own(home, sweep)


def test_without_a_key_or_a_mark_a_plan_is_a_strangers(home: Home, sweep: SweepFolder) -> None:
    """It was copied into this home."""
    (sweep.root / MARK).unlink()
    assert not is_own(home, sweep)
