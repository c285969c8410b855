"""The plot of a finding as data; `experiments.pages.report.finding_plots` draws it."""

from __future__ import annotations

from typing import Literal

from ackbench.experiments.ledger.trial_manifest import Frozen
from ackbench.experiments.verdicts.statistics import Share


class ShareDot(Frozen):
    """The share of trials in which something was observed; one row of a `SharesPlot`."""

    name: str
    share: Share


class SharesPlot(Frozen):
    """Shares with their intervals, from 0 to 100 % of the trials."""

    kind: Literal["shares"] = "shares"
    caption: str
    rows: tuple[ShareDot, ...]


class DotRow(Frozen):
    """One value per trial; one row of a `DotsPlot`."""

    name: str
    values: tuple[float, ...]
    expected: float | None = None
    """The value that theory predicts, drawn as a line across the row."""


class DotsPlot(Frozen):
    """One dot per trial, one row per cell."""

    kind: Literal["dots"] = "dots"
    caption: str
    label: str
    """Label of the x axis, with its unit."""
    rows: tuple[DotRow, ...]
    logarithmic: bool = False
    """Logarithmic x axis, with a linear part that includes 0."""


class BarPart(Frozen):
    """One segment of a stacked bar."""

    name: str
    value: float


class BarRow(Frozen):
    """One stacked bar, with its segments from left to right."""

    name: str
    parts: tuple[BarPart, ...]


class BarsPlot(Frozen):
    """Stacked bars, one per row. Segments with the same name have the same colour."""

    kind: Literal["bars"] = "bars"
    caption: str
    label: str
    """Label of the x axis, with its unit."""
    rows: tuple[BarRow, ...]


class PlotLine(Frozen):
    """One line of a `LinesPlot`: its points, ordered by x."""

    name: str
    points: tuple[tuple[float, float], ...]


class PlotSpan(Frozen):
    """A shaded interval of the x axis."""

    name: str
    begin: float
    end: float


class LinesPlot(Frozen):
    """Lines over a common x axis."""

    kind: Literal["lines"] = "lines"
    caption: str
    x_label: str
    y_label: str
    lines: tuple[PlotLine, ...]
    spans: tuple[PlotSpan, ...] = ()
    steps: bool = False
    """Whether a value holds until the next point."""


Plot = SharesPlot | DotsPlot | BarsPlot | LinesPlot
