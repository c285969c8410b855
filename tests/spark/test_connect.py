"""The measuring job through a server of Spark Connect: the same bytes, and errors of one line."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark import SparkContext
from support.spark_cluster import connect_server

from ackbench.spark_jobs.measure import measure_in
from ackbench.spark_jobs.rehearse import rehearsal_trials
from ackbench.spark_jobs.session import ContextApplication

pytestmark = pytest.mark.further
RECORDS = 2_000
COUNT = """
import sys, ackbench
from pyspark.sql import SparkSession
session = SparkSession.builder.remote(sys.argv[1]).create()
session.dataSource.register(ackbench.SparkSource)
print(session.read.format("ackbench").option("table", "log").load(sys.argv[2]).count())
"""


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a sweep that is not measured."""
    folder = tmp_path_factory.mktemp("connect") / "a sweep"
    for trial in rehearsal_trials(records=RECORDS):
        trial.plant(folder)
    return folder


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a server; its tasks run this Python without this project: the session sends it."""
    with connect_server(tmp_path_factory.mktemp("server"), sys.executable) as started:
        yield started.url


def results_of(sweep: Path) -> Mapping[str, bytes]:
    """Return the result files of a sweep."""
    return {path.name: path.read_bytes() for path in (sweep / "results").iterdir()}


def measure(sweep: Path, master: str, *settings: str) -> subprocess.CompletedProcess[str]:
    """Run the job on a server."""
    return subprocess.run(
        [
            *(sys.executable, "-m", "ackbench.spark_jobs.measure", str(sweep)),
            f"--master={master}",
            *(f"--conf={setting}" for setting in settings),
        ],
        capture_output=True,
        text=True,
        env={name: text for name, text in os.environ.items() if not name.startswith("SPARK_")},
        check=False,
    )


@pytest.mark.parametrize("settings", [(), ("spark.ackbench.unitRecords=300",)])
def test_the_results_are_those_of_a_local_master_to_the_byte(
    spark: SparkContext, server: str, sweep: Path, settings: tuple[str, ...]
) -> None:
    """Trials that are one unit, and trials that are divided."""
    measure_in(ContextApplication(spark), str(sweep))
    local = results_of(sweep)
    for path in (sweep / "results").iterdir():
        path.unlink()
    ran = measure(sweep, server, *settings)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert results_of(sweep) == local


def test_a_session_of_the_server_reads_ledgers_as_tables(server: str, sweep: Path) -> None:
    """By the format that it has registered; the server's Python has this package."""
    command = [sys.executable, "-c", COUNT, server, str(sweep)]
    counted = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = sum(pq.read_metadata(file).num_rows for file in sweep.glob("trials/*/log.parquet"))
    assert int(counted) == rows


def test_an_altered_ledger_is_one_line_and_the_results_stay(server: str, tmp_path: Path) -> None:
    """The task that verifies the file's digest finds it."""
    sweep = tmp_path / "sweep"
    for trial in rehearsal_trials(records=10):
        trial.plant(sweep)
    altered = next((sweep / "trials").glob("*/attempts.parquet"))
    altered.chmod(0o600)
    content = bytearray(altered.read_bytes())
    content[len(content) // 3] ^= 1
    altered.write_bytes(content)
    ran = measure(sweep, server)
    assert ran.returncode == 2
    assert ran.stderr.startswith("measure: ")
    assert ran.stderr.count("\n") == 1
    assert not (sweep / "results").exists() or not list((sweep / "results").iterdir())


def test_a_setting_that_the_server_refuses_is_one_line(server: str, sweep: Path) -> None:
    """A value that is none, and a setting of the application, which the server has begun."""
    for setting in ("spark.sql.shuffle.partitions=many", "spark.executor.memory=2g"):
        ran = measure(sweep, server, setting)
        assert ran.returncode == 2
        assert ran.stderr.startswith(f"spark: the server refuses --conf {setting}: ")
        assert ran.stderr.count("\n") == 1


def test_what_is_no_address_of_a_server_is_one_line(sweep: Path) -> None:
    """Nobody listens there; and a token would be shown and stored with the address."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        silent = measure(sweep, f"sc://127.0.0.1:{unused.getsockname()[1]}")
    assert silent.returncode == 2
    assert "does not answer" in silent.stderr
    refused = measure(sweep, "sc://127.0.0.1:1/;token=secret")
    assert refused.returncode == 2
    assert "secret" not in refused.stderr
    assert "SPARK_CONNECT_AUTHENTICATE_TOKEN" in refused.stderr
