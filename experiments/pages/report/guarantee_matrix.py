"""The matrix of a sweep: settings against guarantees, each with what was observed in few words.

It is the picture of the answer. A row is one cell, or all cells of a fault with the same outcome.
Each ends with a strip: the acknowledged records of its median trial over time, with the fault
shaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ackbench.experiments.ledger.result_terms import TIMELINE_SLOT_NS
from ackbench.experiments.ledger.trial_manifest import TrialManifest
from ackbench.experiments.messages.phrases import format_count
from ackbench.experiments.pages.report.data import FaultGroup, ReportData, group_by_fault
from ackbench.experiments.results.cells import judged_trials, median_by_gap
from ackbench.experiments.results.models import CellResult, MedianAndMax
from ackbench.experiments.results.rows import Row
from ackbench.experiments.results.wording import (
    CANNOT_TELL,
    UNKNOWN_SIGN,
    UNKNOWN_TEXT,
    bounds_text,
    time_text,
    verdict_class,
    verdict_sign,
)
from ackbench.experiments.sweep.cell_names import axis_name, cell_products, values_text
from ackbench.experiments.verdicts.guarantees import GUARANTEES, Guarantee
from ackbench.experiments.verdicts.judge import Judgement, Verdict

_NS_PER_S: Final = 1e9
_MS_PER_S: Final = 1000
_STRIP: Final = (190, 18)
"""Width and height of a strip, in the units of its drawing."""


@dataclass(frozen=True)
class Chip:
    """One guarantee of a row: the sign of its verdict, and what was observed."""

    head: str
    sign: str
    text: str
    kind: str
    """The CSS class."""
    anchor: str
    """The id of the element with the verdict's reasons."""


@dataclass(frozen=True)
class Strip:
    """The acknowledged records of a trial over time, as points of a line."""

    trial: str
    points: str
    fault: tuple[float, float] | None
    """Where the fault begins and how long it is; `None`: the trial has none."""
    description: str


@dataclass(frozen=True)
class OutcomeRow:
    """One cell, or cells with one outcome that their settings denote exactly."""

    settings: tuple[tuple[str, str], ...]
    """Axis and values, of the axes that differ between cells."""
    chips: tuple[Chip, ...]
    latency: str
    """The 99th percentile of the time to the acknowledgement, median over trials."""
    strip: Strip | None


@dataclass(frozen=True)
class MatrixFault:
    """The rows of one fault."""

    fault: str
    rows: tuple[OutcomeRow, ...]


@dataclass(frozen=True)
class GuaranteeMatrix:
    """Settings against guarantees."""

    axes: tuple[str, ...]
    heads: tuple[str, ...]
    groups: tuple[MatrixFault, ...]
    not_observed: tuple[str, ...]
    """The guarantees without a column: in no cell was the opposite observed."""
    cells: int
    """The number of cells in its rows."""

    @property
    def has_a_row_per_cell(self) -> bool:
        """True if no row has several cells."""
        return self.cells == sum(len(group.rows) for group in self.groups)

    @property
    def signs(self) -> frozenset[str]:
        """The signs that it has."""
        chips = (chip for group in self.groups for row in group.rows for chip in row.chips)
        return frozenset(chip.sign for chip in chips)


def guarantee_matrix(data: ReportData, *, by_outcome: bool = False) -> GuaranteeMatrix:
    """Return the matrix of a sweep; controls that the planner added are left out.

    Args:
        data: of the sweep.
        by_outcome: cells of a fault with the same verdicts and kinds of observations share a row.
    """
    cells = [cell for cell in data.cells if not cell.added]
    guarantees, not_observed = _guarantees(cells)
    groups = group_by_fault(cells)
    axes = groups[0].axes if groups else ()
    return GuaranteeMatrix(
        tuple(map(axis_name, axes)),
        tuple(guarantee.words.matrix_head for guarantee in guarantees),
        tuple(
            MatrixFault(group.fault, tuple(_rows(data, group, guarantees, by_outcome=by_outcome)))
            for group in groups
        ),
        tuple(guarantee.label for guarantee in not_observed),
        len(cells),
    )


