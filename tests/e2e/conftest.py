"""Each test has its own home with the repository's caches, and writes small experiments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from e2e.command import AckbenchCommand, bench_in, write_experiment


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[AckbenchCommand]:
    """Return the command with a new home; processes of a failed test are ended afterwards."""
    with bench_in(tmp_path) as bench:
        yield bench


@pytest.fixture
def experiment(tmp_path: Path) -> Callable[..., str]:
    """Return a function that writes a small experiment and returns its path."""
    return partial(write_experiment, tmp_path)
