"""The units of a trial, measured one by one and merged, have the results of the entire trial.

Generated histories are written to files with row groups of a few rows, split into units of a few
records, read, measured, and merged in a random order. The reference is plain Python.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from support import tally
from support.builders.corner_cases import CORNER_CASES
from support.builders.generated import generate_histories, shrink
from support.builders.histories import History, play
from support.builders.workloads import (
    random_copy_trial,
    random_expired_trial,
    random_group_trial,
    random_trial_with_groups,
)
from support.measured import measure_in_units, measure_planted
from support.reference.groups import copy_counts, group_rows
from support.reference.results import plain_result
from support.reference.spark_results import to_plain_trials
from support.tiers import examples

from ackbench.experiments.ledger.schema import TABLES
from ackbench.experiments.ledger.terms import Source
from ackbench.spark_jobs.planted import PlantedAttempt, PlantedEvent, PlantedLogRow, PlantedTrial

HISTORIES = int(os.environ.get("ACKBENCH_UNIT_HISTORIES", examples(60)))
SEED = int(os.environ.get("ACKBENCH_HISTORIES_SEED", "20"))
Change = Callable[[PlantedTrial, Random], PlantedTrial]


def in_order(trial: PlantedTrial, _: Random) -> PlantedTrial:
    """Return the trial with its rows in the order in which a ledger has them."""
    return trial


def shuffled(trial: PlantedTrial, random: Random) -> PlantedTrial:
    """Return the trial with the rows of each file in a random order."""
    rows: dict[str, Any] = {
        name: random.sample(getattr(trial, name), len(getattr(trial, name))) for name in TABLES
    }
    return replace(trial, **rows)


def planted(histories: Sequence[History]) -> list[PlantedTrial]:
    """Return the trials of histories."""
    return [play(history, f"{number:05d}") for number, history in enumerate(histories)]


@pytest.mark.further(change=[in_order])
@pytest.mark.parametrize("change", [in_order, shuffled])
def test_merged_units_are_what_a_loop_over_every_record_finds(
    tmp_path: Path, change: Change
) -> None:
    """And tables that the loop does not make are those of the entire trial, such as causes."""
    seed = SEED + (change is shuffled)
    folders, random = (tmp_path / f"sweep {n}" for n in count()), Random(seed)  # noqa: S311

    def differ(histories: Sequence[History]) -> list[bool]:
        trials = planted(histories)
        tables = measure_in_units(
            next(folders), [change(trial, random) for trial in trials], random
        )
        found, merged, entire = (
            to_plain_trials(tables),
            rows_by_trial(tables),
            rows_by_trial(measure_planted(*trials)),
        )
        return [
            found[trial.trial_id] != plain_result(trial)
            or merged[trial.trial_id] != entire[trial.trial_id]
            for trial in trials
        ]

    corner_cases = random.sample(CORNER_CASES, examples(len(CORNER_CASES)))
    histories = [*corner_cases, *generate_histories(HISTORIES, seed)]
    wrong = [history for history, bad in zip(histories, differ(histories), strict=True) if bad]
    if wrong:
        shortest = shrink(min(wrong, key=len), differ)
        operations = "\n".join(f"    {operation}," for operation in shortest)
        pytest.fail(f"{len(wrong)} of the histories differ; the shortest is\n[\n{operations}\n]")
    tally.count("histories on which merged units and plain Python agree", len(histories))


def test_merged_units_know_what_expired_in_the_others(tmp_path: Path) -> None:
    """Whether another unit has a record at a place decides whether a record is lost or unknown."""
    random = Random(SEED)  # noqa: S311 - a shuffle, no secret
    trials = [random_expired_trial(seed) for seed in range(examples(12))]
    tables = measure_in_units(
        tmp_path / "sweep", [shuffled(trial, random) for trial in trials], random
    )
    assert rows_by_trial(tables) == rows_by_trial(measure_planted(*trials))


def test_merged_units_have_the_counts_of_groups_and_copiers(tmp_path: Path) -> None:
    """The reference is plain Python; begin offsets split what a group missed."""
    random = Random(SEED)  # noqa: S311 - a shuffle, no secret
    trials = [
        replace(trial, trial_id=f"{number:03d}-random", begin_offsets={0: 5 * (number % 3)})
        for number, trial in enumerate(
            random_workload(seed)
            for seed in range(3)
            for random_workload in (random_group_trial, random_trial_with_groups, random_copy_trial)
        )
    ]
    tables = measure_in_units(
        tmp_path / "sweep", [shuffled(trial, random) for trial in trials], random
    )
    assert rows_by_trial(tables) == rows_by_trial(measure_planted(*trials))
    found = {(row.pop("trial_id"), row["group"]): row for row in tables["groups"].to_pylist()}
    for trial in trials:
        for row in group_rows(trial):
            assert {**found[trial.trial_id, row["group"]], **row} == found[
                trial.trial_id, row["group"]
            ]
    assert {row.pop("trial_id"): row for row in tables["copies"].to_pylist()} == {
        trial.trial_id: copy_counts(trial) for trial in trials if trial.output is not None
    }


def test_a_cause_follows_from_what_all_units_appended(tmp_path: Path) -> None:
    """Other units have the records around the lost ones: 2 is within an epoch, 6 to 11 are not."""
    epochs = [*[5] * 6, *[None] * 6, *[6] * 6]
    trial = PlantedTrial(
        "000-between",
        [PlantedAttempt(0, seq, offset=None) for seq in range(18)],
        [
            PlantedLogRow(0, seq, offset, leader_epoch=epochs[seq])
            for offset, seq in enumerate((0, 1, 3, 4, 5, *range(12, 18)))
        ],
        events=[
            PlantedEvent(at_ns, "became_leader", node, 0, epoch, offset, Source.BROKER)
            for at_ns, node, epoch, offset in ((0, 1, 5, 0), (500_000, 2, 6, 5))
        ],
    )
    found = measure_in_units(tmp_path / "sweep", [trial], Random(SEED))  # noqa: S311
    rows = found["anomalies"].sort_by("seq").to_pylist()
    assert [(row["kind"], row["seq"], row["cause"]) for row in rows] == [
        ("LOST", 2, "UNATTRIBUTED"),
        *(("LOST", seq, "NEVER_APPENDED") for seq in range(6, 12)),
    ]
    assert rows_by_trial(found) == rows_by_trial(measure_planted(trial))


def rows_by_trial(tables: Mapping[str, pa.Table]) -> dict[str, Counter[str]]:
    """Return the rows of all tables by trial, whatever their order."""
    rows: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for name, table in tables.items():
        for row in table.to_pylist() if "trial_id" in table.schema.names else ():
            rows[row["trial_id"]][f"{name} {sorted(row.items())}"] += 1
    return dict(rows)
