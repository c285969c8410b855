"""The measuring job on a standalone cluster of two workers, with the ledgers in an S3 store.

Executors read the ledgers through Arrow, with credentials from their environment; Spark has no
Hadoop connector.
"""

import os
import subprocess
import sys
import threading
import venv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyspark
import pytest
from pyarrow import fs
from pyspark import SparkContext
from support.object_store import ObjectStore, object_store
from support.set_up_home import SET_UP
from support.spark_cluster import SparkCluster, spark_cluster

from ackbench.experiments.ledger.result_tables import RESULTS
from ackbench.experiments.ledger.results_manifest import RESULTS_MANIFEST
from ackbench.experiments.results.spark_job import JAVA_OPTIONS
from ackbench.infra.jvm.runtime import spark_java_home
from ackbench.infra.jvm.startup_cache import quote_java_options, spark_startup_cache
from ackbench.infra.machine.home import REPOSITORY
from ackbench.spark_jobs.measure import measure_in
from ackbench.spark_jobs.rehearse import rehearsal_trials
from ackbench.spark_jobs.session import ContextApplication

RECORDS = 2_000

Bytes = Mapping[str, bytes]


@dataclass(frozen=True)
class Installation:
    """A store with a sweep, and what the job runs with."""

    store: ObjectStore
    sweep: str
    """The sweep's URI in the store."""
    local_results: Bytes
    """The result files of the same sweep, measured with a local master."""
    log: Path
    java_home: Path
    java_options: str
    """Of the driver."""

    def run_on(
        self,
        cluster: SparkCluster,
        python: str | Path = sys.executable,
        settings: Sequence[str] = (),
    ) -> subprocess.CompletedProcess[str]:
        """Run the job on a cluster, and return its exit code and output.

        Args:
            cluster: of two workers.
            python: the executors' Python.
            settings: further ones of Spark.
        """
        return self.run(
            *(sys.executable, "-m", "ackbench.spark_jobs.measure", self.sweep),
            *(f"--log={self.log}", f"--master={cluster.master}"),
            *(f"--conf={setting}" for setting in (*cluster.driver_settings, *settings)),
            f"--java-options={self.java_options}",
            python=python,
        )

    def run(
        self, *program: str | Path, python: str | Path = sys.executable
    ) -> subprocess.CompletedProcess[str]:
        """Run a program with its arguments, and return its exit code and output."""
        environment = {
            **{name: text for name, text in os.environ.items() if not name.startswith("SPARK_")},
            **self.store.environment,
            "JAVA_HOME": str(self.java_home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": str(python),
        }
        return subprocess.run(
            program,
            env=environment,
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )

    def results(self) -> Bytes:
        """Return the result files in the store."""
        folder = fs.FileSelector(f"{self.store.path}/sweep/results", allow_not_found=True)
        found = {}
        for file in self.store.filesystem.get_file_info(folder):
            with self.store.filesystem.open_input_file(file.path) as stream:
                found[file.base_name] = stream.read()
        return found

    def remove_results(self) -> None:
        """Remove the results of an earlier test."""
        if self.results():
            self.store.filesystem.delete_dir(f"{self.store.path}/sweep/results")


@pytest.fixture(scope="module")
def installation(
    tmp_path_factory: pytest.TempPathFactory, spark: SparkContext
) -> Iterator[Installation]:
    """Start the store, and plant a sweep, which is also measured locally."""
    folder = tmp_path_factory.mktemp("store")
    sweep = folder / "sweep"
    for trial in rehearsal_trials(records=RECORDS):
        trial.plant(sweep)
    with object_store(folder / "store") as store:
        uri = store.upload(sweep)
        measure_in(ContextApplication(spark), str(sweep))
        local = {path.name: path.read_bytes() for path in (sweep / "results").iterdir()}
        cached = spark_startup_cache(SET_UP.cache, JAVA_OPTIONS).options
        yield Installation(
            store,
            uri,
            local,
            folder / "job.log",
            spark_java_home(folder / "cache"),
            quote_java_options([*JAVA_OPTIONS, *cached]),
        )


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, installation: Installation
) -> Iterator[SparkCluster]:
    """Start a cluster, whose executors have the credentials of the store."""
    folder = tmp_path_factory.mktemp("cluster")
    with spark_cluster(folder / "spark", installation.store.environment) as started:
        yield started


@pytest.mark.further
def test_a_cluster_and_a_local_master_give_the_same_bytes(
    installation: Installation, cluster: SparkCluster
) -> None:
    """Each result file, of a sweep with every kind of anomaly."""
    installation.remove_results()
    done = installation.run_on(cluster)
    assert (done.returncode, done.stderr) == (0, "")
    assert installation.results().keys() == {
        RESULTS_MANIFEST,
        *(f"{name}.parquet" for name in RESULTS),
    }
    assert installation.results() == installation.local_results


@pytest.mark.further
def test_the_job_finishes_when_an_executor_is_killed(
    installation: Installation, cluster: SparkCluster
) -> None:
    """The driver reports the lost task, which runs again elsewhere."""
    installation.remove_results()
    killed: list[int] = []
    killer = threading.Thread(target=lambda: killed.append(cluster.kill_executor_with_task()))
    begin_bytes = installation.log.stat().st_size if installation.log.exists() else 0
    killer.start()
    done = installation.run_on(cluster)
    killer.join()
    assert killed
    assert (done.returncode, done.stderr) == (0, "")
    assert "ExecutorLostFailure" in installation.log.read_bytes()[begin_bytes:].decode()
    assert installation.results() == installation.local_results


@pytest.mark.further
def test_spark_submit_runs_the_job(installation: Installation) -> None:
    """Master and settings are those of spark-submit; the job gets the sweep only."""
    installation.remove_results()
    done = installation.run(
        Path(pyspark.__file__).parent / "bin" / "spark-submit",
        "--master=local[2]",
        f"--driver-java-options={installation.java_options}",
        "spark_jobs/measure.py",
        installation.sweep,
    )
    assert done.returncode == 0, done.stderr
    assert installation.results() == installation.local_results


@pytest.mark.further
def test_executors_without_a_library_are_one_line_and_exit_code_2(
    installation: Installation, cluster: SparkCluster, tmp_path: Path
) -> None:
    """The line names the module and the Python; earlier results stay."""
    before = installation.results()
    venv.create(tmp_path / "bare", with_pip=False)
    python = tmp_path / "bare" / "bin" / "python"
    done = installation.run_on(cluster, python, settings=["spark.task.maxFailures=1"])
    (line,) = done.stderr.splitlines()
    assert done.returncode == 2
    assert line.startswith(f"spark: the executors' Python ({python}) has no module ")
    assert installation.results() == before


@pytest.mark.further
def test_a_cluster_that_starts_no_executor_is_one_line_after_the_wait_that_was_asked_for(
    installation: Installation, cluster: SparkCluster
) -> None:
    """Its workers have 2 GB each; Spark itself would wait for ever."""
    wait = "spark.ackbench.executorWaitSeconds"
    done = installation.run_on(cluster, settings=["spark.executor.memory=100g", f"{wait}=5"])
    (line,) = done.stderr.splitlines()
    assert done.returncode == 2
    assert f"{cluster.master} started no executor in 5 s" in line
    assert line.endswith(f"wait longer with --conf {wait}=10")
