"""`make yarn`: the measuring job on YARN, in client and cluster mode, and what cannot work there.

The cluster is Hadoop's own ResourceManager and NodeManager on this machine
(`support.yarn_cluster`). Needs the package registry of Maven once, for 65 MB of jars.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from rich.console import Console
from support.yarn_cluster import SPARK_HOME, YarnCluster, hadoop_jars, hadoop_version, yarn_cluster

from ackbench.infra.jvm.runtime import java_environment, spark_java_home
from ackbench.infra.machine.home import REPOSITORY, Home
from ackbench.spark_jobs.rehearse import rehearsal_trials

RECORDS: Final = 2_000
_JOB_S: Final = 300.0
_LIMIT: Final = "spark.ackbench.stepLimitSeconds"


@dataclass(frozen=True)
class Job:
    """Runs the measuring job on a sweep."""

    sweep: Path
    environment: Mapping[str, str]

    def run(self, command: Sequence[str | Path], **variables: str) -> tuple[int, str]:
        """Run a command, and return its exit code and what it printed."""
        shutil.rmtree(self.sweep / "results", ignore_errors=True)
        ran = subprocess.run(
            command,
            env={**self.environment, **variables},
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=_JOB_S,
        )
        return ran.returncode, ran.stdout

    def measure(self, master: str, *settings: str, **variables: str) -> tuple[int, str]:
        """Run the job as the command does."""
        conf = [f"--conf={setting}" for setting in settings]
        program = [sys.executable, "-m", "ackbench.spark_jobs.measure", str(self.sweep)]
        return self.run([*program, f"--master={master}", *conf], **variables)

    def submit(self, *settings: str, **variables: str) -> tuple[int, str]:
        """Run the job with its driver in the cluster."""
        conf = [text for setting in settings for text in ("--conf", setting)]
        program = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", "yarn"]
        job = ["spark_jobs/measure.py", str(self.sweep)]
        return self.run([*program, "--deploy-mode", "cluster", *conf, *job], **variables)

    def results(self) -> Mapping[str, bytes]:
        """Return the result files."""
        folder = self.sweep / "results"
        return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def check(job: Job, cluster: YarnCluster, silent: Path, console: Console) -> int:
    """Run all tries, print a line for each, and return how many failed.

    Args:
        job: of a sweep.
        cluster: the cluster.
        silent: a HADOOP_CONF_DIR of a cluster that does not run.
        console: for the lines.
    """
    local = job.measure("local[2]")
    expected = job.results()
    here = {"HADOOP_CONF_DIR": str(cluster.configuration)}
    failed = int(local[0] != 0)
    for name, (code, output) in (
        ("client mode", job.measure("yarn", *cluster.settings, **here)),
        ("cluster mode", job.submit(*cluster.settings, **here)),
    ):
        equal = code == 0 and job.results() == expected
        failed += not equal
        console.print(f"{name}: {'equal bytes' if equal else output}", markup=False)
    memory = "spark.executor.memory=100g"
    for words, (code, output) in (
        ("HADOOP_CONF_DIR", job.measure("yarn", *cluster.settings)),
        ("above the max threshold", job.measure("yarn", *cluster.settings, memory, **here)),
        (
            "has no module",
            job.measure("yarn", *cluster.settings, PYSPARK_PYTHON="/usr/bin/python3", **here),
        ),
        (
            _LIMIT,
            job.measure("yarn", *cluster.settings, f"{_LIMIT}=20", HADOOP_CONF_DIR=str(silent)),
        ),
    ):
        lines = [line for line in output.splitlines() if line.startswith("spark: ")]
        one = code == 2 and len(lines) == 1 and words in lines[0]
        failed += not one
        console.print(lines[0] if one else f"not one line with {words}: {output}", markup=False)
    return failed


def main() -> int:
    """Start the cluster and run all tries."""
    home, console = Home.from_environment(), Console(soft_wrap=True)
    home.ensure_writable()
    jars = hadoop_jars(home.cache / "yarn")
    with tempfile.TemporaryDirectory(prefix="ackbench-yarn-") as name:
        folder = Path(name)
        sweep = folder / "sweep"
        for trial in rehearsal_trials(records=RECORDS):
            trial.plant(sweep)
        kept = {
            variable: text
            for variable, text in os.environ.items()
            if not variable.startswith(("SPARK_", "PYSPARK_", "HADOOP_", "YARN_"))
        }
        environment = {
            **java_environment(kept),
            "JAVA_HOME": str(spark_java_home(home.cache)),
            "PYSPARK_PYTHON": sys.executable,
        }
        with yarn_cluster(folder / "first", jars) as ended:
            silent = ended.configuration
        console.print(f"YARN of Hadoop {hadoop_version()}")
        with yarn_cluster(folder / "yarn", jars) as cluster:
            return min(1, check(Job(sweep, environment), cluster, silent, console))


if __name__ == "__main__":
    sys.exit(main())
