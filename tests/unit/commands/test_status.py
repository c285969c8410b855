"""`ackbench status` and `stop`: what runs in a home, and its end."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.builders.records import a_spec
from support.builders.result_tables import loss_counts
from support.builders.sweep_folders import measured_sweep_folder
from support.command_line import ackbench

from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.infra.machine.home import Home

RUNNER = """
import sys, time
from pathlib import Path
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.lock import SweepLock
from ackbench.infra.machine.home import Home
home, sweep = Home(Path(sys.argv[1])), SweepFolder(Path(sys.argv[2]))
try:
    with SweepLock(home, sweep):
        print("running", flush=True)
        time.sleep(300)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.fixture
def sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SweepFolder:
    """Return a sweep of the home."""
    monkeypatch.setenv("ACKBENCH_HOME", str(tmp_path))
    return measured_sweep_folder(Home(tmp_path), "mine", [a_spec()], lambda _: loss_counts(9, 0))


@pytest.fixture
def runner(sweep: SweepFolder) -> Iterator[subprocess.Popen[str]]:
    """Return a process that runs the sweep until it is interrupted."""
    home = sweep.root.parents[1]
    command = [sys.executable, "-c", RUNNER, str(home), str(sweep.root)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_home_in_which_nothing_runs_says_so(sweep: SweepFolder) -> None:
    """With the newest sweep."""
    result = ackbench("status")
    assert result.exit_code == 0
    assert result.stdout.startswith("nothing runs in ")
    assert f"ackbench show {sweep.sweep_id}" in result.stdout


def test_a_sweep_in_progress_is_shown_with_its_process(
    sweep: SweepFolder, runner: subprocess.Popen[str]
) -> None:
    """And how it is watched and ended."""
    printed = ackbench("status").stdout
    assert printed.startswith(f"sweep {sweep.sweep_id}: 1 of 1 trial, ")
    assert f"(process {runner.pid})" in printed
    assert f"ackbench stop {sweep.sweep_id}" in printed


@pytest.mark.parametrize("named", [(), ("mine",), ("mine-20260101T000000-abcd",)])
def test_a_sweep_is_stopped_as_by_ctrl_c(
    named: tuple[str, ...], sweep: SweepFolder, runner: subprocess.Popen[str]
) -> None:
    """Its process gets the interrupt and ends itself; how to resume is said."""
    result = ackbench("stop", *named)
    assert (result.exit_code, runner.wait(10)) == (0, 0)
    assert runner.stdout is not None
    assert runner.stdout.read() == "interrupted\n"
    assert result.stdout.endswith(f"resume with: ackbench run --resume {sweep.sweep_id}\n")


@pytest.mark.usefixtures("sweep")
@pytest.mark.parametrize("named", [(), ("mine",), ("other",)])
def test_without_a_sweep_in_progress_nothing_is_stopped(named: tuple[str, ...]) -> None:
    """One line."""
    result = ackbench("stop", *named)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "in progress (ackbench status)" in result.stderr
