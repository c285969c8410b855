"""The measuring job as ackbench runs it: a separate process with its own JVM."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark import SparkContext

from ackbench.experiments.ledger.result_tables import RESULTS
from ackbench.experiments.ledger.results_manifest import RESULTS_MANIFEST
from ackbench.experiments.messages.errors import LedgerError
from ackbench.experiments.results.spark_job import JAVA_OPTIONS, ensure_spark_ready, measure
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.infra.jvm.startup_cache import spark_startup_cache
from ackbench.infra.machine.home import Home
from ackbench.spark_jobs.distribution import measure_ledgers
from ackbench.spark_jobs.io.ledgers import open_ledgers
from ackbench.spark_jobs.io.writer import write_results
from ackbench.spark_jobs.planted import PlantedAttempt, PlantedLogRow, PlantedRead, PlantedTrial
from ackbench.spark_jobs.rehearse import rehearsal_trials

AWKWARD = "a sweep [0]{1} *? 100% #=1"
"""Blanks, characters of Hadoop's glob patterns, and what a URI would decode or truncate."""


def test_measuring_again_gives_the_same_bytes(spark: SparkContext, tmp_path: Path) -> None:
    """This holds for every result, of a sweep with duplicates, losses and external records."""
    for trial in rehearsal_trials(records=2_000):
        trial.plant(tmp_path)
    first, second = (_measured_bytes(spark, tmp_path) for _ in range(2))
    assert first == second
    assert set(first) == {RESULTS_MANIFEST, *(f"{name}.parquet" for name in RESULTS)}


def _measured_bytes(spark: SparkContext, sweep: Path) -> dict[str, bytes]:
    ledgers = open_ledgers(str(sweep))
    write_results(ledgers.files, ledgers.root, measure_ledgers(spark, ledgers))
    return {path.name: path.read_bytes() for path in (sweep / "results").iterdir()}


@pytest.mark.further
def test_the_job_accepts_a_path_with_special_characters(home: Home, tmp_path: Path) -> None:
    """It writes results only, and removes its own files and those of a crashed run.

    While it runs, its own files are in the home folder.
    """
    sweep = SweepFolder(tmp_path / AWKWARD)
    (home.cache / ".spark-left").mkdir()  # no process has it locked
    PlantedTrial(
        "000-planted",
        [PlantedAttempt(0, 0), PlantedAttempt(0, 1)],
        [PlantedLogRow(0, 0, 0)],
        [PlantedRead(0, 0, 0)],
    ).plant(sweep.root)
    measure(sweep, home)
    assert pq.read_table(sweep.results / "trials.parquet")["lost_low_records"].to_pylist() == [1]
    assert {path.name for path in tmp_path.iterdir()} == {AWKWARD, "a home"}
    assert {path.name for path in home.cache.iterdir()} == {
        ".scratch.lock",
        "spark-java",
        "startup",
    }


@pytest.mark.further
def test_a_users_configuration_of_spark_does_not_keep_the_start_up_cache_from_being_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark has its folders on the class path, and its options replace the job's own."""
    for variable in ("SPARK_CONF_DIR", "HADOOP_CONF_DIR"):
        folder = tmp_path / variable
        folder.mkdir()
        (folder / "spark-defaults.conf").write_text("spark.driver.extraJavaOptions -Xss2m\n")
        monkeypatch.setenv(variable, str(folder))
    home = Home(tmp_path / "a home")
    ensure_spark_ready(home, print)
    assert spark_startup_cache(home.cache, JAVA_OPTIONS).file.is_file()


def test_an_invalid_ledger_is_a_ledger_error(tmp_path: Path) -> None:
    """The error has the job's message, and earlier results stay."""
    sweep = SweepFolder(tmp_path / "sweep")
    trial = PlantedTrial("000-planted", [PlantedAttempt(0, 0)]).plant(sweep.root)
    sweep.results.mkdir()
    (trial / "log.parquet").unlink()
    with pytest.raises(LedgerError, match=r"^trial 000-planted: log.parquet is missing; restore"):
        measure(sweep, Home(tmp_path / "home"))
    assert list(sweep.results.iterdir()) == []
