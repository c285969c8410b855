"""The order of the tests: random, but files with sweeps and brokers first; one seed decides all.

pytest-randomly shuffles the files, the classes in a file and the tests in a class, and seeds
`random` and NumPy before each test. Hypothesis gets the same seed, so that what a run found is
found again with `--randomly-seed=N`: Hypothesis then neither reads nor writes its folder of
examples that failed earlier.

Sweeps from start to finish and files with real brokers wait most of their time. If one began last,
a worker would run it alone. What needs Airflow or MLflow is one worker's, and begins early too:
their import costs some ten seconds of CPU time in each process.
"""

from __future__ import annotations

from typing import Any, Final

import hypothesis.core
import pytest
from xdist.scheduler import LoadFileScheduling

_FIRST: Final = (
    "tests/e2e/",
    "tests/dags/",
    "tests/unit/orchestration/tracking/",
    "tests/cluster/",
)
_TOGETHER: Final = _FIRST[1:3]


class LoadFolderScheduling(LoadFileScheduling):
    """Gives a worker a file at a time, or one of the folders whose tests share an import."""

    def _split_scope(self, nodeid: str) -> str:
        return next((folder for folder in _TOGETHER if nodeid.startswith(folder)), "") or str(
            super()._split_scope(nodeid)
        )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFolderScheduling | None:
    """Return the scheduler of `--dist loadfile`."""
    return LoadFolderScheduling(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_sessionstart(session: pytest.Session) -> None:
    """Give Hypothesis the seed of the run, unless it has one of its own."""
    if session.config.getoption("--hypothesis-seed") is None:
        hypothesis.core.global_force_seed = session.config.getoption("randomly_seed", None)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Move what is to begin first to the front; the order is random before."""
    del config
    items.sort(key=lambda item: [not item.nodeid.startswith(folder) for folder in _FIRST])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the seed at the end too: with `-q`, pytest prints no header."""
    seed = terminalreporter.config.getoption("randomly_seed", None)
    if seed is not None:  # with `-p no:randomly`
        terminalreporter.write_line(
            f"this order and these random values again: --randomly-seed={seed}"
        )
