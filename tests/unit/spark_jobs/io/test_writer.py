"""The files of results: equal bytes for equal rows, and nothing is left of an error."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from support.measured import measure_planted

from ackbench.spark_jobs.io import writer
from ackbench.spark_jobs.io.writer import ResultsWriter, write_results
from ackbench.spark_jobs.planted import PlantedAttempt, PlantedTrial

LOCAL = pafs.LocalFileSystem()
TABLES = measure_planted(
    *(
        PlantedTrial(f"{number:03d}", [PlantedAttempt(0, seq) for seq in (3, 2, 1, 0)])
        for number in range(3)
    )
)
"""Each trial lost four records."""


def of_trial(tables: dict[str, pa.Table], trial_id: str) -> dict[str, pa.Table]:
    """Return a trial's rows."""
    return {
        name: table.filter(pa.compute.field("trial_id") == trial_id)
        for name, table in tables.items()
        if "trial_id" in table.column_names
    }


def contents(sweep: Path) -> dict[str, bytes]:
    """Return the files of results."""
    return {path.name: path.read_bytes() for path in (sweep / "results").iterdir()}


def test_rows_added_by_trial_give_the_bytes_of_all_rows_at_once(tmp_path: Path) -> None:
    """The rows are sorted, and in one row group."""
    write_results(LOCAL, str(tmp_path / "at once"), TABLES)
    with ResultsWriter(LOCAL, str(tmp_path / "by trial")) as results:
        for trial_id in TABLES["trials"]["trial_id"].to_pylist():
            results.add(of_trial(TABLES, trial_id))
        results.add({"cells": TABLES["cells"]})
        results.commit()
    assert contents(tmp_path / "by trial") == contents(tmp_path / "at once")
    anomalies = pq.read_table(tmp_path / "at once" / "results" / "anomalies.parquet")
    assert anomalies["seq"].to_pylist() == [0, 1, 2, 3] * 3


def test_many_rows_are_written_as_they_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One row group per trial here; the rows and their order are the same."""
    write_results(LOCAL, str(tmp_path / "few"), TABLES)
    monkeypatch.setattr(writer, "ROW_GROUP_ROWS", 4)
    with ResultsWriter(LOCAL, str(tmp_path / "many")) as results:
        for trial_id in TABLES["trials"]["trial_id"].to_pylist():
            results.add(of_trial(TABLES, trial_id))
        results.add({"cells": TABLES["cells"]})
        results.commit()
    few, many = (tmp_path / name / "results" / "anomalies.parquet" for name in ("few", "many"))
    assert pq.read_metadata(many).num_row_groups == 3
    assert pq.read_table(many).equals(pq.read_table(few))


def test_an_error_leaves_earlier_results_and_no_partial_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although some rows were written before it."""
    write_results(LOCAL, str(tmp_path), TABLES)
    before = contents(tmp_path)
    monkeypatch.setattr(writer, "ROW_GROUP_ROWS", 4)
    wrong = of_trial(TABLES, "001") | {"anomalies": TABLES["fates"]}

    def write() -> None:
        with ResultsWriter(LOCAL, str(tmp_path)) as results:
            results.add(of_trial(TABLES, "000"))
            results.add(wrong)

    with pytest.raises(KeyError):
        write()
    assert contents(tmp_path) == before
