"""How long the parts of a sweep may take, by its plan: only one that hangs takes longer.

What waits for the machine may wait for other sweeps first (`infra.process.load_lock.MAX_WAIT_S`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from ackbench.experiments.sweep.plan import Plan, TrialSpec
from ackbench.infra.process.load_lock import MAX_WAIT_S

START_LIMIT_S: Final = 1800.0
"""A cluster's start, or measuring with all that follows it, without what each trial adds."""
TRIAL_LIMIT_S: Final = 600.0
"""What a trial may take in addition to its load."""


def run_limit_s(plan: Plan) -> float:
    """Return what a run of the whole plan may take once it has the machine, seconds."""
    return START_LIMIT_S + sum(map(_trial_limit_s, plan.trials))


def trials_limit_s(plan: Plan, trial_ids: Collection[str] = ()) -> float:
    """Return what a task may take that starts a cluster and runs trials, seconds.

    Args:
        plan: of the sweep.
        trial_ids: the trials; none: any one of the plan.
    """
    limits = {trial.trial_id: _trial_limit_s(trial) for trial in plan.trials}
    chosen = [limits[trial_id] for trial_id in trial_ids if trial_id in limits]
    return MAX_WAIT_S + START_LIMIT_S + (sum(chosen) or max(limits.values(), default=0.0))


def results_limit_s(plan: Plan) -> float:
    """Return what measuring, or publishing, all trials may take, seconds."""
    return MAX_WAIT_S + START_LIMIT_S + TRIAL_LIMIT_S * len(plan.trials)


def _trial_limit_s(trial: TrialSpec) -> float:
    return trial.workload.duration_s + TRIAL_LIMIT_S
