"""The progress of a sweep: its current activity and the estimated time left.

Both are read from the sweep's folder alone, so they are the same whether the sweep runs in this
process, under a scheduler or elsewhere.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from ackbench.experiments.ledger.digests import InvalidLedger
from ackbench.experiments.ledger.trial_manifest import Status
from ackbench.experiments.sweep.documents import read_trial_manifest
from ackbench.experiments.sweep.folder import SweepActivity, SweepFolder
from ackbench.experiments.sweep.plan import Plan, TrialSpec

# Rounded medians of stages on two cores (`docs/performance.md`); a busy machine takes longer.
START_S: Final = 2.0
"""Starting the process that runs the sweep, and planning."""
RESULTS_S: Final = 15.0
"""Measuring and tracking, after the last trial, without what each trial adds."""
RESULTS_PER_TRIAL_S: Final = 0.6
"""What each trial adds to the measuring and tracking."""
CLUSTER_START_STOP_S: Final = 6.0
"""Starting a cluster until it is healthy, and stopping it."""
WARM_UP_S: Final = 3.0
"""Warming up the brokers of a shared cluster."""
TRIAL_OVERHEAD_S: Final = 3.5
"""A trial without its load: topic, heal, final read, ledger."""

QUEUED: Final = "queued"
"""The stage of a sweep that waits for another load of the machine."""
FAILED: Final = "failed"
"""The stage of a sweep of which a step has failed."""
STAGES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "start": "starting",
        QUEUED: "queued",
        "plan": "planning",
        "provision": "starting the cluster",
        "trial": "running",
        "measure": "measuring the ledgers with Spark",
        "report": "writing the report",
        "track": "writing to MLflow",
        "verify": "looking for missing trials",
        "destroy": "stopping the cluster",
        "done": "done",
        FAILED: "failed",
    }
)
"""What a sweep is doing in each stage; `start`: nothing was reported so far."""

DAMAGED: Final = "damaged"
"""How a trial ended whose record cannot be read, or is not the plan's."""


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
            name: the stage's name in the trial's manifest.
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
    shared = {repr(trial.cluster) for trial in plan.trials if not trial.needs_own_cluster}
    return (
        START_S
        + (CLUSTER_START_STOP_S + WARM_UP_S) * len(shared)
        + sum(map(expected_trial_s, plan.trials))
        + expected_results_s(len(plan.trials))
    )


def expected_trial_s(trial: TrialSpec) -> float:
    """Return the expected duration of a trial in seconds, with the cluster that only it uses."""
    cluster_s = CLUSTER_START_STOP_S if trial.needs_own_cluster else 0.0
    return cluster_s + TRIAL_OVERHEAD_S + trial.workload.duration_s


def expected_results_s(trials: int) -> float:
    """Return the expected duration of measuring and tracking this many trials, in seconds."""
    return RESULTS_S + RESULTS_PER_TRIAL_S * trials


def expected_minutes(plan: Plan) -> int:
    """Return the expected duration of a sweep in minutes, at least 1."""
    return max(1, round(expected_duration_s(plan) / 60))


@dataclass(frozen=True)
class EndedTrial:
    """A trial that has ended while the progress was read."""

    label: str
    outcome: str
    """`sealed`, `void`, `failed` or `DAMAGED`."""


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
    activity_s: float
    """How long it has been doing that."""
    elapsed_s: float
    """How long the progress has been read."""
    remaining_s: float | None
    """Estimated time until the results exist; None: the run is over, takes longer than that, or
    waits for another load of the machine."""
    ended: tuple[EndedTrial, ...] = ()
    """The trials that ended after the last reading."""


