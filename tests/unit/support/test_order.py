"""The order of the tests, and the values that Hypothesis draws: one seed decides both."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

import pytest

FOLDERS: Final = ("cluster", "dags", "spark", "unit")
TESTS: Final = """
from pathlib import Path
from hypothesis import given, strategies as st
import pytest

@pytest.fixture(autouse=True)
def ran(request):
    with Path("ran").open("a") as log:
        log.write(request.node.nodeid + "\\n")

@given(st.integers())
def test_drawn(value):
    with Path("drawn").open("a") as log:
        log.write(f"{value}\\n")

def test_second(): ...
def test_third(): ...
def test_fourth(): ...
"""


class Ran(NamedTuple):
    """The result of a run of pytest."""

    seed: str
    order: list[str]
    drawn: str

    @property
    def files(self) -> list[str]:
        """Return the folders of the tests, in their order."""
        return list(dict.fromkeys(name.split("/")[1] for name in self.order))


def run(folder: Path, *options: str) -> Ran:
    """Run pytest on a new copy of the tests; the seed is the last one that it prints."""
    for place in FOLDERS:
        (folder / "tests" / place).mkdir(parents=True)
        (folder / "tests" / place / f"test_{place}.py").write_text(TESTS)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "support.order", *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=True,
    )
    seed = re.findall(r"--randomly-seed=(\d+)$", done.stdout, re.MULTILINE)[-1]
    return Ran(seed, (folder / "ran").read_text().split(), (folder / "drawn").read_text())


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ran, Ran, Ran]:
    """Return one run with a random seed in a worker, it again without a worker, and another."""
    first = run(tmp_path_factory.mktemp("first"), "-n1", "--no-loadscope-reorder")
    again = run(tmp_path_factory.mktemp("again"), f"--randomly-seed={first.seed}")
    other = run(tmp_path_factory.mktemp("other"), f"--randomly-seed={int(first.seed) + 1}")
    return first, again, other


@pytest.mark.further
def test_the_printed_seed_gives_the_same_order_and_values_again(runs: tuple[Ran, Ran, Ran]) -> None:
    """It is printed with `-q` too, and by the process that writes for the workers."""
    first, again, _ = runs
    assert again == first


@pytest.mark.further
def test_another_seed_gives_another_order_and_other_values(runs: tuple[Ran, Ran, Ran]) -> None:
    """Of sixteen tests the same order is a coincidence of one in 2! x 4! ** 4."""
    first, _, other = runs
    assert sorted(other.order) == sorted(first.order)
    assert other.order != first.order
    assert other.drawn != first.drawn


@pytest.mark.further
def test_files_with_airflow_or_brokers_come_first_and_files_stay_together(
    runs: tuple[Ran, Ran, Ran],
) -> None:
    """A file's tests share its fixtures."""
    for each in runs:
        assert each.files[:2] == ["dags", "cluster"]
        assert [name.split("/")[1] for name in each.order] == [
            place for place in each.files for _ in range(4)
        ]
