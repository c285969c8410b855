"""The measuring service: one Spark application for several sweeps, as in a tour."""

from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from ackbench.experiments.messages.errors import LedgerError
from ackbench.experiments.results import spark_job
from ackbench.experiments.results.rows import read_results_manifest
from ackbench.experiments.results.spark_job import measure, measuring_service
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.infra.machine.home import Home
from ackbench.infra.process.waiting import wait_until
from ackbench.spark_jobs.planted import PlantedAttempt, PlantedTrial


def test_a_service_measures_one_sweep_after_the_other(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An invalid ledger is an error of its sweep only; no job of its own is started."""
    sweeps = [SweepFolder(tmp_path / name) for name in "abc"]
    for sweep in sweeps:
        trial = PlantedTrial("000-planted", [PlantedAttempt(0, 0)]).plant(sweep.root)
    (trial / "log.parquet").unlink()
    monkeypatch.setattr(spark_job, "_run", None)
    with measuring_service(home):
        for sweep in sweeps[:2]:
            measure(sweep, home)
            lost = pq.read_table(sweep.results / "trials.parquet")["lost_low_records"]
            assert lost.to_pylist() == [1]
        with pytest.raises(LedgerError, match=r"^trial 000-planted: log.parquet is missing; rest"):
            measure(sweeps[2], home)
        measure(sweeps[2], home, skip_unfit=True)
    manifest = read_results_manifest(sweeps[2])
    assert manifest
    assert manifest.left_out == {"000-planted": "trial 000-planted: log.parquet is missing"}
    assert {path.name for path in home.cache.iterdir()} == {
        ".scratch.lock",
        "spark-java",
        "startup",
    }


def has_ended(process: psutil.Process) -> bool:
    """Return whether all threads of a process have ended; its parent may not have noticed."""
    return not process.is_running() or (
        process.status() == psutil.STATUS_ZOMBIE
        and len(list(Path("/proc", str(process.pid), "task").iterdir())) == 1
    )


@pytest.mark.further
@pytest.mark.parametrize("whose", ["service", "jvm"])
def test_a_sweep_is_measured_when_the_service_was_killed(
    home: Home, tmp_path: Path, whose: str
) -> None:
    """Or its JVM: by a job of its own."""
    sweeps = [SweepFolder(tmp_path / name) for name in "ab"]
    for sweep in sweeps:
        PlantedTrial("000-planted", [PlantedAttempt(0, 0)]).plant(sweep.root)
    with measuring_service(home):
        (service,) = (
            child
            for child in psutil.Process().children()
            if "ackbench.spark_jobs.service" in child.cmdline()
        )  # the tests' own JVM is a child, too
        measure(sweeps[0], home)
        (jvm,) = (child for child in service.children() if child.name() == "java")
        killed = service if whose == "service" else jvm
        killed.kill()
        wait_until(lambda: has_ended(killed), awaiting="its end", timeout_s=30)
        measure(sweeps[1], home)
    assert (sweeps[1].results / "trials.parquet").exists()
