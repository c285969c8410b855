"""The progress of a sweep: its current activity and the estimated time left.

Both are read from the sweep's folder alone, so they are the same whether the sweep runs in this
process, under a scheduler or elsewhere.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from experiments.sweep.folder import SweepActivity, SweepFolder
from experiments.sweep.plan import Plan, TrialSpec

# Rounded medians of stages on two cores (`docs/performance.md`); a busy machine takes longer.
AIRFLOW_START_S: Final = 13.0
"""Starting Airflow, and planning."""
RESULTS_S: Final = 27.0
"""Measuring and tracking, after the last trial."""
CLUSTER_START_STOP_S: Final = 6.0
"""Starting a cluster until it is healthy, and stopping it."""
WARM_UP_S: Final = 3.0
"""Warming up the brokers of a shared cluster."""
TRIAL_OVERHEAD_S: Final = 3.5
"""A trial without its load: topic, heal, final read, ledger."""

_STAGE_TEXTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "plan": "planning",
        "provision": "starting the cluster",
        "trial": "running",
        "measure": "measuring the ledgers with Spark",
        "report": "writing the report",
        "track": "writing to MLflow",
        "verify": "looking for missing trials",
        "destroy": "stopping the cluster",
        "done": "done",
        "failed": "failed",
    }
)


class StageTimer:
    """Report each stage of a trial as the sweep's activity, and measure its duration."""

    def __init__(self, sweep: SweepFolder, trial_id: str) -> None:
        self._sweep, self._trial_id = sweep, trial_id
        self.seconds: dict[str, float] = {}
        """Duration of each finished stage."""

    @contextmanager
    def __call__(self, name: str, activity: str) -> Iterator[None]:
        """Run a stage.

        Args:
            name: the stage's name in the trial's record.
            activity: what the stage does, for the person who watches.
        """
        self._sweep.report_activity("trial", activity, self._trial_id)
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = round(time.monotonic() - began, 3)


def expected_duration_s(plan: Plan) -> float:
    """Return the expected duration of a sweep, in seconds, before it begins."""
    shared = {
        trial.cluster.model_dump_json() for trial in plan.trials if not trial.needs_own_cluster
    }
    clusters = len(shared) + sum(trial.needs_own_cluster for trial in plan.trials)
    return (
        AIRFLOW_START_S
        + RESULTS_S
        + CLUSTER_START_STOP_S * clusters
        + WARM_UP_S * len(shared)
        + sum(TRIAL_OVERHEAD_S + trial.workload.duration_s for trial in plan.trials)
    )


def expected_minutes(plan: Plan) -> int:
    """Return the expected duration of a sweep in minutes, at least 1."""
    return max(1, round(expected_duration_s(plan) / 60))


@dataclass(frozen=True)
class Progress:
    """The progress of a sweep at one moment."""

    done: int
    """Number of finished trials, including failed ones."""
    failed: int
    total: int
    trial: str | None
    """Label of the running trial."""
    activity: str
    """What the sweep is doing, for a person."""
    remaining_s: float
    """Estimated time until the results exist."""


class ProgressReader:
    """Reads a sweep's progress repeatedly; keeps the times that the estimate needs."""

    def __init__(self, sweep: SweepFolder, plan: Plan) -> None:
        self._sweep, self._plan = sweep, plan
        self._labels = {trial.trial_id: trial.label for trial in plan.trials}
        self._failed_before = {trial_id: self._failed_at_ns(trial_id) for trial_id in self._labels}
        self._finished_before = len(self._finished())
        self._trials_began_s: float | None = None
        self._trials_finished_s: float | None = None

    def read(self) -> Progress:
        """Return the sweep's progress now."""
        finished, activity = self._finished(), self._sweep.activity()
        return Progress(
            done=len(finished),
            failed=sum(1 for trial_id in finished if not self._sweep.trial(trial_id).exists()),
            total=len(self._plan.trials),
            trial=self._labels.get(activity.trial_id or "") if activity else None,
            activity=activity_text(activity),
            remaining_s=self._remaining_s(finished, activity),
        )

    def _finished(self) -> frozenset[str]:
        """Return the planned trials that are complete, or have failed since this reader exists.

        A trial that failed before is run again.
        """
        return frozenset(
            trial_id
            for trial_id in self._labels
            if self._sweep.trial(trial_id).exists() or self._has_failed(trial_id)
        )

    def _has_failed(self, trial_id: str) -> bool:
        return self._failed_at_ns(trial_id) not in {None, self._failed_before[trial_id]}

    def _failed_at_ns(self, trial_id: str) -> int | None:
        try:
            return self._sweep.failed(trial_id).stat().st_mtime_ns
        except FileNotFoundError:
            return None

    def _remaining_s(self, finished: frozenset[str], activity: SweepActivity | None) -> float:
        now_s = time.monotonic()
        if self._trials_began_s is None and activity and activity.stage == "trial":
            self._trials_began_s = now_s
        spent_s = 0.0 if self._trials_began_s is None else now_s - self._trials_began_s
        remaining = [trial for trial in self._plan.trials if trial.trial_id not in finished]
        if not remaining:
            self._trials_finished_s = self._trials_finished_s or now_s
            return max(RESULTS_S - (now_s - self._trials_finished_s), 1.0)
        finished_now = len(finished) - self._finished_before
        return remaining_duration_s(remaining, finished=finished_now, spent_s=spent_s)


def remaining_duration_s(remaining: list[TrialSpec], *, finished: int, spent_s: float) -> float:
    """Return the estimated time until the results exist, in seconds.

    Args:
        remaining: the trials that have not finished, including the running one; at least one.
        finished: number of trials that finished while the progress was read.
        spent_s: how long these trials and the running one have taken.
    """
    planned_s = [trial.workload.duration_s + TRIAL_OVERHEAD_S for trial in remaining]
    if finished == 0:
        return max(sum(planned_s) - spent_s, sum(planned_s[1:])) + RESULTS_S
    # On average, the running trial is half done.
    return len(remaining) * spent_s / (finished + 0.5) + RESULTS_S


def activity_text(activity: SweepActivity | None) -> str:
    """Return what a sweep is doing, for a person."""
    if activity is None:
        return "starting Airflow"
    return activity.what or _STAGE_TEXTS.get(activity.stage, activity.stage)


def format_duration(seconds: float) -> str:
    """Return a duration as `1:05` or `1:01:05`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def format_duration_with_units(seconds: float) -> str:
    """Return a duration with the meaning of its parts, for a text with only one duration.

    `1:05 (minutes:seconds)`, or `1:01:05 (hours:minutes:seconds)`.
    """
    duration = format_duration(seconds)
    return f"{duration} ({'hours:' if duration.count(':') > 1 else ''}minutes:seconds)"
