"""The time limits of the parts of a sweep, by its plan."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builders.records import a_spec

from ackbench.experiments.sweep.plan import Plan
from ackbench.experiments.sweep.time_limits import (
    START_LIMIT_S,
    TRIAL_LIMIT_S,
    batch_limit_s,
    results_limit_s,
    run_limit_s,
    trial_limit_s,
)
from ackbench.infra.process.load_lock import MAX_WAIT_S

LOAD = a_spec().workload


def a_plan(*durations_s: float) -> Plan:
    """Return a plan whose trials `0`, `1`, ... have loads of these durations."""
    return Plan(
        sweep_id="planted-20260101T000000-abcd",
        experiment="planted",
        question="?",
        seed=1,
        repeats=1,
        trials=tuple(
            a_spec(
                trial_id=f"{number:03d}-abcdef",
                workload=LOAD.model_copy(update={"duration_s": duration_s}),
            )
            for number, duration_s in enumerate(durations_s)
        ),
        refused=(),
    )


def test_a_task_may_run_any_trial_or_any_batch() -> None:
    """It takes the next trial of the plan, or a batch of its host's, which may be the longest."""
    plan, fixed_s = a_plan(10, 86_400, 20), MAX_WAIT_S + START_LIMIT_S
    assert trial_limit_s(plan) == fixed_s + 86_400 + TRIAL_LIMIT_S
    assert batch_limit_s(plan) == fixed_s + 86_430 + 3 * TRIAL_LIMIT_S


@given(st.lists(st.floats(1, 1e5), min_size=1, max_size=5))
def test_a_run_may_take_longer_than_its_loads_and_more_trials_take_longer(
    durations_s: list[float],
) -> None:
    """So that no limit ends what only works."""
    plan = a_plan(*durations_s)
    assert run_limit_s(plan) > sum(durations_s) + START_LIMIT_S
    assert run_limit_s(a_plan(*durations_s, 1.0)) > run_limit_s(plan)
    assert results_limit_s(a_plan(*durations_s, 1.0)) > results_limit_s(plan)


def test_without_trials_there_is_time_for_a_start() -> None:
    """A sweep whose cells are all refused."""
    assert trial_limit_s(a_plan()) == pytest.approx(MAX_WAIT_S + START_LIMIT_S)
