"""A sealed ledger is complete; otherwise there is none under its final name."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.builders.records import a_record, no_rows

from ackbench.experiments.ledger.schema import LOG, TABLES
from ackbench.experiments.ledger.seal import seal
from ackbench.experiments.sweep.documents import read_trial_manifest


def test_a_sealed_trial_has_the_written_record_and_tables(tmp_path: Path) -> None:
    """`trial.json` and the tables are equal to what was passed."""
    partial, sealed = tmp_path / "000-abcdef.partial", tmp_path / "000-abcdef"
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
    manifest = seal(partial, sealed, a_record(), {**no_rows(), "log": log})
    assert read_trial_manifest(sealed) == manifest
    assert manifest.model_copy(update={"files": None}) == a_record()
    assert pq.read_table(sealed / "log.parquet").equals(log)


def test_each_table_has_its_trial_in_its_metadata(tmp_path: Path) -> None:
    """A file that was moved to another trial's folder can be detected."""
    partial = tmp_path / "t.partial"
    partial.mkdir()
    seal(partial, tmp_path / "t", a_record(), no_rows())
    for name in TABLES:
        metadata = pq.read_schema(tmp_path / "t" / f"{name}.parquet").metadata
        assert metadata[b"ackbench.trial_id"] == a_record().trial_id.encode()


def test_a_table_with_another_schema_is_not_sealed(tmp_path: Path) -> None:
    """The folder keeps its partial name."""
    partial, sealed = tmp_path / "000-abcdef.partial", tmp_path / "000-abcdef"
    partial.mkdir()
    with pytest.raises(ValueError, match="log"):
        seal(partial, sealed, a_record(), {**no_rows(), "log": pa.table({"offset": [1]})})
    assert not sealed.exists()


def test_a_missing_table_is_not_sealed(tmp_path: Path) -> None:
    """A ledger has all tables."""
    partial = tmp_path / "t.partial"
    partial.mkdir()
    tables = no_rows()
    del tables["reads"]
    with pytest.raises(ValueError, match="reads"):
        seal(partial, tmp_path / "t", a_record(), tables)
