"""The trend of an experiment: each cell's figures over its sweeps, and where they changed. Pure.

A series is divided into segments: runs of sweeps on one machine with the same settings and
versions. Within a segment a change of level has no known cause, and is searched for
(`experiments.results.history.change_points`). Between two segments of one machine the settings that
changed are the likely cause, and their figures are tested against each other. Figures of two
machines are not compared.
"""

from __future__ import annotations

import gc
import math
import operator
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby, pairwise
from statistics import median
from types import MappingProxyType
from typing import Final

from ackbench.experiments.ledger.trial_manifest import Frozen
from ackbench.experiments.results.comparing.findings import SettingChange
from ackbench.experiments.results.history.change_points import MIN_PART, difference_p, find_shifts
from ackbench.experiments.results.history.store import without_details
from ackbench.experiments.results.history.summary import CellSummary, SweepSummary
from ackbench.experiments.verdicts.statistics import Estimate, Interval, Share

FALSE_ALARMS: Final = 0.01
"""In at most this share of histories without a change, any change is reported."""
MIN_SWEEPS_BEFORE: Final = 8
"""Sweeps before the newest one that are needed to say that it is unusual."""
NOT_SET: Final = "not set"


class TrendMeasure(StrEnum):
    """A figure that is followed over time; one value per sweep and cell."""

    LOSS = "loss"
    """Share of trials that certainly lost an acknowledged record."""
    DUPLICATES = "duplicates"
    """Share of trials with a duplicate in the log."""
    ACK_P50 = "ack_p50"
    """Quantiles of the time to an acknowledgement: the median over trials, milliseconds."""
    ACK_P99 = "ack_p99"
    ACK_P99_9 = "ack_p99_9"
    OUTAGE = "outage"
    """Longest gap without an acknowledgement: the median over trials, milliseconds."""
    THROUGHPUT = "throughput"
    """Records acknowledged within the load window, per second: the median over trials."""

    @property
    def is_share(self) -> bool:
        """Whether it is a share of trials."""
        return self in {TrendMeasure.LOSS, TrendMeasure.DUPLICATES}

    @property
    def is_time(self) -> bool:
        """Return `True` for times, which say nothing of the settings on an overloaded machine."""
        return self in _TIMES

    @property
    def more_is_worse(self) -> bool:
        """Whether a larger value is worse: true except for throughput."""
        return self is not TrendMeasure.THROUGHPUT


_TIMES: Final = frozenset(
    {TrendMeasure.ACK_P50, TrendMeasure.ACK_P99, TrendMeasure.ACK_P99_9, TrendMeasure.OUTAGE}
)
MEASURE_TITLES: Final[Mapping[TrendMeasure, str]] = MappingProxyType(
    {
        TrendMeasure.LOSS: "trials with loss",
        TrendMeasure.DUPLICATES: "trials with duplicates",
        TrendMeasure.ACK_P50: "ack p50",
        TrendMeasure.ACK_P99: "ack p99",
        TrendMeasure.ACK_P99_9: "ack p99.9",
        TrendMeasure.OUTAGE: "outage",
        TrendMeasure.THROUGHPUT: "throughput",
    }
)


@dataclass(slots=True)
class TrendPoint:
    """The value of one sweep; a trend of thousands of sweeps has hundreds of thousands.

    It is not frozen: making it would take four times as long. Nothing changes one.
    """

    sweep_id: str
    planned_s: float
    version: str
    value: float
    """A share from 0 to 1, milliseconds, or records per second."""
    interval: Interval | None
    """Of the share or of the median; null: too few trials."""
    trials: int
    seen: int | None
    """Of a share: in how many trials."""
    segment: int
    """From 0; a new one begins where the machine or a setting changed."""
    overloaded: bool = False
    """`True` for a time if the machine was overloaded in a trial of the cell."""


class TrendSeries(Frozen):
    """One measure of one cell, in the order of time."""

    measure: TrendMeasure
    points: tuple[TrendPoint, ...]


