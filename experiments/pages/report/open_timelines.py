"""The timelines that stand open below the answer: the outage, seen with two settings.

They are of one fault: a trial that shows the most damage, first of cells in which a guarantee was
violated, and of the cells that show the least the one whose settings are nearest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ackbench.experiments.pages.report.data import ReportData
from ackbench.experiments.pages.report.timelines import timeline_chart
from ackbench.experiments.pages.report.trials import trial_caption
from ackbench.experiments.results.attribution import attribution_sentences
from ackbench.experiments.results.cells import judged_trials, median_by_gap
from ackbench.experiments.results.models import CellResult, TrialResult
from ackbench.experiments.sweep.cell_names import NO_FAULT
from ackbench.experiments.verdicts.judge import Verdict


@dataclass(frozen=True)
class OpenTimeline:
    """One of the timelines."""

    cell: str
    trial_id: str
    timeline: str
    """An `<svg>` element."""
    caption: str
    cause: str
    """The cause of most of its anomalies; empty: it has none, or no log shows one."""


@dataclass(frozen=True)
class OpenTimelines:
    """The timelines of a fault."""

    fault: str
    timelines: tuple[OpenTimeline, ...]


@dataclass(frozen=True)
class _Candidate:
    cell: CellResult
    trials: tuple[TrialResult, ...]
    """Judged ones that can tell what was lost, and have a timeline."""

    @property
    def worst(self) -> TrialResult:
        """The trial with the most damage."""
        return max(self.trials, key=_damage)

    @property
    def median(self) -> TrialResult:
        """The trial with the median longest gap."""
        return median_by_gap(self.trials) or self.trials[0]

    @property
    def is_violated(self) -> bool:
        """True if a guarantee of the cell was."""
        return any(one.verdict is Verdict.VIOLATED for one in self.cell.judgements)

    def distance(self, other: CellResult) -> int:
        """Return in how many settings its cell and another one differ."""
        own, others = self.cell.cell, other.cell
        return sum(own.get(axis) != others.get(axis) for axis in {**own, **others})


def _damage(trial: TrialResult) -> tuple[float, ...]:
    """Return the records that were lost, duplicated and out of order, then the longest gap."""
    _, lost = trial.lost or (0, 0)
    return (lost, trial.duplicates or 0, trial.reordered or 0, trial.unavailable_ms or 0.0)


def open_timelines(data: ReportData) -> OpenTimelines | None:
    """Return the timelines of a sweep; `None`: no trial with a fault has one.

    With `acks=0` a client does not see an outage: its trials are chosen only if there are no
    others.
    """
    candidates = list(_candidates(data))
    visible = [one for one in candidates if one.cell.cell.get("acks") not in {0, "0"}] or candidates
    if not visible:
        return None
    worst = max(visible, key=lambda one: (one.is_violated, _damage(one.worst)))
    fault = worst.cell.fault_name
    others = [one for one in visible if one.cell.fault_name == fault and one is not worst]
    best = min(
        others,
        key=lambda one: (
            *_damage(one.worst)[:-1],
            any(trial.recovered_before_heal is False for trial in one.trials),
            one.distance(worst.cell),
            one.median.unavailable_ms or 0.0,
        ),
        default=None,
    )
    chosen = [(worst.cell, worst.worst), *([(best.cell, best.median)] if best else [])]
    return OpenTimelines(fault, tuple(_timeline(data, cell, trial) for cell, trial in chosen))


def _candidates(data: ReportData) -> Iterator[_Candidate]:
    """Yield the experiment's cells that have a fault, and trials to show."""
    for cell in data.cells:
        trials = tuple(
            trial
            for trial in judged_trials(data.results, cell)
            if trial.lost is not None and data.timeline.get(trial.trial_id)
        )
        if trials and not cell.added and cell.fault_name != NO_FAULT:
            yield _Candidate(cell, trials)


def _timeline(data: ReportData, cell: CellResult, trial: TrialResult) -> OpenTimeline:
    trial_id, caption = trial.trial_id, trial_caption(trial)
    fault = cell.fault_name
    group = next(one for one in data.groups if one.fault == fault)
    causes = attribution_sentences(data.attribution.get(trial_id, ()))
    return OpenTimeline(
        group.name(cell),
        trial_id,
        timeline_chart(
            data.manifests[trial_id],
            data.timeline[trial_id],
            data.leaders.get(trial_id, ()),
            f"open-{trial_id}",
            caption,
        ),
        caption,
        next(iter(causes), ""),
    )
