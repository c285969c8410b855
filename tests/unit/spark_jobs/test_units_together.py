"""The units of a trial, measured one by one and merged, have the results of the entire trial.

Generated histories are written to files with row groups of a few rows, split into units of a few
records, read, measured, and merged in a random order. The reference is plain Python.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from support import tally
from support.builders.corner_cases import CORNER_CASES
from support.builders.generated import generate_histories, shrink
from support.builders.histories import History, play
from support.measured import measure_in_units, measure_planted
from support.reference.results import plain_result
from support.reference.spark_results import to_plain_trials

from experiments.ledger.schema import TABLES
from spark_jobs.planted import PlantedTrial

HISTORIES = int(os.environ.get("ACKBENCH_UNIT_HISTORIES", "200"))
SEED = int(os.environ.get("ACKBENCH_HISTORIES_SEED", "20"))
Change = Callable[[PlantedTrial, Random], PlantedTrial]


def in_order(trial: PlantedTrial, _: Random) -> PlantedTrial:
    """Return the trial with its rows in the order in which a ledger has them."""
    return trial


def shuffled(trial: PlantedTrial, random: Random) -> PlantedTrial:
    """Return the trial with the rows of each file in a random order."""
    return replace(
        trial,
        **{
            name: random.sample(rows, len(rows))
            for name in TABLES
            for rows in [getattr(trial, name)]
        },
    )


def with_expiry(trial: PlantedTrial, random: Random) -> PlantedTrial:
    """Return the trial with begin offsets: the first records of its partitions had expired."""
    partitions = {row.partition for row in trial.log}
    return replace(
        trial, begin_offsets={partition: random.randrange(1, 12) for partition in partitions}
    )


def planted(histories: Sequence[History]) -> list[PlantedTrial]:
    """Return the trials of histories."""
    return [play(history, f"{number:05d}") for number, history in enumerate(histories)]


@pytest.mark.parametrize("change", [in_order, shuffled])
def test_merged_units_are_what_a_loop_over_every_record_finds(
    tmp_path: Path, change: Change
) -> None:
    """A history that differs is shortened and printed."""
    folders, random = (tmp_path / f"sweep {n}" for n in count()), Random(SEED)  # noqa: S311

    def differ(histories: Sequence[History]) -> list[bool]:
        trials = planted(histories)
        found = to_plain_trials(
            measure_in_units(next(folders), [change(trial, random) for trial in trials], random)
        )
        return [found[trial.trial_id] != plain_result(trial) for trial in trials]

    histories = [*CORNER_CASES, *generate_histories(HISTORIES, SEED)]
    wrong = [history for history, bad in zip(histories, differ(histories), strict=True) if bad]
    if wrong:
        shortest = shrink(min(wrong, key=len), differ)
        operations = "\n".join(f"    {operation}," for operation in shortest)
        pytest.fail(f"{len(wrong)} of the histories differ; the shortest is\n[\n{operations}\n]")
    tally.count("histories on which merged units and plain Python agree", len(histories))


@pytest.mark.parametrize("change", [in_order, shuffled, with_expiry])
def test_merged_units_have_every_table_of_the_entire_trial(tmp_path: Path, change: Change) -> None:
    """Also those that the reference does not have, such as causes and outages."""
    random = Random(SEED)  # noqa: S311 - a shuffle, no secret
    histories = [*CORNER_CASES, *generate_histories(HISTORIES // 4, SEED + 1)]
    trials = [change(trial, random) for trial in planted(histories)]
    assert_equal(measure_in_units(tmp_path / "sweep", trials, random), measure_planted(*trials))


def assert_equal(found: dict[str, pa.Table], expected: dict[str, pa.Table]) -> None:
    """Assert that all tables have the same rows."""
    assert found.keys() == expected.keys()
    for name, table in expected.items():
        assert as_set(found[name]) == as_set(table), name


def as_set(table: pa.Table) -> set[str]:
    """Return the rows of a table, whatever their order."""
    rows = {repr(sorted(row.items())) for row in table.to_pylist()}
    assert len(rows) <= len(table)
    return rows