class TrendCell(Frozen):
    """A cell with its series; a measure without values has none."""

    label: str
    series: tuple[TrendSeries, ...]


class TrendBoundary(Frozen):
    """A sweep before which the machine or a setting changed."""

    sweep_id: str
    previous: str
    """The sweep before it."""
    planned_s: float
    cells: tuple[str, ...]
    """The labels of the cells that it concerns."""
    machine: bool
    """Whether it ran on another machine: figures before and after are not compared."""
    changed: tuple[SettingChange, ...]


class TrendChange(Frozen):
    """A change of level."""

    cell: str
    measure: TrendMeasure
    sweep_id: str
    """The first sweep with the new level."""
    previous: str
    """The last sweep with the old one."""
    planned_s: float
    version: str
    """Of Kafka in `sweep_id`."""
    changed: tuple[SettingChange, ...]
    """What changed with it; empty: no setting and no version did, so the cause is another one."""
    before: float
    """The median of the old level; for a share, that of all its trials."""
    after: float
    sweeps_before: int
    sweeps_after: int
    p_value: float
    worse: bool
    overloaded_sweeps: int = 0
    """Of a time: sweeps of both levels in which the machine was overloaded."""

    @property
    def ratio(self) -> float | None:
        """The new level divided by the old one; `None` if that is 0."""
        return self.after / self.before if self.before else None


class UnusualValue(Frozen):
    """A figure of the newest sweep that is worse than its cell's sweeps before it explain."""

    cell: str
    measure: TrendMeasure
    sweep_id: str
    value: float
    limit: float
    """The worst value to be expected; for a share, the share of the sweeps before."""
    sweeps_before: int
    overloaded_sweeps: int = 0
    """Of a time: sweeps, with the newest one, in which the machine was overloaded."""


class Trend(Frozen):
    """An experiment over time."""

    experiment: str
    sweeps: tuple[str, ...]
    """The ids, oldest first."""
    cells: tuple[TrendCell, ...]
    boundaries: tuple[TrendBoundary, ...]
    changes: tuple[TrendChange, ...]
    """By time."""
    unusual: tuple[UnusualValue, ...]
    tests: int
    """Series and boundaries that were tested for a change."""
    false_alarms: float = FALSE_ALARMS
    """The probability of any change being reported if there is none, at most."""
    newest_compared: int = 0
    """Figures of the newest sweep that were compared with those before; the others have too few
    before them."""

    @property
    def overloaded(self) -> bool:
        """Return `True` if any time is one of an overloaded machine."""
        return any(
            point.overloaded for cell in self.cells for one in cell.series for point in one.points
        )

    def to_json(self) -> str:
        """Return the trend as `ackbench trend --json` prints it."""
        return self.model_dump_json(indent=2)


@dataclass(frozen=True, slots=True)
class _CellOfSweep:
    """One cell in one sweep."""

    summary: SweepSummary
    """Without its cells and settings."""
    label: str
    settings: Mapping[str, str]
    segment: int


@dataclass
class _History:
    """One cell over its sweeps."""

    of_sweeps: list[_CellOfSweep] = field(default_factory=list)
    parts: tuple[Mapping[str, str], ...] = ()
    """The settings of the last sweep and of its cell; the store keeps equal ones once."""
    points: dict[TrendMeasure, list[TrendPoint]] = field(
        default_factory=lambda: {measure: [] for measure in TrendMeasure}
    )

    def add(self, summary: SweepSummary, head: SweepSummary, cell: CellSummary) -> None:
        """Add the next sweep; of equal settings, those of the sweep before are kept."""
        parts = summary.settings, cell.settings
        is_same = bool(self.of_sweeps) and all(map(operator.is_, parts, self.parts))
        settings = self.of_sweeps[-1].settings if is_same else summary.settings_of(cell)
        segment = 0
        if self.of_sweeps:
            last = self.of_sweeps[-1]
            is_same = last.summary.machine == head.machine and last.settings == settings
            segment = last.segment + int(not is_same)
            settings = last.settings if is_same else settings
        self.parts = parts
        self.of_sweeps.append(_CellOfSweep(head, cell.label, settings, segment))
        sweep_id, planned_s, version = head.sweep_id, head.planned_s, head.version
        overloaded = cell.overloaded_trials > 0
        for measure, value, interval, trials, seen in _figures(cell):
            marked = overloaded and measure.is_time
            point = TrendPoint(
                sweep_id, planned_s, version, value, interval, trials, seen, segment, marked
            )
            self.points[measure].append(point)

    @property
    def label(self) -> str:
        """The cell's name in its newest sweep."""
        return self.of_sweeps[-1].label

    def series(self) -> tuple[TrendSeries, ...]:
        """Return the measures that have values."""
        return tuple(
            TrendSeries(measure=measure, points=tuple(points))
            for measure, points in self.points.items()
            if points
        )


