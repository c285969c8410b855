"""A sweep's tables as DataFrames of a session."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

import ackbench
from ackbench.experiments.ledger.result_tables import RESULTS
from ackbench.experiments.ledger.schema import TABLES
from ackbench.spark_jobs.measure import measure_in
from ackbench.spark_jobs.rehearse import rehearsal_trials
from ackbench.spark_jobs.session import ContextApplication

RECORDS = 500


@pytest.fixture(scope="module")
def session(spark: SparkContext) -> SparkSession:
    """Return a session with the format."""
    session = SparkSession(spark)
    session.dataSource.register(ackbench.SparkSource)
    return session


@pytest.fixture(scope="module")
def sweep(spark: SparkContext, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a measured sweep."""
    folder = tmp_path_factory.mktemp("source") / "a sweep"
    for trial in rehearsal_trials(records=RECORDS):
        trial.plant(folder)
    measure_in(ContextApplication(spark), str(folder))
    return folder


def test_the_rows_of_all_ledgers_are_one_table(session: SparkSession, sweep: Path) -> None:
    """Each with its trial; the numbers of rows are those of the files."""
    for name in TABLES:
        read = session.read.format("ackbench").option("table", name).load(str(sweep))
        found = {
            row["trial_id"]: row["count"] for row in read.groupBy("trial_id").count().collect()
        }
        files = sweep.glob(f"trials/*/{name}.parquet")
        expected = {file.parent.name: pq.read_metadata(file).num_rows for file in files}
        assert found == {trial: rows for trial, rows in expected.items() if rows}


def test_the_values_are_those_of_the_file(session: SparkSession, sweep: Path) -> None:
    """Of the chosen columns, in their order."""
    read = session.read.format("ackbench").option("table", "log").option("columns", "seq, offset")
    file = next(sweep.glob("trials/*/log.parquet"))
    stored = pq.read_table(file, columns=["seq", "offset"]).to_pylist()
    rows = read.load(str(sweep)).collect()
    assert rows[: len(stored)] == [(row["seq"], row["offset"]) for row in stored]


@pytest.mark.parametrize("name", sorted(RESULTS))
def test_results_are_tables_too(session: SparkSession, sweep: Path, name: str) -> None:
    """Every one, as it was written."""
    read = session.read.format("ackbench").option("table", f"results/{name}").load(str(sweep))
    stored = pq.read_table(sweep / "results" / f"{name}.parquet")
    assert read.columns == stored.column_names
    assert [row.asDict() for row in read.collect()] == stored.to_pylist()


def test_nothing_is_read_of_a_file_that_was_altered(session: SparkSession, tmp_path: Path) -> None:
    """The query fails, and names the file."""
    for trial in rehearsal_trials(records=10):
        trial.plant(tmp_path)
    altered = next(tmp_path.glob("trials/*/log.parquet"))
    altered.chmod(0o600)
    content = bytearray(altered.read_bytes())
    content[len(content) // 3] ^= 1
    altered.write_bytes(content)
    read = session.read.format("ackbench").option("table", "log").load(str(tmp_path))
    with pytest.raises(Exception, match=f"{altered.name} was altered after it was sealed"):
        read.collect()


@pytest.mark.parametrize(
    ("options", "folder", "says"),
    [
        ({}, "", "option table=: give one of attempts, "),
        ({"table": "atempts"}, "", "option table=atempts: give one of attempts, "),
        ({"table": "log", "columns": "seq, ofset"}, "", "log has no ofset, only trial_id, "),
        ({"table": "log"}, "none", "none"),
        ({"table": "results/cells"}, "trials", "has no results: it was not measured"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_line(
    session: SparkSession, sweep: Path, options: dict[str, str], folder: str, says: str
) -> None:
    """Spark adds its own lines around it."""
    with pytest.raises(Exception, match=says):
        session.read.format("ackbench").options(**options).load(str(sweep / folder)).collect()
