"""The homes with the stored sweeps."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from golden.outputs import StoredSweep
from golden.stored import KINDS, STORE, damage, unpack

from ackbench.infra.machine.home import Home


@pytest.fixture(autouse=True)
def _other_surroundings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run in another time zone than most, and with variables that colour and narrow a terminal."""
    for name, value in {"TZ": "Asia/Kathmandu", "FORCE_COLOR": "1", "COLUMNS": "33"}.items():
        monkeypatch.setenv(name, value)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory) -> dict[str, StoredSweep]:
    """Return the stored sweeps by name, in one home; the further ones of a kind have a number.

    One is a damaged copy, in which guarantees are violated.
    """
    home = Home(tmp_path_factory.mktemp("golden") / "home")
    home.root.mkdir()
    found = {
        kind if number == 1 else f"{kind}-{number}": folder
        for kind in KINDS
        for number, folder in enumerate(unpack(kind, home), 1)
    }
    found["damaged"] = damage(found["quick-2"], home.root / STORE)
    return {name: StoredSweep(home, name, folder) for name, folder in found.items()}


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
