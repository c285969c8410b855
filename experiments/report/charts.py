"""The page's charts with their captions, each of which says what is to be seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from experiments.ledger.result_tables import Measure, Phase, Side
from experiments.messages.phrases import format_count
from experiments.report.bar_charts import (
    CountBar,
    ShareBar,
    counts_chart,
    outages_chart,
    shares_chart,
)
from experiments.report.evidence import ReportEvidence
from experiments.report.percentiles import Curve, curve, curves_chart
from experiments.results.cells import judged_trials
from experiments.results.models import CellResult, TrialResult
from experiments.results.outages import PART_NAMES, Outage, outages_of
from experiments.results.rows import Row
from experiments.results.wording import bounds_text, milliseconds_text, share_text
from experiments.sweep.cell_names import cell_name, differing_axes, fault_name

T = TypeVar("T")

MOST_ROWS: Final = 16
"""Of a chart: a taller one would be cut in print."""
MOST_BARS: Final = 36
MOST_CURVES: Final = 6
_LATENCIES: Final = {Measure.ACK: "acknowledged", Measure.END_TO_END: "read"}


@dataclass(frozen=True)
class Chart:
    """A drawing, and what it says in words."""

    svg: str
    caption: str


@dataclass(frozen=True)
class ChartGroup:
    """Charts of one fault."""

    fault: str
    charts: tuple[Chart, ...]


@dataclass(frozen=True)
class ReportCharts:
    """All charts of a sweep but the timelines."""

    losses: tuple[ChartGroup, ...]
    latencies: tuple[Chart, ...]
    phases: tuple[Chart, ...]
    outages: tuple[Chart, ...]
    consumer_outages: tuple[Chart, ...]


def draw(evidence: ReportEvidence) -> ReportCharts:
    """Draw what there is; what was not measured has no chart."""
    groups = by_fault(evidence.results.cells)
    return ReportCharts(
        losses=tuple(
            gathered
            for gathered in (
                ChartGroup(group.fault, (*_shares(group), *_counts(group, evidence)))
                for group in groups
            )
            if gathered.charts
        ),
        latencies=tuple(chart for group in groups for chart in _latencies(group, evidence)),
        phases=tuple(chart for group in groups for chart in _phases(group, evidence)),
        outages=tuple(
            chart for group in groups for chart in _outages(group, evidence, Side.PRODUCER)
        ),
        consumer_outages=tuple(
            chart for group in groups for chart in _outages(group, evidence, Side.CONSUMER)
        ),
    )


@dataclass(frozen=True)
class FaultGroup:
    """The cells of one fault."""

    number: int
    fault: str
    cells: tuple[CellResult, ...]
    axes: tuple[str, ...]
    """Those that tell the sweep's cells apart, but for the fault."""

    def name(self, cell: CellResult) -> str:
        """Return a cell's name within the group."""
        return cell_name(cell.cell, self.axes)


def by_fault(cells: Sequence[CellResult]) -> list[FaultGroup]:
    """Return the cells that were run, by fault, those without one last."""
    run = [cell for cell in cells if cell.refused is None]
    axes = tuple(axis for axis in differing_axes([cell.cell for cell in run]) if axis != "fault")
    faults = sorted(
        {fault_name(cell.cell) for cell in run}, key=lambda fault: (fault == "no fault", fault)
    )
    return [
        FaultGroup(
            number, fault, tuple(cell for cell in run if fault_name(cell.cell) == fault), axes
        )
        for number, fault in enumerate(faults)
    ]


def _shares(group: FaultGroup) -> Iterator[Chart]:
    loss = [ShareBar(group.name(cell), cell.loss) for cell in group.cells if cell.loss]
    twice = [
        ShareBar(group.name(cell), cell.duplication) for cell in group.cells if cell.duplication
    ]
    order = [
        ShareBar(group.name(cell), cell.reordering)
        for cell in group.cells
        if cell.reordering and cell.reordering.seen
    ]
    for what, noun, rows in (
        ("loss", "with acknowledged loss", loss),
        ("dup", "with duplicates", twice),
        ("order", "with a changed order", order),
    ):
        for part, chunk in enumerate(chunks(rows, MOST_ROWS)):
            caption = _share_caption(group.fault, noun, chunk)
            yield Chart(
                shares_chart(chunk, f"share-{what}-{group.number}-{part}", caption), caption
            )


def _share_caption(fault: str, noun: str, rows: Sequence[ShareBar]) -> str:
    seen = [row for row in rows if row.share.seen]
    if not seen:
        surest = min(rows, key=lambda row: row.share.interval.high)
        return f"Trials {noun}, {fault}: none in {format_count(len(rows), 'cell')}; the narrowest bound is {share_text(surest.share)}."
    most = max(seen, key=lambda row: (row.share.seen / row.share.of, row.share.of))
    return f"Trials {noun}, {fault}: in {len(seen)} of {format_count(len(rows), 'cell')}; most often with {most.name}: {share_text(most.share)}."


def _counts(group: FaultGroup, evidence: ReportEvidence) -> Iterator[Chart]:
    of = {group.name(cell): judged_trials(evidence.results, cell) for cell in group.cells}
    lost = [
        CountBar(name, tuple(trial.lost for trial in trials if trial.lost))
        for name, trials in of.items()
    ]
    twice = [
        CountBar(
            name,
            tuple(
                (trial.duplicates, trial.duplicates)
                for trial in trials
                if trial.duplicates is not None
            ),
        )
        for name, trials in of.items()
    ]
    for what, noun, rows in (("lost", "Lost records", lost), ("copies", "Duplicates", twice)):
        some = [row for row in rows if row.counts and max(high for _, high in row.counts) > 0]
        for part, chunk in enumerate(chunks(some, MOST_ROWS)):
            caption = _count_caption(noun, group.fault, chunk, len(rows) - len(some))
            label = (
                "records lost in a trial (line: at most)"
                if what == "lost"
                else "further copies in a trial"
            )
            yield Chart(
                counts_chart(chunk, f"count-{what}-{group.number}-{part}", label, caption), caption
            )


