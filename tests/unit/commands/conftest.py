"""The commands' tests run in homes of their own, with fake runs that need no set-up."""

from __future__ import annotations

import pytest

from ackbench.experiments.commands import run, tour


@pytest.fixture(autouse=True)
def _no_set_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the set-up, which would fetch jars; `test_setup` tests it by itself."""
    for module in (run, tour):
        monkeypatch.setattr(module, "ensure_set_up", lambda *_: None)
