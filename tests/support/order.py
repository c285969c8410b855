"""The order of the tests: random, but files with real brokers first; one seed decides everything.

pytest-randomly shuffles the files, the classes in a file and the tests in a class, and seeds
`random` and NumPy before each test. Hypothesis gets the same seed, so that what a run found is
found again with `--randomly-seed=N`: Hypothesis then neither reads nor writes its folder of
examples that failed earlier.

Files with real brokers wait most of their time. If one began last, a worker would run it alone.
"""

from __future__ import annotations

import hypothesis.core
import pytest


def pytest_sessionstart(session: pytest.Session) -> None:
    """Give Hypothesis the seed of the run, unless it has one of its own."""
    if session.config.getoption("--hypothesis-seed") is None:
        hypothesis.core.global_force_seed = session.config.getoption("randomly_seed", None)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Move files with real brokers to the front; pytest-randomly has shuffled before."""
    clusters = config.rootpath / "tests" / "cluster"
    items.sort(key=lambda item: not item.path.is_relative_to(clusters))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the seed at the end too: with `-q`, pytest prints no header."""
    seed = terminalreporter.config.getoption("randomly_seed", None)
    if seed is not None:  # with `-p no:randomly`
        terminalreporter.write_line(
            f"this order and these random values again: --randomly-seed={seed}"
        )
