"""The seal: a ledger is whole or it is not there."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.builders.records import a_record, no_rows

from experiments.ledger.record import read_record
from experiments.ledger.schema import LOG, TABLES
from experiments.ledger.seal import seal


def test_a_sealed_trial_reads_back_as_it_was_written(tmp_path: Path) -> None:
    """`trial.json` and the tables come back equal."""
    partial, whole = tmp_path / "t.partial", tmp_path / "t"
    partial.mkdir()
    row = {
        "partition": [0],
        "offset": [7],
        "producer": [0],
        "seq": [3],
        "timestamp_ms": [5],
        "intact": [True],
        "leader_epoch": [4],
        "visible": [True],
    }
    log = pa.table(row, schema=LOG)
    seal(partial, whole, a_record(), {**no_rows(), "log": log})
    assert read_record(whole) == a_record()
    assert pq.read_table(whole / "log.parquet").equals(log)


def test_each_table_names_its_trial_and_its_version(tmp_path: Path) -> None:
    """A file that strayed into another trial's folder can be told."""
    partial = tmp_path / "t.partial"
    partial.mkdir()
    seal(partial, tmp_path / "t", a_record(), no_rows())
    for name in TABLES:
        marks = pq.read_schema(tmp_path / "t" / f"{name}.parquet").metadata
        assert marks[b"ackbench.trial_id"] == a_record().trial_id.encode()


def test_a_table_of_another_schema_is_not_sealed(tmp_path: Path) -> None:
    """The folder keeps its partial name."""
    partial, whole = tmp_path / "t.partial", tmp_path / "t"
    partial.mkdir()
    with pytest.raises(ValueError, match="log"):
        seal(partial, whole, a_record(), {**no_rows(), "log": pa.table({"offset": [1]})})
    assert not whole.exists()


def test_a_missing_table_is_not_sealed(tmp_path: Path) -> None:
    """All four tables, or no ledger."""
    partial = tmp_path / "t.partial"
    partial.mkdir()
    tables = no_rows()
    del tables["reads"]
    with pytest.raises(ValueError, match="reads"):
        seal(partial, tmp_path / "t", a_record(), tables)