def _guarantees(cells: Sequence[CellResult]) -> tuple[list[Guarantee], list[Guarantee]]:
    """Return the guarantees that have a column, and those of which no cell shows the opposite.

    Some always have one; others if a cell shows or violates one.
    """
    judgements = [judgement for cell in cells for judgement in cell.judgements]
    observed = {
        one.guarantee for one in judgements if one.verdict is Verdict.VIOLATED or one.violation_seen
    }
    judged = {one.guarantee for one in judgements}
    shown = [one for one in GUARANTEES if one in observed or one.always_in_matrix]
    return shown, [one for one in GUARANTEES if one in judged and one not in shown]


def _rows(
    data: ReportData, group: FaultGroup, guarantees: Sequence[Guarantee], *, by_outcome: bool
) -> Iterator[OutcomeRow]:
    """Yield the rows of a fault, in the order of the first cell of each."""
    outcomes: dict[object, list[int]] = {}
    for place, cell in enumerate(group.cells):
        key = _outcome(cell, guarantees) if by_outcome else place
        outcomes.setdefault(key, []).append(place)
    products = [
        ([alike[number] for number in numbers], product)
        for alike in outcomes.values()
        for product, numbers in cell_products(
            [group.cells[place].cell for place in alike], group.axes
        )
    ]
    for places, product in sorted(products, key=lambda row: row[0]):
        cells = [group.cells[place] for place in places]
        yield OutcomeRow(
            tuple(
                (axis_name(axis), values_text(values))
                for axis, values in zip(group.axes, product, strict=True)
            ),
            tuple(_chip(data, cells, guarantee) for guarantee in guarantees),
            _latency(cells),
            _strip(data, cells),
        )


@dataclass(frozen=True)
class _Observation:
    """A guarantee in a cell: its verdict, and the observation in few words."""

    kind: str
    sign: str
    form: str
    """Its text, with `{}` in place of the figures."""
    figures: tuple[float, float] | None
    """The least and the most of it; `None`: its text has no figure."""


_NOT_JUDGED: Final = _Observation("unknown", UNKNOWN_SIGN, "not judged", None)


def _outcome(cell: CellResult, guarantees: Sequence[Guarantee]) -> tuple[object, ...]:
    """Return what cells have in common that share a row: all but the figures."""
    seen = [_observation(cell, guarantee) for guarantee in guarantees]
    return (
        *((one.kind, one.sign, one.form) for one in seen),
        cell.latency_ms.ack.p99 is None,
        bool(cell.overloaded_trials),
    )


def _observation(cell: CellResult, guarantee: Guarantee) -> _Observation:
    judgement = cell.judgement_on(guarantee)
    if judgement is None:
        return _NOT_JUDGED
    form, figures = (
        _availability(cell, guarantee, judgement)
        if guarantee.of_time
        else _count(cell, guarantee, judgement)
    )
    return _Observation(verdict_class(judgement), verdict_sign(judgement), form, figures)


_Observed = tuple[str, tuple[float, float] | None]
"""The form of an observation, and its figures."""


def _availability(cell: CellResult, guarantee: Guarantee, judgement: Judgement) -> _Observed:
    spread: MedianAndMax | None = getattr(cell, guarantee.figure)
    ends = {True: "until healed", False: "", None: CANNOT_TELL if spread else "not measured"}
    until = ends[judgement.violation_seen]
    if not spread:
        return until or "during the fault", None
    lasted = time_text("{}", overloaded=cell.overloaded_trials)
    return f"{lasted}, {until}" if until else lasted, (spread.median, spread.median)


def _count(cell: CellResult, guarantee: Guarantee, judgement: Judgement) -> _Observed:
    if judgement.verdict is Verdict.UNKNOWN or judgement.violation_seen is None:
        return "unknown" if judgement.verdict is Verdict.UNKNOWN else "not measurable", None
    if not judgement.violation_seen:
        return "none", None
    if judgement.set_aside == judgement.trials != ():
        trials = format_count(len(judgement.trials), "trial")
        total = judgement.records_total
        return f"{{}} in {trials} set aside", (total, total)
    share = f" in {judgement.share.counts}" if judgement.share and judgement.share.of > 1 else ""
    value: tuple[int, int] | int | None = getattr(cell, guarantee.figure)
    if value is None:
        return f"{UNKNOWN_TEXT}{share}", None
    return f"{{}}{share}", value if isinstance(value, tuple) else (value, value)


