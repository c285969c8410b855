"""The tasks of one DAG run share the right to run a sweep."""

from __future__ import annotations

from pathlib import Path

import pytest

from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.lock import SweepInUse, SweepLock, TaskLock, record_path
from ackbench.infra.machine.home import Home


@pytest.fixture
def sweep(tmp_path: Path) -> SweepFolder:
    """Return the folder of a sweep, in a home of its own."""
    sweep = SweepFolder(tmp_path / "sweeps" / "s")
    sweep.root.mkdir(parents=True)
    return sweep


def test_a_task_that_ends_does_not_take_the_sweep_from_another_of_its_run(
    tmp_path: Path, sweep: SweepFolder
) -> None:
    """`verify` and `track` run side by side; the run's next task still gets the sweep."""
    home = Home(tmp_path)

    def task() -> TaskLock:
        return TaskLock(home, sweep, "dag/run", 0)

    with task():
        with task():
            pass
        with task(), pytest.raises(SweepInUse, match="dag/run"), SweepLock(home, sweep):
            pass
    assert not record_path(home, sweep.sweep_id).exists()
    with SweepLock(home, sweep):
        pass
