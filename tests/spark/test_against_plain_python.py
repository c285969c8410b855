"""Thousands of generated histories, measured by Spark and by plain Python loops over every record.

Both must give the same values.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from support import tally
from support.builders.corner_cases import CORNER_CASES
from support.builders.generated import generate_histories, shrink
from support.builders.histories import History, play
from support.reference.results import plain_result
from support.reference.spark_results import to_plain_trials

from experiments.ledger.schema import TABLES
from spark_jobs.io.frames import frames_from_tables
from spark_jobs.pipeline import measure_frames
from spark_jobs.planted import PlantedTrial, combined_tables

HISTORIES = int(os.environ.get("ACKBENCH_HISTORIES", "2048"))
HISTORIES_PER_JOB = 512
SEED = int(os.environ.get("ACKBENCH_HISTORIES_SEED", "20"))

Tables = dict[str, pa.Table]


@pytest.mark.parametrize("job", range(-(-HISTORIES // HISTORIES_PER_JOB)))
def test_spark_finds_what_a_loop_over_every_record_finds(spark: SparkSession, job: int) -> None:
    """A job measures hundreds of trials; a history that differs is shortened and printed."""
    generated = [
        *(CORNER_CASES if job == 0 else ()),
        *generate_histories(
            min(HISTORIES_PER_JOB, HISTORIES - job * HISTORIES_PER_JOB), SEED + job
        ),
    ]
    wrong = [
        history for history, bad in zip(generated, _differ(spark, generated), strict=True) if bad
    ]
    if wrong:
        pytest.fail(
            _describe_difference(
                spark,
                shrink(min(wrong, key=len), lambda smaller: _differ(spark, smaller)),
                len(wrong),
            )
        )
    tally.count("histories on which Spark and plain Python agree", len(generated))


def test_the_order_of_rows_and_trials_changes_nothing(spark: SparkSession) -> None:
    """Files hold rows in the order of their writing; no value may depend on it."""
    trials, random = _planted(generate_histories(128, SEED)), Random(SEED)  # noqa: S311 - a shuffle, no secret
    shuffled = [_shuffled(trial, random) for trial in random.sample(trials, len(trials))]
    one, other = _measured(spark, trials), _measured(spark, shuffled)
    assert {name: _as_a_set(table) for name, table in one.items()} == {
        name: _as_a_set(table) for name, table in other.items()
    }


def test_trials_measured_together_are_as_measured_separately(spark: SparkSession) -> None:
    """A trial's values do not depend on the other trials of its sweep."""
    trials = _planted(generate_histories(48, SEED))
    separate = [to_plain_trials(_measured(spark, part)) for part in (trials[:1], trials[1:])]
    assert to_plain_trials(_measured(spark, trials)) == {
        trial_id: found for part in separate for trial_id, found in part.items()
    }


def test_the_histories_cover_every_fate_and_phase() -> None:
    """Otherwise the comparison would not test them."""
    found = [plain_result(trial) for trial in _planted(generate_histories(512, SEED))]
    fates = {fate for trial in found for fate in trial.observed_fates}
    assert (len(fates), {phase for trial in found for _, phase in trial.latencies}) == (
        11,
        {"all", "before", "during", "after"},
    )


def _planted(generated: Sequence[History]) -> list[PlantedTrial]:
    return [play(history, f"{number:05d}") for number, history in enumerate(generated)]


def _measured(spark: SparkSession, trials: Sequence[PlantedTrial]) -> Tables:
    return measure_frames(
        frames_from_tables(spark, combined_tables(trials)), [trial.ledger() for trial in trials]
    )


def _differ(spark: SparkSession, generated: Sequence[History]) -> list[bool]:
    """Return, for each history, whether Spark and the plain loops give different values."""
    trials = _planted(generated)
    found = to_plain_trials(_measured(spark, trials))
    return [found[trial.trial_id] != plain_result(trial) for trial in trials]


def _describe_difference(spark: SparkSession, history: History, wrong: int) -> str:
    (trial,) = _planted([history])
    found = to_plain_trials(_measured(spark, [trial]))[trial.trial_id]
    operations = "\n".join(f"    {operation}," for operation in history)
    return (
        f"{wrong} of the histories differ; the shortest is\n[\n{operations}\n]\n"
        f"Spark:  {found}\nplain:  {plain_result(trial)}"
    )


def _shuffled(trial: PlantedTrial, random: Random) -> PlantedTrial:
    rows: dict[str, Any] = {name: list(getattr(trial, name)) for name in TABLES}
    for table in rows.values():
        random.shuffle(table)
    return replace(trial, **rows)


def _as_a_set(table: pa.Table) -> set[str]:
    return {repr(sorted(row.items())) for row in table.to_pylist()}
