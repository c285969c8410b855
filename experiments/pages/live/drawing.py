"""The drawings of the live page as positions: lines of records, spans of leaders and ISRs.

The report's drawings are made by matplotlib, which takes 100 ms of CPU time each. These are made
once a second while a load runs, so they are numbers in a template, and the browser stretches them
to the width of the page.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from ackbench.experiments.ledger.result_terms import TIMELINE_SLOT_NS
from ackbench.experiments.pages.live.events import PartitionHistory
from ackbench.experiments.pages.live.slots import SlotCounts
from ackbench.experiments.pages.live.trial import LiveTrial, TrialFigures

WIDTH: Final = 1000
HEIGHT: Final = 100
"""Size of the lines' box, in units of its own."""
MOST_STEPS: Final = 600
"""Steps of a line: more are not visible. A longer trial has the mean of several slots per step."""
MOST_PARTITIONS: Final = 16
"""Partitions with spans of their own: first those with a change."""
MOST_AFTER_S: Final = 600.0
"""The longest time after the load that is drawn, seconds; the clock may have been stepped."""
_BURST: Final = 1.5
"""Above this multiple of the load, the axis is logarithmic above the load, as in the report."""
_LOAD_SHARE: Final = 0.6
"""The part of a logarithmic axis that is linear."""
_SLOT_S: Final = TIMELINE_SLOT_NS / 1e9
_THOUSAND: Final = 1000


@dataclass(frozen=True)
class Line:
    """The records of one kind over time."""

    name: str
    path: str
    """An SVG path in a box of `WIDTH` by `HEIGHT`."""


@dataclass(frozen=True)
class Tick:
    """A number of an axis."""

    at: float
    """Percent of the axis, from its begin."""
    text: str


@dataclass(frozen=True)
class Span:
    """A part of the time axis, percent."""

    left: float
    width: float
    text: str = ""
    kind: str = ""
    """Its class in the style sheet."""


@dataclass(frozen=True)
class LoadChart:
    """Records per tenth of a second over the time of a trial."""

    lines: tuple[Line, ...]
    values: tuple[Tick, ...]
    seconds: tuple[Tick, ...]
    faults: tuple[Span, ...]
    effects: tuple[float, ...]
    """When faults took effect, percent."""
    end: float
    """Where the load ends, percent."""
    step_s: float
    """The length of a step, seconds."""


@dataclass(frozen=True)
class PartitionStrip:
    """The leaders and the ISRs of a partition over time."""

    partition: int
    leaders: tuple[Span, ...]
    isrs: tuple[Span, ...]
    text: str
    """The same in words."""


@dataclass(frozen=True)
class TimeAxis:
    """The seconds that a drawing shows."""

    begin_ns: int
    length_s: float

    @classmethod
    def of(cls, trial: LiveTrial, begin_ns: int) -> TimeAxis:
        """Return the axis of a trial: its load, and what follows until the ISR is full again."""
        last_ns = trial.events.healthy_ns or trial.at_ns
        load_s = max(trial.spec.workload.duration_s, 1.0)
        shown_s = min((last_ns - begin_ns) / 1e9, load_s + MOST_AFTER_S)
        return cls(begin_ns, max(load_s, shown_s))

    def percent(self, at_ns: int) -> float:
        """Return a time in percent of the axis, within it."""
        share = (at_ns - self.begin_ns) / 1e9 / self.length_s
        return round(min(max(share, 0.0), 1.0) * 100, 2)

    def span(self, begin_ns: int, end_ns: int, text: str = "", kind: str = "") -> Span:
        """Return the part of the axis between two times."""
        left = self.percent(begin_ns)
        return Span(left, round(self.percent(end_ns) - left, 2), text, kind)

    def ticks(self) -> tuple[Tick, ...]:
        """Return at most six round numbers of seconds."""
        step = _round_step(self.length_s / 5)
        numbers = [step * number for number in range(int(self.length_s / step) + 1)]
        return tuple(Tick(round(at / self.length_s * 100, 2), f"{at:g}") for at in numbers)


def load_chart(trial: LiveTrial, figures: TrialFigures, begin_ns: int) -> LoadChart:
    """Return the chart of a trial whose load has begun."""
    axis = TimeAxis.of(trial, begin_ns)
    shown_s = (trial.at_ns - begin_ns) / 1e9 if trial.running else axis.length_s
    slots = max(0, min(int(shown_s / _SLOT_S), math.ceil(axis.length_s / _SLOT_S)))
    per_step = max(1, math.ceil(axis.length_s / _SLOT_S / MOST_STEPS))
    kinds = (("sent", figures.sent), ("acked", figures.acked), ("read", figures.read))
    series = [
        (name, _steps(counts, slots, per_step)) for name, counts in kinds if counts is not None
    ]
    load = trial.spec.workload.rate_records_per_s * _SLOT_S
    most = max([load, 1.0, *(max(values, default=0.0) for _, values in series)])
    scale = _Scale(load, most)
    width = WIDTH * per_step * _SLOT_S / axis.length_s
    return LoadChart(
        lines=tuple(Line(name, _path(values, width, scale)) for name, values in series),
        values=scale.ticks(),
        seconds=axis.ticks(),
        faults=tuple(
            axis.span(span.begin_ns, span.end_ns or trial.at_ns) for span in trial.events.faults
        ),
        effects=tuple(
            axis.percent(span.effective_ns)
            for span in trial.events.faults
            if span.effective_ns is not None
        ),
        end=axis.percent(begin_ns + round(trial.spec.workload.duration_s * 1e9)),
        step_s=per_step * _SLOT_S,
    )


