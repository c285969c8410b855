"""How far a sweep is, read from its folder alone: the same whoever runs it, here, under a scheduler, or elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from experiments.sweep.folder import SweepActivity, SweepFolder
from experiments.sweep.plan import Plan, TrialSpec

# ---------- What a trial is doing now, and what each of its stages cost.


class Stages:
    """Names each stage to whoever watches the sweep, and keeps its seconds."""

    def __init__(self, sweep: SweepFolder, trial_id: str) -> None:
        self._sweep, self._trial_id = sweep, trial_id
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str, doing: str) -> Iterator[None]:
        """Frame a stage: `name` for the record, `doing` for the person who watches."""
        self._sweep.say("trial", doing, self._trial_id)
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = round(time.monotonic() - began, 3)


# ---------- How long a sweep will take, about: told before it begins. Pure.
#
# The figures are rounded medians of stages on two cores (`docs/performance.md`); a busy machine takes longer.


START_S: Final = 13.0
"""Airflow's start, and the plan."""
TAIL_S: Final = 27.0
"""Measuring and tracking, after the last trial."""
CLUSTER_S: Final = 6.0
"""From the request to a cluster that is whole; and its end."""
WARM_UP_S: Final = 3.0
"""Until the brokers of a cluster that is shared are as fast as they get."""
TRIAL_S: Final = 3.5
"""Beside the load: the topic, the heal, the final read, the ledger."""


def expected_duration_s(plan: Plan) -> float:
    """Return about how long a plan's trials take, seconds."""
    shared = {
        trial.cluster.model_dump_json() for trial in plan.trials if not trial.needs_own_cluster
    }
    clusters = len(shared) + sum(trial.needs_own_cluster for trial in plan.trials)
    return (
        START_S
        + TAIL_S
        + CLUSTER_S * clusters
        + WARM_UP_S * len(shared)
        + sum(TRIAL_S + trial.workload.duration_s for trial in plan.trials)
    )


def expected_minutes(plan: Plan) -> int:
    """Return the same to the minute, at least one."""
    return max(1, round(expected_duration_s(plan) / 60))


STAGES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "plan": "planning",
        "provision": "starting the cluster",
        "trial": "running",
        "measure": "measuring the ledgers with Spark",
        "report": "making the page",
        "track": "writing to MLflow",
        "verify": "looking for missing trials",
        "destroy": "taking the cluster down",
        "done": "done",
        "failed": "failed",
    }
)


@dataclass(frozen=True)
class Progress:
    """A sweep at one moment."""

    done: int
    failed: int
    total: int
    trial: str | None
    """The label of the trial under way."""
    what: str
    """What is being done, for a person."""
    left_s: float
    """An estimate."""


class ProgressReader:
    """Looks at a sweep again and again; keeps what the estimate of the time left needs."""

    def __init__(self, sweep: SweepFolder, plan: Plan) -> None:
        self._sweep, self._plan = sweep, plan
        self._labels = {trial.trial_id: trial.label for trial in plan.trials}
        self._failed_before = {trial_id: self._failed_at_ns(trial_id) for trial_id in self._labels}
        self._done_before = len(self._ended())
        self._trials_began_s: float | None = None
        self._trials_ended_s: float | None = None

    def look(self) -> Progress:
        """Return how far the sweep is now."""
        ended, doing = self._ended(), self._sweep.doing()
        return Progress(
            done=len(ended),
            failed=sum(1 for trial_id in ended if not self._sweep.trial(trial_id).exists()),
            total=len(self._plan.trials),
            trial=self._labels.get(doing.trial_id or "") if doing else None,
            what=activity_text(doing),
            left_s=self._left_s(ended, doing),
        )

    def _ended(self) -> frozenset[str]:
        """The ids of the planned trials that are whole, or failed since the watch began: an earlier failure is run again."""
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

    def _left_s(self, ended: frozenset[str], doing: SweepActivity | None) -> float:
        now_s = time.monotonic()
        if self._trials_began_s is None and doing and doing.stage == "trial":
            self._trials_began_s = now_s
        spent_s = 0.0 if self._trials_began_s is None else now_s - self._trials_began_s
        waiting = [trial for trial in self._plan.trials if trial.trial_id not in ended]
        if not waiting:
            self._trials_ended_s = self._trials_ended_s or now_s
            return max(TAIL_S - (now_s - self._trials_ended_s), 1.0)
        return seconds_left(waiting, finished=len(ended) - self._done_before, spent_s=spent_s)


def seconds_left(waiting: list[TrialSpec], *, finished: int, spent_s: float) -> float:
    """Return an estimate of the time until the results are there.

    Args:
        waiting: the trials that have not ended, the one under way among them; at least one.
        finished: how many ended since the watch began.
        spent_s: how long trials have been running since then; what the one under way has used is in it.
    """
    expected_duration_s = [trial.workload.duration_s + TRIAL_S for trial in waiting]
    if finished == 0:
        return max(sum(expected_duration_s) - spent_s, sum(expected_duration_s[1:])) + TAIL_S
    return (
        len(waiting) * spent_s / (finished + 0.5) + TAIL_S
    )  # half of the one under way is over, on average


def activity_text(doing: SweepActivity | None) -> str:
    """Return what is being done, for a person."""
    if doing is None:
        return "starting Airflow"
    return doing.what or STAGES.get(doing.stage, doing.stage)


def format_duration(seconds: float) -> str:
    """Return a duration as `1:05` or `1:01:05`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def format_duration_with_units(seconds: float) -> str:
    """Return a duration for a reader who sees no other one beside it: `1:05 (minutes:seconds)` or `1:01:05 (hours:minutes:seconds)`."""
    told = format_duration(seconds)
    return f"{told} ({'hours:' if told.count(':') > 1 else ''}minutes:seconds)"
