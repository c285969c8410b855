"""A sweep at one moment: the trial under way, those that have ended, and what comes next.

Everything is read from the sweep's folder, so that it is the same whoever runs the sweep: a
command, or the tasks of a scheduler.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ackbench.experiments.ledger.digests import InvalidLedger
from ackbench.experiments.ledger.planned import PlannedTrials
from ackbench.experiments.ledger.trial_manifest import Status, TrialManifest
from ackbench.experiments.messages.errors import LedgerError, UnknownName
from ackbench.experiments.pages.live.trial import LiveTrial, TrialFollower
from ackbench.experiments.sweep.documents import read_trial_manifest
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.lock import is_in_progress, runs
from ackbench.experiments.sweep.plan import Plan
from ackbench.experiments.sweep.progress import DAMAGED, Progress, ProgressReader, activity_text
from ackbench.infra.machine.home import Home

OVER: Final = frozenset({"done", "failed"})
"""Stages of a sweep after which nothing follows."""


@dataclass(frozen=True)
class EndedTrialFigures:
    """What is known of a trial that has ended, before the sweep is measured."""

    trial_id: str
    number: int
    """Its place in the plan, from 1 on."""
    label: str
    outcome: str
    """`sealed`, `void`, `failed` or `damaged`; the last one also if it is not the plan's."""
    remark: str
    """The first sentence of the fault's evidence, or why it failed or does not count."""
    sent: int | None
    """Records that its producers attempted; `None`: it has no record."""
    acked: int | None
    """Acknowledged records; `None`: this reader did not follow the trial."""
    in_log: int | None
    """Offsets of the log at the final read: with transactions, their markers too."""
    read: int | None
    """Received by the concurrent consumer; `None` as for `acked`."""
    folder: Path


@dataclass(frozen=True)
class LiveSweep:
    """A sweep at one moment."""

    sweep: SweepFolder
    experiment: str
    question: str
    progress: Progress
    stage: str
    """As in `SweepActivity`; before the first report: `start`."""
    activity: str
    """What the sweep does, for a person."""
    activity_s: float
    """For how long."""
    trial: LiveTrial | None
    """The trial under way, or the last one; `None`: none has started."""
    number: int
    """The place of `trial` in the plan, from 1 on."""
    ended: tuple[EndedTrialFigures, ...]
    """The newest first."""
    over: bool
    """Whether the run has ended."""
    at_ns: int