class ProgressReader:
    """Reads a sweep's progress repeatedly; keeps the times that the estimate needs."""

    def __init__(self, sweep: SweepFolder, plan: Plan) -> None:
        self._sweep, self._plan = sweep, plan
        self._trials = {trial.trial_id: trial for trial in plan.trials}
        self._failed_before = {trial_id: self._failed_at_ns(trial_id) for trial_id in self._trials}
        self._foreign_before = {
            trial_id: _modified_ns(sweep.trial(trial_id)) for trial_id in sweep.foreign_trials()
        }
        self._known = self._finished_before = self._finished()
        self._activity_before = sweep.activity()
        self._began_s = time.monotonic()
        self._started = False
        self._trials_began_s = self._last_ended_s = self._began_s

    def read(self) -> Progress:
        """Return the sweep's progress now."""
        now_s = time.monotonic()
        finished, activity = self._finished(), self._current_activity()
        ended, self._known = finished - self._known, finished
        if not self._started and activity and activity.trial_id:
            self._started = True
            self._trials_began_s = self._last_ended_s = now_s
        if ended:
            self._last_ended_s = now_s
        trial = self._trials.get(activity.trial_id or "") if activity else None
        has_end = activity is None or activity.stage not in {"done", FAILED, QUEUED}
        return Progress(
            done=len(finished),
            failed=sum(not self._is_complete(trial_id) for trial_id in finished),
            total=len(self._plan.trials),
            trial=trial.label if trial else None,
            activity=activity_text(activity),
            activity_s=now_s - self._began_s if activity is None else activity.age_s,
            elapsed_s=now_s - self._began_s,
            remaining_s=self._remaining_s(finished, now_s) if has_end else None,
            ended=tuple(self._ended(trial_id) for trial_id in self._trials if trial_id in ended),
        )

    def _current_activity(self) -> SweepActivity | None:
        """Return what this run reported last; what an earlier run reported is over."""
        activity = self._sweep.activity()
        return None if activity == self._activity_before else activity

    def _ended(self, trial_id: str) -> EndedTrial:
        folder, label = self._sweep.trial(trial_id), self._trials[trial_id].label
        if not folder.exists():
            return EndedTrial(label, Status.FAILED.value)
        try:
            manifest = read_trial_manifest(folder)
            self._sweep.planned().require(manifest)
            return EndedTrial(label, manifest.status.value)
        except InvalidLedger:
            return EndedTrial(label, DAMAGED)

    def _finished(self) -> frozenset[str]:
        """Return the planned trials that are complete, or have failed since this reader exists.

        A trial that failed before is run again, as is one that was not the plan's.
        """
        return frozenset(
            trial_id
            for trial_id in self._trials
            if self._is_complete(trial_id) or self._has_failed(trial_id)
        )

    def _is_complete(self, trial_id: str) -> bool:
        sealed_ns = _modified_ns(self._sweep.trial(trial_id))
        return sealed_ns not in {None, self._foreign_before.get(trial_id)}

    def _has_failed(self, trial_id: str) -> bool:
        return self._failed_at_ns(trial_id) not in {None, self._failed_before[trial_id]}

    def _failed_at_ns(self, trial_id: str) -> int | None:
        return _modified_ns(self._sweep.failed(trial_id))

    def _remaining_s(self, finished: frozenset[str], now_s: float) -> float | None:
        return remaining_duration_s(
            [trial for trial_id, trial in self._trials.items() if trial_id not in finished],
            [self._trials[trial_id] for trial_id in finished - self._finished_before],
            trials=len(self._trials),
            spent_s=self._last_ended_s - self._trials_began_s,
            since_last_s=now_s - self._last_ended_s,
            started=self._started,
        )


def _modified_ns(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return None


def remaining_duration_s(
    remaining: Sequence[TrialSpec],
    finished: Sequence[TrialSpec],
    *,
    trials: int,
    spent_s: float,
    since_last_s: float,
    started: bool = True,
) -> float | None:
    """Return the estimated time until the results exist, in seconds.

    Trials are expected to take as many times their planned duration as the finished ones did. The
    estimate decreases while a trial runs, but not below what the later ones take.

    Args:
        remaining: the trials that have not finished, in the plan's order; the first one may run.
        finished: the trials that finished while the progress was read.
        trials: number of trials that are measured at the end.
        spent_s: how long the finished trials took together.
        since_last_s: how long ago the last one finished, or the run began.
        started: whether a trial has started; otherwise Airflow and the cluster start first.

    Returns:
        `None` if measuring takes longer than expected: when it ends is not known.
    """
    results_s = expected_results_s(trials)
    if not remaining:
        return results_s - since_last_s if since_last_s < results_s else None
    if not started:
        start_s = START_S + CLUSTER_START_STOP_S
        return max(start_s - since_last_s, 0.0) + sum(map(expected_trial_s, remaining)) + results_s
    planned_s = sum(map(expected_trial_s, finished))
    pace = spent_s / planned_s if planned_s else 1.0
    current_s, *later_s = [pace * expected_trial_s(trial) for trial in remaining]
    return max(current_s - since_last_s, 0.0) + sum(later_s) + results_s


def report_queued(sweep: SweepFolder, holder: str) -> None:
    """Report that a sweep waits for another load of the machine.

    Args:
        sweep: the sweep.
        holder: the load, as `hold_machine_lock` names it.
    """
    sweep.report_activity(QUEUED, f"queued behind {holder}")


def activity_text(activity: SweepActivity | None) -> str:
    """Return what a sweep is doing, for a person."""
    if activity is None:
        return STAGES["start"]
    return activity.what or STAGES.get(activity.stage, activity.stage)


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
