"""The charts of a sweep with their captions: loss, duplicates, latency and outages, by fault.

A caption states in words what the chart shows, for readers who do not see it. Values that were not
measured have no chart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import pyarrow as pa

from ackbench.experiments.ledger.result_terms import LatencyKind, Phase, Side
from ackbench.experiments.messages.phrases import format_count
from ackbench.experiments.pages.report.bar_charts import (
    STEP_LABELS,
    CountBar,
    ShareBar,
    counts_chart,
    outages_chart,
    shares_chart,
)
from ackbench.experiments.pages.report.data import FaultGroup, ReportData
from ackbench.experiments.pages.report.percentiles import (
    PercentileCurve,
    curve_limits,
    percentile_chart,
    percentile_curve,
)
from ackbench.experiments.results.cells import judged_trials
from ackbench.experiments.results.models import CellResult, TrialResult
from ackbench.experiments.results.outages import Outage, outages_of
from ackbench.experiments.results.wording import bounds_text, milliseconds_text, share_text
from ackbench.experiments.sweep.cell_names import cell_name

T = TypeVar("T")

MAX_ROWS: Final = 16
"""Rows per chart; a taller chart would be cut in print."""
MAX_BARS: Final = 36
"""Bars per outage chart, and names of cells between them."""
MAX_CURVES: Final = 6
_COMPARED: Final = ("acks", "enable.idempotence")
"""The axes whose values share one chart of latencies, if they vary; the others get one each."""
_LATENCY_ENDS: Final = {LatencyKind.ACK: "acknowledgement", LatencyKind.END_TO_END: "receipt"}


@dataclass(frozen=True)
class Chart:
    """A drawing and its caption."""

    svg: str
    caption: str


@dataclass(frozen=True)
class ChartGroup:
    """The charts of one fault."""

    fault: str
    charts: tuple[Chart, ...]


@dataclass(frozen=True)
class ReportCharts:
    """All charts of a sweep except the timelines of its trials."""

    losses: tuple[ChartGroup, ...]
    latencies: tuple[Chart, ...]
    phases: tuple[Chart, ...]
    outages: tuple[Chart, ...]
    consumer_outages: tuple[Chart, ...]


def draw_charts(data: ReportData) -> ReportCharts:
    """Return the charts of a sweep."""
    groups = data.groups
    losses = [
        ChartGroup(group.fault, (*_share_charts(group), *_count_charts(group, data)))
        for group in groups
    ]
    return ReportCharts(
        losses=tuple(group for group in losses if group.charts),
        latencies=tuple(chart for group in groups for chart in _latency_charts(group, data)),
        phases=tuple(chart for group in groups for chart in _phase_charts(group, data)),
        outages=tuple(
            chart for group in groups for chart in _outage_charts(group, data, Side.PRODUCER)
        ),
        consumer_outages=tuple(
            chart for group in groups for chart in _outage_charts(group, data, Side.CONSUMER)
        ),
    )


def split_evenly(rows: Sequence[T], most: int) -> Iterator[Sequence[T]]:
    """Yield the rows in parts of about equal length, none longer than `most`."""
    parts = -(-len(rows) // most)
    for part in range(parts):
        yield rows[part * len(rows) // parts : (part + 1) * len(rows) // parts]


# Loss and duplicates


def _share_charts(group: FaultGroup) -> Iterator[Chart]:
    loss = [ShareBar(group.name(cell), cell.loss) for cell in group.cells if cell.loss]
    duplicates = [
        ShareBar(group.name(cell), cell.duplication) for cell in group.cells if cell.duplication
    ]
    order = [
        ShareBar(group.name(cell), cell.reordering)
        for cell in group.cells
        if cell.reordering and cell.reordering.seen
    ]
    for key, description, rows in (
        ("loss", "with acknowledged loss", loss),
        ("dup", "with duplicates", duplicates),
        ("order", "with records out of order", order),
    ):
        for part, chunk in enumerate(split_evenly(rows, MAX_ROWS)):
            caption = _share_caption(group.fault, description, chunk)
            name = f"share-{key}-{group.number}-{part}"
            yield Chart(shares_chart(chunk, name, caption), caption)


def _share_caption(fault: str, description: str, rows: Sequence[ShareBar]) -> str:
    cells = format_count(len(rows), "cell")
    affected = [row for row in rows if row.share.seen]
    if not affected:
        narrowest = min(rows, key=lambda row: row.share.interval.high)
        none = "none for certain" if any(row.share.unknown for row in rows) else "none"
        return (
            f"Trials {description}, {fault}: {none} in {cells}. "
            f"Narrowest bound: {share_text(narrowest.share)}."
        )
    most = max(affected, key=lambda row: (row.share.seen / row.share.of, row.share.of))
    return (
        f"Trials {description}, {fault}: in {len(affected)} of {cells}, "
        f"most often with {most.name}: {share_text(most.share)}."
    )


def _count_charts(group: FaultGroup, data: ReportData) -> Iterator[Chart]:
    trials_by_name = {group.name(cell): judged_trials(data.results, cell) for cell in group.cells}
    lost = [
        CountBar(name, tuple(trial.lost for trial in trials if trial.lost))
        for name, trials in trials_by_name.items()
    ]
    duplicates = [
        CountBar(
            name,
            tuple(
                (trial.duplicates, trial.duplicates)
                for trial in trials
                if trial.duplicates is not None
            ),
        )
        for name, trials in trials_by_name.items()
    ]
    for key, noun, label, rows in (
        ("lost", "Lost records", "lost records per trial (line: upper bound)", lost),
        ("copies", "Duplicates", "duplicates per trial", duplicates),
    ):
        affected = [row for row in rows if row.counts and max(high for _, high in row.counts) > 0]
        for part, chunk in enumerate(split_evenly(affected, MAX_ROWS)):
            caption = _count_caption(noun, group.fault, chunk, len(rows) - len(affected))
            name = f"count-{key}-{group.number}-{part}"
            yield Chart(counts_chart(chunk, name, label, caption), caption)


def _count_caption(noun: str, fault: str, rows: Sequence[CountBar], unaffected: int) -> str:
    most = max(rows, key=lambda row: max(row.counts))
    caption = (
        f"{noun} per trial, {fault}: at most {bounds_text(max(most.counts))} in one trial, "
        f"with {most.name}."
    )
    if not unaffected:
        return caption
    is_or_are = "is" if unaffected == 1 else "are"
    return f"{caption} {format_count(unaffected, 'cell')} without any {is_or_are} not shown."


# Latency


def _latency_charts(group: FaultGroup, data: ReportData) -> Iterator[Chart]:
    """Yield a chart for each combination of the axes that are not compared, with equal axes."""
    compared = [axis for axis in group.axes if axis in _COMPARED] or list(group.axes[:1])
    others = [axis for axis in group.axes if axis not in compared]
    for measure, end in _LATENCY_ENDS.items():
        panels: dict[str, list[PercentileCurve]] = {}
        for cell in group.cells:
            rows = _slots(data, cell, measure, Phase.ALL)
            curve = percentile_curve(cell_name(cell.cell, compared), rows)
            if curve:
                panels.setdefault(cell_name(cell.cell, others) if others else "", []).append(curve)
        shared = curve_limits([curve for curves in panels.values() for curve in curves])
        for number, (panel, curves) in enumerate(panels.items()):
            for part, chunk in enumerate(split_evenly(curves, MAX_CURVES)):
                name = f"latency-{measure.value}-{group.number}-{number}-{part}"
                caption = _latency_caption(
                    ", ".join(filter(None, (group.fault, panel))), end, chunk
                )
                yield Chart(percentile_chart(chunk, name, caption, shared), caption)


def _latency_caption(where: str, end: str, curves: Sequence[PercentileCurve]) -> str:
    slowest = max(curves, key=lambda curve: float(curve.latency_ms[-1]))
    return (
        f"{where}: latency from the intended send time to {end}, all trials of a cell combined; "
        f"at most {milliseconds_text(float(slowest.latency_ms[-1]))}, with {slowest.name}."
    )


def _phase_charts(group: FaultGroup, data: ReportData) -> Iterator[Chart]:
    for number, cell in enumerate(group.cells):
        for measure, end in _LATENCY_ENDS.items():
            curves = [
                percentile_curve(f"{phase.value} the fault", _slots(data, cell, measure, phase))
                for phase in Phase
                if phase is not Phase.ALL
            ]
            drawable: list[PercentileCurve] = [curve for curve in curves if curve]
            if not drawable:
                continue
            phases = ", ".join(
                f"{curve.name} at most {milliseconds_text(float(curve.latency_ms[-1]))} "
                f"({format_count(curve.records, 'record')})"
                for curve in drawable
            )
            caption = f"{group.name(cell)}, {group.fault}, latency to {end}: {phases}."
            name = f"phases-{measure.value}-{group.number}-{number}"
            yield Chart(percentile_chart(drawable, name, caption), caption)


def _slots(
    data: ReportData, cell: CellResult, measure: LatencyKind, phase: Phase
) -> list[pa.Table]:
    """Return the histograms of a cell's judged trials.

    A trial without a fault has the phase `all` only.
    """
    return [
        data.histogram_of(trial.trial_id, measure, phase)
        for trial in judged_trials(data.results, cell)
    ]


# Outages


def _outage_charts(group: FaultGroup, data: ReportData, side: Side) -> Iterator[Chart]:
    rows: list[tuple[str, Outage | str]] = []
    for cell in group.cells:
        longest = [
            outage
            for trial in judged_trials(data.results, cell)
            for outage in _longest_outage(data, trial, side)
        ]
        if longest:
            rows.append((group.name(cell), ""))
            rows += [(outage.trial_id, outage) for outage in longest]
    for part, chunk in enumerate(split_evenly(rows, MAX_BARS)):
        outages = [outage for _, outage in chunk if isinstance(outage, Outage)]
        if outages:
            caption = _outage_caption(group.fault, side, outages)
            name = f"outage-{side.value}-{group.number}-{part}"
            yield Chart(outages_chart(chunk, name, caption), caption)


def _longest_outage(data: ReportData, trial: TrialResult, side: Side) -> list[Outage]:
    """Return the longest outage of a trial's partitions, or nothing."""
    outages = outages_of(data.manifests[trial.trial_id], data.outages.get(trial.trial_id, ()))
    return [outage for outage in outages if outage.side is side][:1]