class SweepFollower:
    """Reads one sweep again and again.

    Args:
        sweep: the sweep.
        since_ns: when its run began, nanoseconds since the epoch; what it reported before is over.

    Raises:
        UnknownName: it has no plan.
        LedgerError: its plan is damaged.
    """

    def __init__(self, sweep: SweepFolder, since_ns: int = 0) -> None:
        self.sweep, self._since_ns = sweep, since_ns
        self._plan: Plan = sweep.plan()
        self._numbers: Mapping[str, int] = {
            trial.trial_id: number for number, trial in enumerate(self._plan.trials, 1)
        }
        self._progress = ProgressReader(sweep, self._plan)
        self._follower: TrialFollower | None = None
        self._trial: LiveTrial | None = None
        self._ended: dict[str, EndedTrialFigures] = {}

    def read(self, *, over: bool = False) -> LiveSweep:
        """Return the sweep now.

        Args:
            over: whether the run has ended.
        """
        progress, activity = self._progress.read(), self.sweep.activity()
        if activity and activity.since_ns < self._since_ns:
            activity = None
        stage = activity.stage if activity else "start"
        trial_id = activity.trial_id if activity and stage == "trial" and not over else None
        self._follow(trial_id)
        self._add_ended()
        return LiveSweep(
            sweep=self.sweep,
            experiment=self._plan.experiment,
            question=self._plan.question,
            progress=progress,
            stage=stage,
            activity=activity_text(activity),
            activity_s=activity.age_s if activity else progress.activity_s,
            trial=self._trial,
            number=self._numbers.get(self._trial.spec.trial_id, 0) if self._trial else 0,
            ended=tuple(sorted(self._ended.values(), key=lambda one: -one.number)),
            over=over or stage in OVER,
            at_ns=time.time_ns(),
        )

    def close(self) -> None:
        """Release the files."""
        if self._follower:
            self._follower.close()
        self._follower = None

    def _follow(self, trial_id: str | None) -> None:
        """Read the trial under way; the one before it a last time."""
        if self._follower and self._follower.trial_id != trial_id:
            self._trial = self._follower.read(running=False)
            self._end(self._follower.trial_id)
            self.close()
        if trial_id and trial_id in self._numbers and self._follower is None:
            self._follower = TrialFollower(self.sweep, self._plan.trial(trial_id), self._since_ns)
        if self._follower:
            self._trial = self._follower.read()

    def _add_ended(self) -> None:
        for trial_id in self._numbers:
            known = self._ended.get(trial_id)
            if known is None or self._was_repeated(known):
                self._end(trial_id)

    def _was_repeated(self, known: EndedTrialFigures) -> bool:
        """Return whether a trial without a valid ledger may have been run again."""
        without_ledger = known.outcome in {Status.FAILED.value, DAMAGED}
        return without_ledger and self.sweep.trial(known.trial_id).is_dir()

    def _end(self, trial_id: str) -> None:
        """Keep what is known of a trial if it has ended."""
        known = self._trial if self._trial and self._trial.spec.trial_id == trial_id else None
        if known and known.running:
            return
        label = self._plan.trial(trial_id).label
        folder, record, outcome, remark = self.sweep.trial(trial_id), None, "", ""
        if folder.is_dir():
            record, outcome, remark = _record_of(folder, self.sweep.planned())
        elif self.sweep.failed(trial_id).is_dir():
            folder, outcome = self.sweep.failed(trial_id), Status.FAILED.value
            remark = self.sweep.failure_reason(trial_id) or ""
        else:
            return
        figures = known.figures if known else None
        self._ended[trial_id] = EndedTrialFigures(
            trial_id=trial_id,
            number=self._numbers[trial_id],
            label=label,
            outcome=outcome,
            remark=remark,
            sent=sum(producer.records for producer in record.producers) if record else None,
            acked=figures.acked.records if figures else None,
            in_log=_in_log(record) if record else None,
            read=figures.read.records if figures else None,
            folder=folder,
        )


def _record_of(folder: Path, planned: PlannedTrials) -> tuple[TrialManifest | None, str, str]:
    """Return the record of a trial, how the trial ended, and a remark on it."""
    try:
        manifest = read_trial_manifest(folder)
        planned.require(manifest)
    except (InvalidLedger, OSError) as error:
        return None, DAMAGED, str(error)
    return manifest, manifest.status.value, next(iter(manifest.fault.evidence), "")


def _in_log(manifest: TrialManifest) -> int:
    return sum(manifest.end_offsets.values()) - sum(manifest.begin_offsets.values())


def sweep_under_way(home: Home) -> SweepFolder | None:
    """Return the sweep of a home that a process runs now; of several, the one that does most.

    Only one has a trial under way: the others wait for the machine.
    """
    found: list[tuple[bool, int, SweepFolder]] = []
    for sweep_id, record in runs(home).items():
        sweep = SweepFolder(home.sweeps / sweep_id)
        if not sweep.root.is_dir() or not is_in_progress(sweep, record):
            continue
        activity = sweep.activity()
        if activity is None or activity.stage not in OVER:
            in_trial = bool(activity and activity.trial_id)
            found.append((in_trial, activity.since_ns if activity else 0, sweep))
    return max(found, key=lambda one: one[:2])[2] if found else None


def open_follower(sweep: SweepFolder, since_ns: int) -> SweepFollower | None:
    """Return a follower; `None`: the sweep has no valid plan yet.

    Args:
        sweep: the sweep.
        since_ns: as in `SweepFollower`.
    """
    try:
        return SweepFollower(sweep, since_ns)
    except (UnknownName, LedgerError):
        return None