def _count_caption(noun: str, fault: str, rows: Sequence[CountBar], none: int) -> str:
    most = max(rows, key=lambda row: max(row.counts))
    others = (
        f" {format_count(none, 'cell')} without any {'is' if none == 1 else 'are'} left out."
        if none
        else ""
    )
    return f"{noun} in each trial, {fault}: the most in one trial are {bounds_text(max(most.counts))}, with {most.name}.{others}"


def _latencies(group: FaultGroup, evidence: ReportEvidence) -> Iterator[Chart]:
    for measure, verb in _LATENCIES.items():
        found = [
            curve(group.name(cell), _slots(evidence, cell, measure, Phase.ALL))
            for cell in group.cells
        ]
        for part, chunk in enumerate(chunks([line for line in found if line], MOST_CURVES)):
            slowest = max(chunk, key=lambda line: float(line.latency_ms[-1]))
            caption = (
                f"From the intended time until {verb}, {group.fault}, all trials of a cell together: the longest took "
                f"{milliseconds_text(float(slowest.latency_ms[-1]))}, with {slowest.name}."
            )
            yield Chart(
                curves_chart(chunk, f"latency-{measure.value}-{group.number}-{part}", caption),
                caption,
            )


def _phases(group: FaultGroup, evidence: ReportEvidence) -> Iterator[Chart]:
    for number, cell in enumerate(group.cells):
        for measure, verb in _LATENCIES.items():
            found = [
                curve(f"{phase.value} the fault", _slots(evidence, cell, measure, phase))
                for phase in Phase
                if phase is not Phase.ALL
            ]
            lines: list[Curve] = [line for line in found if line]
            if lines:
                told = ", ".join(
                    f"{line.name} {format_count(line.records, 'record')} up to {milliseconds_text(float(line.latency_ms[-1]))}"
                    for line in lines
                )
                caption = f"{group.name(cell)}, {group.fault}, until {verb}: {told}."
                yield Chart(
                    curves_chart(lines, f"phases-{measure.value}-{group.number}-{number}", caption),
                    caption,
                )


def _slots(evidence: ReportEvidence, cell: CellResult, measure: Measure, phase: Phase) -> list[Row]:
    """Return the histograms of a cell's sealed trials; a trial without fault has the phase `all` only."""
    return [
        row
        for trial in judged_trials(evidence.results, cell)
        for row in evidence.slots.get((trial.trial_id, measure, phase), ())
    ]


def _outages(group: FaultGroup, evidence: ReportEvidence, side: Side) -> Iterator[Chart]:
    rows: list[tuple[str, Outage | str]] = []
    for cell in group.cells:
        longest = [
            outage
            for trial in judged_trials(evidence.results, cell)
            for outage in _longest(evidence, trial, side)
        ]
        rows += (
            [(group.name(cell), ""), *((outage.trial_id, outage) for outage in longest)]
            if longest
            else []
        )
    for part, chunk in enumerate(chunks(rows, MOST_BARS)):
        outages = [outage for _, outage in chunk if isinstance(outage, Outage)]
        if outages:
            caption = _outage_caption(group.fault, side, outages)
            yield Chart(
                outages_chart(chunk, f"outage-{side.value}-{group.number}-{part}", caption), caption
            )


def _longest(evidence: ReportEvidence, trial: TrialResult, side: Side) -> list[Outage]:
    """Return the longest outage of a trial's partitions, where there is any."""
    of_side = [
        outage
        for outage in outages_of(
            evidence.records[trial.trial_id], evidence.outages.get(trial.trial_id, ())
        )
        if outage.side is side
    ]
    return of_side[:1]


def _outage_caption(fault: str, side: Side, outages: Sequence[Outage]) -> str:
    lengths = sorted(outage.length_ms for outage in outages)
    worst = {
        mark: max(
            (outage.resolutions_ms[mark] for outage in outages if mark in outage.resolutions_ms),
            default=None,
        )
        for mark in PART_NAMES
    }
    known = [
        f"{mark.value} to {resolution:,.0f} ms" for mark, resolution in worst.items() if resolution
    ]
    remarks = [
        f"Marks are known: {', '.join(known)}." if known else "",
        _of_some(
            outages,
            [outage for outage in outages if not outage.apart],
            "could not be taken apart: no mark within was seen",
        ),
        _of_some(
            outages,
            [outage for outage in outages if not outage.answered],
            "lasted until nothing was due any more",
        ),
        _of_some(
            outages,
            [outage for outage in outages if outage.disordered],
            "had a mark out of its order, which ends no part",
        ),
    ]
    who = "producer" if side is Side.PRODUCER else "consumer"
    told = f"The longest outage of each trial for the {who}, {fault}: {milliseconds_text(lengths[0])} to {milliseconds_text(lengths[-1])}, a bar a trial, by trial id."
    return " ".join([told, *(remark for remark in remarks if remark)])


def _of_some(outages: Sequence[Outage], some: Sequence[Outage], what: str) -> str:
    return f"{len(some)} of {len(outages)} {what}." if some else ""


def chunks(rows: Sequence[T], most: int) -> Iterator[Sequence[T]]:
    """Yield the rows in parts of about equal length, none longer than `most`."""
    parts = -(-len(rows) // most)
    for part in range(parts):
        yield rows[part * len(rows) // parts : (part + 1) * len(rows) // parts]