def _outage_caption(fault: str, side: Side, outages: Sequence[Outage]) -> str:
    lengths = sorted(outage.length_ms for outage in outages)
    client = "producer" if side is Side.PRODUCER else "consumer"
    shortest, longest = milliseconds_text(lengths[0]), milliseconds_text(lengths[-1])
    sentences = [
        f"Longest outage per trial for the {client}, {fault}: {shortest} to {longest}.",
        "One bar per trial, in the order of the trial ids.",
    ]
    resolutions = _resolutions(outages)
    if resolutions:
        sentences.append(f"Resolution of the times: {', '.join(resolutions)}.")
    for number, remark in (
        (
            sum(not outage.is_split for outage in outages),
            "not split, because no step within was observed",
        ),
        (sum(not outage.answered for outage in outages), "lasted until the end of the load"),
        (
            sum(bool(outage.out_of_order) for outage in outages),
            "with a step that was observed out of order and is not shown",
        ),
    ):
        if number:
            sentences.append(f"{number} of {len(outages)}: {remark}.")
    return " ".join(sentences)


def _resolutions(outages: Sequence[Outage]) -> list[str]:
    """Return the coarsest resolution of each step's time: `broker fenced 5 ms`."""
    coarsest = {
        step: max((outage.resolutions_ms.get(step, 0.0) for outage in outages), default=0.0)
        for step in STEP_LABELS
    }
    return [
        f"{STEP_LABELS[step]} {f'{value:,.0f}' if value >= 1 else 'below 1'} ms"
        for step, value in coarsest.items()
        if value
    ]
