"""The one plot that shows a finding, as data; `experiments.report.plots` draws it."""

from __future__ import annotations

from typing import Literal

from experiments.ledger.record import Frozen
from experiments.verdicts.statistics import Share


class ShareDot(Frozen):
    """In how many trials something was seen."""

    name: str
    share: Share


class SharesPlot(Frozen):
    """Shares with their intervals, from 0 to 100 % of the trials."""

    kind: Literal["shares"] = "shares"
    caption: str
    rows: tuple[ShareDot, ...]


class DotRow(Frozen):
    """A value a trial."""

    name: str
    values: tuple[float, ...]
    expected: float | None = None
    """What theory says; drawn as a line across the row."""


class DotsPlot(Frozen):
    """A dot a trial, a row a cell."""

    kind: Literal["dots"] = "dots"
    caption: str
    label: str
    """Of the axis, with its unit."""
    rows: tuple[DotRow, ...]
    logarithmic: bool = False
    """With 0 at its place."""


class BarPart(Frozen):
    """A part of a bar."""

    name: str
    value: float


class BarRow(Frozen):
    """A bar, made of parts from left to right."""

    name: str
    parts: tuple[BarPart, ...]


class BarsPlot(Frozen):
    """Bars of named parts, a row each; parts of one name have one colour."""

    kind: Literal["bars"] = "bars"
    caption: str
    label: str
    rows: tuple[BarRow, ...]


class PlotLine(Frozen):
    """Points of one thing, in the order of x."""

    name: str
    points: tuple[tuple[float, float], ...]


class PlotSpan(Frozen):
    """A stretch of the x axis that means something."""

    name: str
    begin: float
    end: float


class LinesPlot(Frozen):
    """Lines over one axis."""

    kind: Literal["lines"] = "lines"
    caption: str
    x_label: str
    y_label: str
    lines: tuple[PlotLine, ...]
    spans: tuple[PlotSpan, ...] = ()
    steps: bool = False
    """Whether a value holds until the next point."""


Plot = SharesPlot | DotsPlot | BarsPlot | LinesPlot
