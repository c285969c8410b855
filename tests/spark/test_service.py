"""The measuring service: one Spark application for several sweeps, as in a tour."""

from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from experiments.errors import LedgerError
from experiments.results import spark_job
from experiments.results.rows import read_manifest
from experiments.results.spark_job import measure, measuring_service
from experiments.sweep.folder import SweepFolder
from infra.machine.home import Home
from spark_jobs.planted import PlantedAttempt, PlantedTrial


def test_a_service_measures_one_sweep_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An invalid ledger is an error of its sweep only; no job of its own is started."""
    home, sweeps = Home(tmp_path / "home"), [SweepFolder(tmp_path / name) for name in "abc"]
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
    manifest = read_manifest(sweeps[2])
    assert manifest
    assert manifest.left_out == {"000-planted": "trial 000-planted: log.parquet is missing"}
    assert {path.name for path in home.cache.iterdir()} == {".scratch.lock", "spark-java"}


def test_a_sweep_is_measured_when_the_service_was_killed(tmp_path: Path) -> None:
    """By a job of its own."""
    home, sweep = Home(tmp_path / "home"), SweepFolder(tmp_path / "sweep")
    PlantedTrial("000-planted", [PlantedAttempt(0, 0)]).plant(sweep.root)
    with measuring_service(home):
        (service,) = (
            child
            for child in psutil.Process().children()
            if "spark_jobs.service" in child.cmdline()
        )  # the tests' own JVM is a child, too
        service.kill()
        service.wait()
        measure(sweep, home)
    assert (sweep.results / "trials.parquet").exists()