@dataclass(frozen=True)
class _Scale:
    """An axis that is linear up to the load, and logarithmic above it where there are bursts."""

    load: float
    most: float

    @property
    def has_bursts(self) -> bool:
        return 0 < self.load < self.most / _BURST

    def share(self, value: float) -> float:
        """Return a value's part of the axis."""
        if not self.has_bursts:
            return value / (self.most * 1.1)
        if value <= self.load:
            return value / self.load * _LOAD_SHARE
        above = math.log(value / self.load) / math.log(self.most * 1.1 / self.load)
        return _LOAD_SHARE + above * (1 - _LOAD_SHARE)

    def ticks(self) -> tuple[Tick, ...]:
        values = [0.0, self.load, self.most] if self.has_bursts else [0.0, self.load or self.most]
        return tuple(Tick(round(self.share(value) * 100, 2), _short(value)) for value in values)


def _short(value: float) -> str:
    return f"{value / _THOUSAND:.3g}k" if value >= _THOUSAND else f"{value:.3g}"


def _round_step(seconds: float) -> float:
    """Return the next larger of 1, 2 and 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(seconds))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= seconds)


def _steps(counts: SlotCounts, slots: int, per_step: int) -> list[float]:
    """Return the records per slot, as the mean of each `per_step` slots."""
    padded = np.zeros(math.ceil(slots / per_step) * per_step, np.int64)
    known = min(slots, counts.slots.size)
    padded[:known] = counts.slots[:known]
    means: list[float] = padded.reshape(-1, per_step).mean(axis=1).tolist()
    return means


def _path(values: Sequence[float], width: float, scale: _Scale) -> str:
    """Return the steps as an SVG path, from left to right."""
    if not values:
        return ""
    heights = [f"{HEIGHT - scale.share(value) * HEIGHT:.1f}".removesuffix(".0") for value in values]
    changes = (
        f"H{number * width:.1f}V{height}"
        for number, (before, height) in enumerate(pairwise(heights), 1)
        if height != before
    )
    return f"M0 {heights[0]}{''.join(changes)}H{len(heights) * width:.1f}"


def partition_strips(trial: LiveTrial, begin_ns: int) -> tuple[PartitionStrip, ...]:
    """Return the strips of a trial's partitions, those with a change first, at most 16."""
    histories = sorted(
        trial.events.partitions,
        key=lambda one: (len(one.leaders) + len(one.isrs) <= 2, one.partition),  # noqa: PLR2004
    )
    axis = TimeAxis.of(trial, begin_ns)
    shown = sorted(histories[:MOST_PARTITIONS], key=lambda one: one.partition)
    return tuple(_strip(one, trial, axis) for one in shown)


def _strip(history: PartitionHistory, trial: LiveTrial, axis: TimeAxis) -> PartitionStrip:
    until_ns = trial.at_ns if trial.running else axis.begin_ns + round(axis.length_s * 1e9)
    leader_ends = [*(span.at_ns for span in history.leaders[1:]), until_ns]
    isr_ends = [*(span.at_ns for span in history.isrs[1:]), until_ns]
    leaders = [
        axis.span(
            span.at_ns,
            end_ns,
            "none" if span.node is None else str(span.node),
            "no-leader" if span.node is None else "leader",
        )
        for span, end_ns in zip(history.leaders, leader_ends, strict=True)
    ]
    isrs = [
        axis.span(span.at_ns, end_ns, ",".join(map(str, span.nodes)), _isr_kind(span.nodes, trial))
        for span, end_ns in zip(history.isrs, isr_ends, strict=True)
    ]
    words = [
        f"Partition {history.partition}: leader {', '.join(_words(leaders, axis))}",
        f"ISR {', '.join(_words(isrs, axis))}",
    ]
    return PartitionStrip(
        history.partition,
        tuple(span for span in leaders if span.width),
        tuple(span for span in isrs if span.width),
        "; ".join(words),
    )


def _isr_kind(nodes: Sequence[int], trial: LiveTrial) -> str:
    """Return whether an ISR is full, below `min.insync.replicas`, or between."""
    spec = trial.spec
    least = int(spec.topic.get("min.insync.replicas", 1))
    if len(nodes) >= spec.replication_factor:
        return "full"
    return "below" if len(nodes) < least else "shrunk"


def _words(spans: Sequence[Span], axis: TimeAxis) -> Iterator[str]:
    for number, span in enumerate(spans):
        at_s = span.left / 100 * axis.length_s
        yield f"from {at_s:.1f} s {span.text}" if number else span.text
