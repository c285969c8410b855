"""The Python API: documented columns, values as `ackbench show --json` has them, missing as NA."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pytest
from support.builders.records import a_spec
from support.builders.result_tables import loss_counts
from support.builders.sweep_folders import measured_sweep_folder
from support.golden_files import GoldenFiles

import ackbench
from ackbench.experiments.messages.errors import UnknownName
from ackbench.experiments.sweep.plan import FaultRequest
from ackbench.infra.machine.home import REPOSITORY, Home

GUIDE_FILE: Final = REPOSITORY / "docs" / "api.md"
GUIDE: Final = GUIDE_FILE.read_text()
TABLES: Final[dict[str, tuple[ackbench.Column[Any], ...]]] = {
    "trials": ackbench.TRIAL_COLUMNS,
    "cells": ackbench.CELL_COLUMNS,
    "verdicts": ackbench.VERDICT_COLUMNS,
    "expectations": ackbench.EXPECTATION_COLUMNS,
    "compare": ackbench.DIFFERENCE_COLUMNS,
}


def plant(home: Home, name: str, lost: int) -> str:
    """Write a measured sweep of two cells with two trials each; return its id."""
    specs = [
        a_spec(
            trial_id=f"{index:03}-abcdef",
            cell={"acks": acks, "fault": "leader-crash"},
            label=f"acks={acks}",
            producer={"acks": str(acks), "enable.idempotence": "false"},
            repeat=repeat,
            order=index,
            seed=repeat,
            fault=FaultRequest(kind="leader-crash"),
        )
        for index, (acks, repeat) in enumerate(
            (acks, repeat) for acks in (1, "all") for repeat in (0, 1)
        )
    ]
    sweep = measured_sweep_folder(
        home, name, specs, lambda spec: loss_counts(100, lost if spec.cell["acks"] == 1 else 0)
    )
    return sweep.sweep_id


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """Return the home that the API reads."""
    monkeypatch.setenv("ACKBENCH_HOME", str(tmp_path))
    return Home(tmp_path)


@pytest.fixture
def sweep(home: Home) -> ackbench.Sweep:
    """Return a sweep in which acks=1 lost 7 of 100 records in each trial."""
    return ackbench.load(plant(home, "planted", 7))


def test_the_trials_have_their_axes_and_the_documented_columns(sweep: ackbench.Sweep) -> None:
    """In the documented order, with pandas' nullable types."""
    trials = sweep.trials

    assert list(trials.columns) == ["acks", "fault", *(one.name for one in ackbench.TRIAL_COLUMNS)]
    for column in ackbench.TRIAL_COLUMNS:
        assert trials[column.name].dtype == pd.api.types.pandas_dtype(column.dtype)
    assert trials.groupby("acks")["lost_low"].sum().to_dict() == {"1": 14, "all": 0}


def test_cells_and_verdicts_agree_with_the_trials(sweep: ackbench.Sweep) -> None:
    """One row per cell; one per cell and guarantee."""
    cells = sweep.cells.set_index("acks")

    assert cells.loc["1", "lost_low"] == 14
    assert cells.loc["1", "trials_with_loss"] == 2
    loss = sweep.verdicts.query("guarantee == 'no-acked-loss'").set_index("acks")
    assert not loss.loc["1", "guaranteed"]
    assert loss.loc["1", "source"].startswith("https://")


def test_a_value_that_was_not_measured_is_missing_and_not_zero(sweep: ackbench.Sweep) -> None:
    """These trials have no concurrent consumer."""
    assert sweep.trials["end_to_end_p99_ms"].isna().all()


def test_two_sweeps_are_compared_cell_by_cell(home: Home, sweep: ackbench.Sweep) -> None:
    """Loss differs by nothing in the safe cell, and not in the other: both lose in each trial."""
    other = ackbench.load(plant(home, "other", 9))
    rows = ackbench.compare(sweep, other)

    assert list(rows.columns) == [one.name for one in ackbench.DIFFERENCE_COLUMNS]
    assert set(rows["measure"]) >= {"loss", "duplicates"}
    assert (rows.query("measure == 'loss'")["difference"] == 0).all()


def test_the_tables_of_the_job_are_available(sweep: ackbench.Sweep) -> None:
    """An unknown one names the nearest."""
    assert set(sweep.table("trials")["trial_id"]) == set(sweep.trials["trial_id"])
    with pytest.raises(UnknownName, match="did you mean timeline"):
        sweep.table("timelime")


def test_the_newest_sweep_comes_first_and_an_unknown_one_is_one_line(sweep: ackbench.Sweep) -> None:
    """As `ackbench show` names sweeps."""
    assert ackbench.sweeps() == (sweep.sweep_id,)
    assert ackbench.load().sweep_id == sweep.sweep_id
    with pytest.raises(ackbench.AckbenchError, match="unknown sweep") as error:
        ackbench.load("nothing")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("table", TABLES)
def test_the_guide_documents_every_column_as_the_code_does(table: str, golden: GoldenFiles) -> None:
    """Name, type and meaning; and no other column."""
    rows = [f"| `{one.name}` | {one.dtype} | {one.text} |" for one in TABLES[table]]

    golden.compare_rows(GUIDE_FILE, f"## {table}", rows)


def test_the_examples_of_the_guide_run(sweep: ackbench.Sweep, home: Home) -> None:
    """All Python in the guide, top to bottom; a run of its own needs brokers and is left out."""
    plant(home, "quick", 3)
    blocks = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    runnable = [block for block in blocks if "ackbench.run(" not in block]

    assert len(runnable) >= 3
    assert len(blocks) == len(runnable) + 1
    exec("\n".join(runnable), {"__name__": "guide", "sweep_id": sweep.sweep_id})  # noqa: S102
