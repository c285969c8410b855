"""The rows of a large table by trial."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.builders.records import a_spec
from support.builders.sweep_folders import measured_sweep_folder

from ackbench.experiments.ledger.quantities import FORMER_COLUMNS
from ackbench.experiments.ledger.result_tables import HISTOGRAM
from ackbench.experiments.messages.errors import LedgerError
from ackbench.experiments.results.rows import (
    TrialRows,
    large_table_by_trial,
    read_table,
    rows_by_trial,
)
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.infra.machine.home import Home


@pytest.fixture
def sweep(tmp_path: Path) -> SweepFolder:
    """Return a measured sweep of one trial."""
    return measured_sweep_folder(Home(tmp_path), "planted", [a_spec()], lambda _: {})


def a_row(trial: int, low: int) -> dict[str, Any]:
    """Return a row of `HISTOGRAM`."""
    return {
        "trial_id": f"{trial:03d}-aaaaaa",
        "measure": "ack",
        "phase": "all",
        "from_us": low,
        "to_us": low + 1,
        "records": trial + low,
    }


def write(sweep: SweepFolder, rows: list[dict[str, Any]], schema: pa.Schema = HISTOGRAM) -> None:
    """Replace the histograms of a sweep."""
    pq.write_table(
        pa.Table.from_pylist(rows, schema=schema),
        sweep.results / "histogram.parquet",
        row_group_size=3,
    )


def test_a_large_table_has_the_rows_of_each_trial_in_order(sweep: SweepFolder) -> None:
    """Also of trials that take turns in the table, and over several row groups."""
    write(sweep, [a_row(number % 4, number) for number in range(20)])
    large = large_table_by_trial(sweep, "histogram")
    assert {trial: list(rows) for trial, rows in large.items()} == rows_by_trial(sweep, "histogram")
    rows = large["002-aaaaaa"]
    assert (len(rows), rows[1], rows[-1:]) == (5, a_row(2, 6), [a_row(2, 18)])


def test_a_large_table_makes_no_object_per_row(sweep: SweepFolder) -> None:
    """A thousand trials have millions of rows."""
    write(sweep, [a_row(number // 10, number) for number in range(20)])
    large = large_table_by_trial(sweep, "histogram")
    assert all(isinstance(rows, TrialRows) for rows in large.values())


def test_a_large_table_without_rows_has_no_trial(sweep: SweepFolder) -> None:
    """As one of a sweep whose trials have no records."""
    write(sweep, [])
    assert large_table_by_trial(sweep, "histogram") == {}


def test_a_large_table_of_another_version_is_refused(sweep: SweepFolder) -> None:
    """As any other table of the results."""
    write(sweep, [a_row(0, 0)], pa.schema([*HISTOGRAM][:-1]))
    with pytest.raises(LedgerError, match="is of another version"):
        large_table_by_trial(sweep, "histogram")


@pytest.mark.parametrize("name", ["trials", "cells"])
def test_a_table_with_former_names_and_order_of_columns_is_read_with_todays(
    name: str, sweep: SweepFolder
) -> None:
    """An earlier version measured it; a column less is another version's all the same."""
    expected = read_table(sweep, name)
    former = {present: column for column, present in FORMER_COLUMNS.items()}
    stored = expected.rename_columns(
        [
            re.sub("^(.+?)(_median|_max)?$", lambda n: former.get(n[1], n[1]) + (n[2] or ""), one)
            for one in expected.column_names
        ]
    ).select(range(expected.num_columns - 1, -1, -1))
    assert set(stored.column_names) - set(expected.column_names)
    path = sweep.results / f"{name}.parquet"

    pq.write_table(stored, path)
    assert read_table(sweep, name).equals(expected)
    pq.write_table(stored.drop_columns(stored.column_names[0]), path)
    with pytest.raises(LedgerError, match="of another version"):
        read_table(sweep, name)
