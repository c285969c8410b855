"""Time limits of the parts of a sweep, by its plan: only one that hangs takes longer.

Tasks that wait for the machine may wait for other sweeps first
(`infra.process.load_lock.MAX_WAIT_S`).
"""

from __future__ import annotations

from typing import Final

from ackbench.experiments.sweep.plan import Plan, TrialSpec
from ackbench.infra.process.load_lock import MAX_WAIT_S

START_LIMIT_S: Final = 1800.0
"""A cluster's start, or measuring with all that follows it, without what each trial adds."""
TRIAL_LIMIT_S: Final = 600.0
"""A trial without its load."""


def run_limit_s(plan: Plan) -> float:
    """Return what a run of the whole plan may take once it has the machine, seconds."""
    return START_LIMIT_S + sum(map(_trial_limit_s, plan.trials))


def batch_limit_s(plan: Plan) -> float:
    """Return what a task may take that runs any batch of the plan's trials, seconds."""
    return MAX_WAIT_S + run_limit_s(plan)


def trial_limit_s(plan: Plan) -> float:
    """Return what a task may take that starts a cluster, or runs any trial of the plan, seconds."""
    return MAX_WAIT_S + START_LIMIT_S + max(map(_trial_limit_s, plan.trials), default=0.0)


def results_limit_s(plan: Plan) -> float:
    """Return what measuring, or publishing, all trials may take, seconds."""
    return MAX_WAIT_S + START_LIMIT_S + TRIAL_LIMIT_S * len(plan.trials)


def _trial_limit_s(trial: TrialSpec) -> float:
    return trial.workload.duration_s + TRIAL_LIMIT_S
