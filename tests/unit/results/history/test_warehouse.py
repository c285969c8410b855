"""The warehouse: one Parquet file per sweep and table, for questions over many sweeps."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.builders.records import a_spec
from support.builders.result_tables import loss_counts
from support.builders.sweep_folders import measured_sweep_folder

import ackbench
from ackbench.experiments.ledger.location import Location, LocationError, open_location
from ackbench.experiments.messages.errors import LedgerError, StorageError, UnknownName
from ackbench.experiments.results.history import warehouse
from ackbench.experiments.results.read import read_results
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.plan import FaultRequest
from ackbench.infra.machine.home import REPOSITORY, Home

GUIDE = (REPOSITORY / "docs" / "history.md").read_text(encoding="utf-8")


def plant(home: Home, name: str, lost: int, *, added: bool = False) -> SweepFolder:
    """Write a measured sweep of two cells; in each of the two trials of acks=1 records are lost."""
    specs = [
        a_spec(
            trial_id=f"{place:03}-abcdef",
            cell={
                "acks": acks,
                "enable.idempotence": False,
                "replication.factor": 3,
                "partitions": 1,
                "fault": "leader-crash",
            },
            label=f"acks={acks}",
            producer={"acks": str(acks), "enable.idempotence": "false"},
            repeat=repeat,
            seed=repeat,
            fault=FaultRequest(kind="leader-crash"),
            added=added,
        )
        for place, (acks, repeat) in enumerate(
            (acks, repeat) for acks in (1, "all") for repeat in (0, 1)
        )
    ]
    return measured_sweep_folder(
        home, name, specs, lambda spec: loss_counts(100, lost if spec.cell["acks"] == 1 else 0)
    )


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """Return a home, whose path has to be quoted, with two sweeps of one experiment."""
    home = Home(tmp_path / "a home, 50% full")
    monkeypatch.setenv("ACKBENCH_HOME", str(home.root))
    plant(home, "first", 7)
    plant(home, "second", 9)
    return home


def files_of(home: Home) -> dict[str, bytes]:
    """Return the files of the warehouse by their paths in it."""
    folder = home.root / warehouse.WAREHOUSE
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*.parquet"))
    }


def keep(home: Home, sweep: SweepFolder) -> None:
    """Write a sweep to the home's warehouse, as its last steps do."""
    files = warehouse.files_of(sweep, read_results(sweep))
    warehouse.write_files(files, warehouse.warehouse_of_home(home))


@pytest.mark.parametrize("table", ["trials", "cells", "verdicts", "expectations"])
def test_a_table_has_the_rows_of_all_sweeps_as_each_sweep_has_them(home: Home, table: str) -> None:
    """With the axes under names that SQL takes without quotes."""
    rows = ackbench.history(table)
    for name in ackbench.sweeps():
        expected = getattr(ackbench.load(name), table)
        of_sweep = rows[rows["sweep_id"] == name].reset_index(drop=True)
        found = of_sweep[[column for column in expected.columns if column in of_sweep]]
        pd.testing.assert_frame_equal(
            found, expected[found.columns], check_dtype=False, check_index_type=False
        )
    assert {"acks", "enable_idempotence", "replication_factor", "partitions", "fault"} <= {
        *rows.columns
    }
    assert len(files_of(home)) == 2 * len(warehouse.TABLES)


def test_a_sweep_that_is_measured_again_has_the_same_files(home: Home) -> None:
    """Their names are those of the sweep; equal results are equal bytes."""
    ackbench.history()
    before = files_of(home)
    keep(home, SweepFolder(home.sweeps / ackbench.sweeps()[0]))
    assert files_of(home) == before


def test_a_sweep_that_is_gone_stays_in_the_history(home: Home) -> None:
    """As one that was pruned."""
    before = ackbench.history("trials")
    gone = SweepFolder(home.sweeps / ackbench.sweeps()[0])
    gone.root.rename(home.root / "elsewhere")
    pd.testing.assert_frame_equal(ackbench.history("trials"), before)


def test_the_settings_of_each_trial_can_be_joined(home: Home) -> None:
    """By sweep and trial, as scope, name and value."""
    del home
    settings = ackbench.history("settings")
    partitions = settings.query("scope == 'cluster' and name == 'partitions'")
    joined = partitions.merge(ackbench.history("trials"), on=["sweep_id", "trial_id"])
    assert len(joined) == 8
    assert (joined["value"] == joined["partitions"]).all()