def _chip(data: ReportData, cells: Sequence[CellResult], guarantee: Guarantee) -> Chip:
    """Return what cells with one outcome show of a guarantee, with the range of their figures.

    It links to the reasons of the cell that shows the most.
    """
    seen = [_observation(cell, guarantee) for cell in cells]
    figures = [one.figures for one in seen if one.figures]
    text = seen[0].form
    if figures:
        low, high = min(low for low, _ in figures), max(high for _, high in figures)
        text = text.format(
            _range(low, high) if guarantee.of_time else bounds_text((int(low), int(high)))
        )
        text = f"{text} each" if " in " in text and len(cells) > 1 else text
    most = max(range(len(cells)), key=lambda place: (seen[place].figures or (0, 0))[1])
    anchor = data.verdict_anchor(cells[most], guarantee)
    return Chip(guarantee.words.matrix_head, seen[0].sign, text, seen[0].kind, anchor)


def _latency(cells: Sequence[CellResult]) -> str:
    medians = [cell.latency_ms.ack.p99.median for cell in cells if cell.latency_ms.ack.p99]
    if not medians:
        return UNKNOWN_TEXT
    overloaded = any(cell.overloaded_trials for cell in cells)
    return time_text(_range(min(medians), max(medians)), overloaded=overloaded)


def _range(low_ms: float, high_ms: float) -> str:
    """Return a duration, or two with their unit once if they share it."""
    low, high = _duration(low_ms), _duration(high_ms)
    if low == high:
        return low
    low_figure, _, unit = low.partition(" ")
    return f"{low_figure if high.endswith(f' {unit}') else low} to {high}"


def _duration(milliseconds: float) -> str:
    if milliseconds < _MS_PER_S:
        return f"{milliseconds:.0f} ms" if milliseconds >= 10 else f"{milliseconds:.1f} ms"  # noqa: PLR2004
    return f"{milliseconds / _MS_PER_S:.1f} s"


def _strip(data: ReportData, cells: Sequence[CellResult]) -> Strip | None:
    """Return the strip of the trial with the median longest gap; `None`: none was measured."""
    trial = median_by_gap(
        trial
        for cell in cells
        for trial in judged_trials(data.results, cell)
        if data.timeline.get(trial.trial_id)
    )
    if trial is None:
        return None
    trial_id, gap_ms = trial.trial_id, trial.unavailable_ms or 0.0
    manifest, rows = data.manifests[trial_id], data.timeline[trial_id]
    first, last = min(row["slot"] for row in rows), max(row["slot"] for row in rows)
    width, _ = _STRIP
    scale = width / max(last - first + 1, 1)
    return Strip(
        trial_id,
        _points(manifest, rows, scale),
        _fault(manifest, first, scale, width),
        f"Acknowledged records over {(last - first + 1) * TIMELINE_SLOT_NS / _NS_PER_S:.0f} s; "
        f"the outage of this trial is {_duration(gap_ms)}.",
    )


def _points(manifest: TrialManifest, rows: Sequence[Row], scale: float) -> str:
    """Return the points of the line; a slot with more than twice the load is cut off there."""
    load = manifest.rate_records_per_s * TIMELINE_SLOT_NS / _NS_PER_S
    by_slot = {row["slot"]: row["acked_records"] for row in rows}
    first, last = min(by_slot), max(by_slot)
    _, height = _STRIP
    heights = [
        round(height - 1 - (height - 3) * min(by_slot.get(slot, 0) / load, 2) / 2, 1)
        for slot in range(first, last + 1)
    ]
    kept = [
        (place, y)
        for place, y in enumerate(heights)
        if place in {0, len(heights) - 1} or not heights[place - 1] == y == heights[place + 1]
    ]
    return " ".join(f"{place * scale:.4g},{y:g}" for place, y in kept)


def _fault(
    manifest: TrialManifest, first: int, scale: float, width: float
) -> tuple[float, float] | None:
    phases = manifest.phases
    if phases.fault_begin_ns is None:
        return None
    begin, end = (
        min(max(((at_ns - phases.load_begin_ns) / TIMELINE_SLOT_NS - first) * scale, 0), width)
        for at_ns in (phases.fault_begin_ns, phases.fault_end_ns or phases.healthy_ns)
    )
    return round(begin, 1), round(max(end - begin, 1), 1)
