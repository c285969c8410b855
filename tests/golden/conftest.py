"""The golden files and the homes with the stored sweeps."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from golden.comparing import GoldenFiles
from golden.outputs import StoredSweep
from golden.stored import KINDS, unpack

from infra.machine.home import Home

_FILES = pytest.StashKey[GoldenFiles]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that updates the golden files."""
    parser.addoption(
        "--update-golden", action="store_true", help="write the golden files, print what changed"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the golden files of this session."""
    config.stash[_FILES] = GoldenFiles(config.getoption("--update-golden"))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print what has changed in the files that were updated."""
    for line in config.stash[_FILES].differences:
        terminalreporter.write_line(line)


@pytest.fixture(autouse=True)
def _other_surroundings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run in another time zone than most, and with variables that colour and narrow a terminal."""
    for name, value in {"TZ": "Asia/Kathmandu", "FORCE_COLOR": "1", "COLUMNS": "33"}.items():
        monkeypatch.setenv(name, value)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def golden(pytestconfig: pytest.Config) -> GoldenFiles:
    """Return the golden files."""
    return pytestconfig.stash[_FILES]


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory) -> dict[str, StoredSweep]:
    """Return the stored sweeps by name, in one home; the further ones of a kind have a number."""
    home = Home(tmp_path_factory.mktemp("golden") / "home")
    home.root.mkdir()
    return {
        kind if number == 1 else f"{kind}-{number}": StoredSweep(home, name, folder)
        for kind in KINDS
        for number, folder in enumerate(unpack(kind, home), 1)
        for name in [kind if number == 1 else f"{kind}-{number}"]
    }


@pytest.fixture
def copied(stored: dict[str, StoredSweep], tmp_path: Path) -> Iterator[dict[str, StoredSweep]]:
    """Return the stored sweeps in a home of the test's own, which it may write to."""
    home = Home(tmp_path / "home")
    original = next(iter(stored.values())).home
    shutil.copytree(original.root, home.root)
    yield {
        name: StoredSweep(home, name, home.root / one.folder.relative_to(original.root))
        for name, one in stored.items()
    }
    shutil.rmtree(home.root)