def test_an_experiment_can_be_chosen(home: Home) -> None:
    """One without a sweep has no rows, and the same columns."""
    del home
    chosen = ackbench.history("cells", "second")
    none = ackbench.history("cells", "another")
    assert (set(chosen["experiment"]), len(chosen), len(none)) == ({"second"}, 2, 0)
    assert list(none.columns) == list(chosen.columns)


def test_columns_can_be_chosen(home: Home) -> None:
    """In the order in which they are asked for; an unknown one has its nearest."""
    del home
    chosen = ackbench.history("cells", columns=["trials_with_loss", "acks", "sweep_id"])
    assert list(chosen.columns) == ["trials_with_loss", "acks", "sweep_id"]
    pd.testing.assert_frame_equal(chosen, ackbench.history("cells")[chosen.columns])
    with pytest.raises(UnknownName, match="unknown column ack of cells; did you mean acks"):
        ackbench.history("cells", columns=["ack"])


def test_a_home_without_a_sweep_has_an_empty_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written for it."""
    monkeypatch.setenv("ACKBENCH_HOME", str(tmp_path / "none"))
    assert ackbench.history("verdicts").empty
    assert not (tmp_path / "none").exists()


def test_a_column_of_a_newer_version_is_left_out_and_one_of_a_later_version_is_null(
    home: Home,
) -> None:
    """Of sweeps that other versions of ackbench wrote."""
    ackbench.history("cells")
    first, second = sorted((home.root / "warehouse" / "cells").rglob("*.parquet"))
    newer = pq.read_table(first)
    pq.write_table(newer.append_column("colour", pa.array(["red"] * len(newer))), first)
    pq.write_table(pq.read_table(second).drop_columns(["lost_low"]), second)
    rows = ackbench.history("cells")
    assert "colour" not in rows
    assert rows["lost_low"].isna().sum() == 2


def test_a_damaged_file_is_named(home: Home) -> None:
    """In one line, with what to do."""
    ackbench.history("cells")
    damaged = min((home.root / "warehouse" / "cells").rglob("*.parquet"))
    damaged.write_bytes(b"PAR1 no more")
    with pytest.raises(LedgerError, match=rf"{damaged.name}.*delete the file") as raised:
        ackbench.history("cells")
    assert "\n" not in str(raised.value)


def test_an_unknown_table_has_its_nearest(home: Home) -> None:
    """And those that there are."""
    del home
    with pytest.raises(UnknownName, match="unknown table cell; did you mean cells"):
        ackbench.history("cell")


def test_a_store_has_a_history_of_its_own(home: Home, tmp_path: Path) -> None:
    """Of what was published to it, from any host."""
    store = tmp_path / "store"
    sweep = SweepFolder(home.sweeps / ackbench.sweeps()[0])
    place = open_location(store.as_uri()).at(warehouse.WAREHOUSE)
    warehouse.write_files(warehouse.files_of(sweep, read_results(sweep)), place)
    rows = ackbench.history("trials", store=str(store))
    assert set(rows["sweep_id"]) == {sweep.sweep_id}


def test_duckdb_answers_the_question_of_the_guide_as_pandas_does(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are run as they stand there, and leave out the controls that were added."""
    plant(home, "controls", 5, added=True)
    (example,) = re.findall(r"```python\n(import ackbench\n.*?)```", GUIDE, re.DOTALL)
    *lines, question = example.splitlines()
    names: dict[str, Any] = {}
    exec("\n".join((*lines, f"expected = {question}")), names)  # noqa: S102
    expected = names["expected"]
    monkeypatch.chdir(home.root)
    (query,) = re.findall(r"```sql\n(.*?)```", GUIDE, re.DOTALL)
    found = duckdb.connect().execute(query).df().set_index(["experiment", "acks"])
    assert found["trials"].to_dict() == expected["sealed_trials"].to_dict()
    assert found["with_loss"].to_dict() == expected["trials_with_loss"].to_dict()


def test_a_home_that_cannot_be_written_is_one_line(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a full disk; nothing was read before."""

    def full(*_: object) -> None:
        raise LocationError(f"{home.root} cannot be written: No space left on device")

    monkeypatch.setattr(Location, "write", full)
    with pytest.raises(StorageError, match="No space left on device"):
        ackbench.history()
