"""How long a sweep will take, about: told before it begins. Pure.

The figures are rounded medians of stages on two cores (`docs/performance.md`); a busy machine takes longer.
"""

from __future__ import annotations

from typing import Final

from experiments.plan import Plan

START_S: Final = 13.0
"""Airflow's start, and the plan."""
TAIL_S: Final = 27.0
"""Measuring and tracking, after the last trial."""
CLUSTER_S: Final = 6.0
"""From the request to a cluster that is whole; and its end."""
RUN_IN_S: Final = 3.0
"""Until the brokers of a cluster that is shared are as fast as they get."""
TRIAL_S: Final = 3.5
"""Beside the load: the topic, the heal, the final read, the ledger."""


def expected_s(plan: Plan) -> float:
    """Return about how long a plan's trials take, seconds."""
    shared = {trial.cluster.model_dump_json() for trial in plan.trials if not trial.fresh}
    clusters = len(shared) + sum(trial.fresh for trial in plan.trials)
    return START_S + TAIL_S + CLUSTER_S * clusters + RUN_IN_S * len(shared) + sum(TRIAL_S + trial.workload.duration_s for trial in plan.trials)


def expected_minutes(plan: Plan) -> int:
    """Return the same to the minute, at least one."""
    return max(1, round(expected_s(plan) / 60))