@contextmanager
def uncollected() -> Iterator[None]:
    """Pause the garbage collector, which takes a fifth of the time of a trend of 2,000 sweeps.

    It looks again and again at hundreds of thousands of points, which all stay, and have no cycles.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@uncollected()
def trend_of(summaries: Iterable[SweepSummary]) -> Trend:
    """Return the trend of the sweeps of one experiment.

    Sweeps without results, and cells without a sealed trial, are left out; so are cells that are
    only controls.

    Args:
        summaries: at least one, all of the same experiment, the oldest first. They are read one by
            one, and only their figures are kept.
    """
    histories: dict[str, _History] = {}
    sweeps, experiment = [], ""
    for summary in summaries:
        experiment = summary.experiment
        if not summary.cells:
            continue
        head = without_details(summary)
        sweeps.append(head.sweep_id)
        for cell in summary.cells:
            if not cell.added and cell.sealed_trials:
                histories.setdefault(cell.key, _History()).add(summary, head, cell)
    cells = tuple(
        TrendCell(label=history.label, series=history.series()) for history in histories.values()
    )
    tested = [
        one
        for cell, history in zip(cells, histories.values(), strict=True)
        for one in _tested(cell, history.of_sweeps)
    ]
    tests = sum(len(one.testable) + len(one.comparable) for one in tested)
    significance = FALSE_ALARMS / max(tests, 1)
    changes = [change for one in tested for change in _changes(one, significance)]
    changes.sort(key=lambda change: (change.planned_s, change.cell, change.measure))
    newest = _newest_levels(tested, changes)
    return Trend(
        experiment=experiment,
        sweeps=tuple(sweeps),
        cells=cells,
        boundaries=_boundaries(history.of_sweeps for history in histories.values()),
        changes=tuple(changes),
        unusual=tuple(_unusual(newest)),
        tests=tests,
        newest_compared=len(newest),
    )


_ESTIMATES: Final[Mapping[TrendMeasure, Callable[[CellSummary], Estimate | None]]] = {
    TrendMeasure.ACK_P50: lambda cell: cell.ack_ms.get("p50"),
    TrendMeasure.ACK_P99: lambda cell: cell.ack_ms.get("p99"),
    TrendMeasure.ACK_P99_9: lambda cell: cell.ack_ms.get("p99_9"),
    TrendMeasure.OUTAGE: lambda cell: cell.outage_ms,
    TrendMeasure.THROUGHPUT: lambda cell: cell.throughput_records_per_s,
}
_SHARES: Final[Mapping[TrendMeasure, Callable[[CellSummary], Share | None]]] = {
    TrendMeasure.LOSS: lambda cell: cell.loss,
    TrendMeasure.DUPLICATES: lambda cell: cell.duplication,
}


_Figures = tuple[TrendMeasure, float, Interval | None, int, int | None]


def _figures(cell: CellSummary) -> Iterator[_Figures]:
    """Yield the measures with a value: it, its interval, the trials, and of a share those seen."""
    for measure, share_of in _SHARES.items():
        share = share_of(cell)
        if share is not None and share.of:
            yield measure, share.seen / share.of, share.interval, share.of, share.seen
    for measure, estimate_of in _ESTIMATES.items():
        estimate = estimate_of(cell)
        if estimate is not None:
            yield measure, estimate.median, estimate.interval, estimate.trials, None


_Sides = tuple[list[TrendPoint], list[TrendPoint]]


@dataclass(frozen=True)
class _TestedSeries:
    """A series of one cell, and its parts that are tested for a change."""

    label: str
    measure: TrendMeasure
    of_sweeps: Sequence[_CellOfSweep]
    segments: Sequence[list[TrendPoint]]
    testable: Sequence[list[TrendPoint]]
    """The segments in which a change can be seen: they are long enough and not constant."""
    comparable: Sequence[_Sides]
    """The neighbouring segments of one machine that are long enough, and not all equal."""


def _tested(cell: TrendCell, of_sweeps: Sequence[_CellOfSweep]) -> Iterator[_TestedSeries]:
    machines = {one.segment: one.summary.machine for one in of_sweeps}
    for series in cell.series:
        by_segment = groupby(series.points, key=operator.attrgetter("segment"))
        segments = [list(points) for _, points in by_segment]
        yield _TestedSeries(
            label=cell.label,
            measure=series.measure,
            of_sweeps=of_sweeps,
            segments=segments,
            testable=[
                points
                for points in segments
                if len(points) >= 2 * MIN_PART and not _is_constant(points)
            ],
            comparable=[
                (before, after)
                for before, after in pairwise(segments)
                if machines[before[0].segment] == machines[after[0].segment]
                and min(len(before), len(after)) >= MIN_PART
                and not _is_constant([*before, *after])
            ],
        )


def _is_constant(points: Sequence[TrendPoint]) -> bool:
    first = points[0].value
    return all(point.value == first for point in points)


def _changes(tested: _TestedSeries, significance: float) -> Iterator[TrendChange]:
    for points in tested.testable:
        shifts = find_shifts([point.value for point in points], significance)
        ends = [0, *(shift.place for shift in shifts), len(points)]
        for place, shift in enumerate(shifts, 1):
            sides = points[ends[place - 1] : shift.place], points[shift.place : ends[place + 1]]
            yield _change(tested, sides, shift.p_value)
    for sides in tested.comparable:
        p_value = difference_p(*([one.value for one in side] for side in sides))
        if p_value <= significance:
            yield _change(tested, sides, p_value)


def _change(tested: _TestedSeries, sides: _Sides, p_value: float) -> TrendChange:
    before, after = sides
    measure = tested.measure
    last, first = (
        next(one for one in tested.of_sweeps if one.summary.sweep_id == point.sweep_id)
        for point in (before[-1], after[0])
    )
    old, new = _level(measure, before), _level(measure, after)
    return TrendChange(
        cell=tested.label,
        measure=measure,
        sweep_id=after[0].sweep_id,
        previous=before[-1].sweep_id,
        planned_s=after[0].planned_s,
        version=after[0].version,
        changed=_changed_between(last, first),
        before=old,
        after=new,
        sweeps_before=len(before),
        sweeps_after=len(after),
        p_value=p_value,
        worse=(new > old) == measure.more_is_worse,
        overloaded_sweeps=sum(point.overloaded for point in (*before, *after)),
    )


def _level(measure: TrendMeasure, points: Sequence[TrendPoint]) -> float:
    if measure.is_share:
        return sum(point.seen or 0 for point in points) / sum(point.trials for point in points)
    return float(median(point.value for point in points))


def _changed_between(before: _CellOfSweep, after: _CellOfSweep) -> tuple[SettingChange, ...]:
    """Return the settings and properties of the machine that differ."""
    tables = [
        {
            **{f"machine {name}": value for name, value in one.summary.machine.items()},
            **one.settings,
        }
        for one in (before, after)
    ]
    old, new = tables
    return tuple(
        SettingChange(
            scope=name.partition(" ")[0],
            name=name.partition(" ")[2],
            a=old.get(name, NOT_SET),
            b=new.get(name, NOT_SET),
        )
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    )


def _boundaries(histories: Iterable[Sequence[_CellOfSweep]]) -> tuple[TrendBoundary, ...]:
    """Return where segments begin; equal changes of several cells are one boundary."""
    found: dict[tuple[str, str, tuple[SettingChange, ...]], list[str]] = {}
    times: dict[str, float] = {}
    for own in histories:
        for before, after in pairwise(own):
            if before.segment != after.segment:
                sweep_id = after.summary.sweep_id
                times[sweep_id] = after.summary.planned_s
                key = (sweep_id, before.summary.sweep_id, _changed_between(before, after))
                found.setdefault(key, []).append(after.label)
    boundaries = [
        TrendBoundary(
            sweep_id=sweep_id,
            previous=previous,
            planned_s=times[sweep_id],
            cells=tuple(labels),
            machine=any(change.scope == "machine" for change in changed),
            changed=changed,
        )
        for (sweep_id, previous, changed), labels in found.items()
    ]
    return tuple(sorted(boundaries, key=lambda one: (one.planned_s, one.cells)))


def _newest_levels(
    tested: Sequence[_TestedSeries], changes: Sequence[TrendChange]
) -> Sequence[tuple[str, TrendMeasure, Sequence[TrendPoint]]]:
    """Return each figure of the newest sweep that has enough before it: cell, measure, points."""
    newest = max((one.segments[-1][-1].planned_s for one in tested), default=0)
    return [
        (one.label, one.measure, level)
        for one in tested
        if one.segments[-1][-1].planned_s == newest
        and len(level := _last_level(one, changes)) > MIN_SWEEPS_BEFORE
    ]


def _unusual(
    newest: Sequence[tuple[str, TrendMeasure, Sequence[TrendPoint]]],
) -> Iterator[UnusualValue]:
    """Yield the newest values that are worse than those of their level before."""
    for label, measure, level in newest:
        limit = _worst_expected(measure, level, FALSE_ALARMS / len(newest))
        if limit is not None:
            yield UnusualValue(
                cell=label,
                measure=measure,
                sweep_id=level[-1].sweep_id,
                value=level[-1].value,
                limit=limit,
                sweeps_before=len(level) - 1,
                overloaded_sweeps=sum(point.overloaded for point in level),
            )


def _last_level(tested: _TestedSeries, changes: Sequence[TrendChange]) -> list[TrendPoint]:
    """Return the points of the last segment since its last change."""
    begins = [
        change.planned_s
        for change in changes
        if (change.cell, change.measure) == (tested.label, tested.measure)
    ]
    begin, points = max(begins, default=0.0), tested.segments[-1]
    return points[bisect_left(points, begin, key=operator.attrgetter("planned_s")) :]


def _worst_expected(
    measure: TrendMeasure, level: Sequence[TrendPoint], significance: float
) -> float | None:
    """Return the limit that the last point exceeds; `None`: it does not.

    A share is tested against that of all trials before (Fisher's exact test, one-sided); a number
    against the prediction interval of a normal distribution of its logarithm.
    """
    *before, last = level
    if measure.is_share:
        seen, of = sum(point.seen or 0 for point in before), sum(one.trials for one in before)
        worst = seen / of
        if (last.seen or 0) / last.trials <= worst:
            return None  # the median of what is expected, or less
        from scipy.stats import fisher_exact

        table = [[last.seen or 0, last.trials - (last.seen or 0)], [seen, of - seen]]
        worse = float(fisher_exact(table, alternative="greater").pvalue) <= significance
        return worst if worse else None
    if min(point.value for point in level) <= 0:
        return None
    import numpy as np
    from scipy.special import stdtrit  # `scipy.stats` takes three times as long to load

    logs = np.log([point.value for point in before])
    width = float(
        stdtrit(len(logs) - 1, 1 - significance) * logs.std(ddof=1) * math.sqrt(1 + 1 / len(logs))
    )
    sign = 1 if measure.more_is_worse else -1
    limit = math.exp(float(logs.mean()) + sign * width)
    return limit if sign * (last.value - limit) > 0 else None
