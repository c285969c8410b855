"""Thousands of generated histories, measured by the job and by plain Python loops.

Both must give the same values.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from support import tally
from support.builders.corner_cases import CORNER_CASES
from support.builders.generated import generate_histories, shrink
from support.builders.histories import History, play
from support.measured import measure_planted
from support.reference.results import plain_result
from support.reference.spark_results import to_plain_trials
from support.tiers import examples

from ackbench.experiments.ledger.schema import TABLES
from ackbench.spark_jobs.planted import PlantedTrial

HISTORIES = int(os.environ.get("ACKBENCH_HISTORIES", "1024"))
HISTORIES_PER_TEST = examples(512)
SEED = int(os.environ.get("ACKBENCH_HISTORIES_SEED", "20"))

Tables = dict[str, pa.Table]


@pytest.mark.further(part=range(1, HISTORIES))
@pytest.mark.parametrize("part", range(-(-HISTORIES // HISTORIES_PER_TEST)))
def test_the_job_finds_what_a_loop_over_every_record_finds(part: int) -> None:
    """A history that differs is shortened and printed."""
    generated = [
        *(CORNER_CASES if part == 0 else ()),
        *generate_histories(
            min(HISTORIES_PER_TEST, HISTORIES - part * HISTORIES_PER_TEST), SEED + part
        ),
    ]
    wrong = [history for history, bad in zip(generated, _differ(generated), strict=True) if bad]
    if wrong:
        pytest.fail(_describe_difference(shrink(min(wrong, key=len), _differ), len(wrong)))
    tally.count("histories on which the job and plain Python agree", len(generated))


@pytest.mark.further
def test_the_order_of_rows_and_trials_changes_nothing() -> None:
    """Files hold rows in the order of their writing; no value may depend on it."""
    trials, random = _planted(generate_histories(examples(128), SEED)), Random(SEED)  # noqa: S311 - a shuffle, no secret
    shuffled = [_shuffled(trial, random) for trial in random.sample(trials, len(trials))]
    one, other = _measured(trials), _measured(shuffled)
    assert {name: _as_a_set(table) for name, table in one.items()} == {
        name: _as_a_set(table) for name, table in other.items()
    }


@pytest.mark.further
def test_trials_measured_together_are_as_measured_separately() -> None:
    """A trial's values do not depend on the other trials of its sweep."""
    trials = _planted(generate_histories(48, SEED))
    separate = [to_plain_trials(_measured(part)) for part in (trials[:1], trials[1:])]
    assert to_plain_trials(_measured(trials)) == {
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


def _measured(trials: Sequence[PlantedTrial]) -> Tables:
    return measure_planted(*trials)


def _differ(generated: Sequence[History]) -> list[bool]:
    """Return, for each history, whether the job and the plain loops give different values."""
    trials = _planted(generated)
    found = to_plain_trials(_measured(trials))
    return [found[trial.trial_id] != plain_result(trial) for trial in trials]


def _describe_difference(history: History, wrong: int) -> str:
    (trial,) = _planted([history])
    found = to_plain_trials(_measured([trial]))[trial.trial_id]
    operations = "\n".join(f"    {operation}," for operation in history)
    return (
        f"{wrong} of the histories differ; the shortest is\n[\n{operations}\n]\n"
        f"job:    {found}\nplain:  {plain_result(trial)}"
    )


def _shuffled(trial: PlantedTrial, random: Random) -> PlantedTrial:
    rows: dict[str, Any] = {name: list(getattr(trial, name)) for name in TABLES}
    for table in rows.values():
        random.shuffle(table)
    return replace(trial, **rows)


def _as_a_set(table: pa.Table) -> set[str]:
    return {repr(sorted(row.items())) for row in table.to_pylist()}
