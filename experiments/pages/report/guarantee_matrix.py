"""The matrix of a sweep: settings against guarantees, each with what was observed in few words.

It is the picture of the answer. Each row ends with a strip: the acknowledged records of the cell's
median trial over time, with the fault shaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ackbench.experiments.ledger.result_terms import TIMELINE_SLOT_NS
from ackbench.experiments.ledger.trial_manifest import TrialManifest
from ackbench.experiments.messages.phrases import format_count
from ackbench.experiments.pages.report.data import ReportData, group_by_fault
from ackbench.experiments.results.cells import judged_trials
from ackbench.experiments.results.models import CellResult, MedianAndMax
from ackbench.experiments.results.rows import Row
from ackbench.experiments.results.wording import (
    UNKNOWN_SIGN,
    bounds_text,
    count_text,
    time_text,
    verdict_class,
    verdict_sign,
)
from ackbench.experiments.sweep.cell_names import axis_name, value_text
from ackbench.experiments.verdicts.guarantees import GUARANTEES, Guarantee
from ackbench.experiments.verdicts.judge import Judgement, Verdict

_NS_PER_S: Final = 1e9
_STRIP: Final = (190, 18)
"""Width and height of a strip, in the units of its drawing."""


@dataclass(frozen=True)
class Chip:
    """One guarantee of a cell: the sign of its verdict, and what was observed."""

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
class MatrixCell:
    """One cell."""

    settings: tuple[tuple[str, str], ...]
    """Axis and value, of the axes that differ between cells."""
    chips: tuple[Chip, ...]
    latency: str
    """The 99th percentile of the time to the acknowledgement, median over trials."""
    strip: Strip | None


@dataclass(frozen=True)
class MatrixFault:
    """The cells with one fault."""

    fault: str
    rows: tuple[MatrixCell, ...]


@dataclass(frozen=True)
class GuaranteeMatrix:
    """Settings against guarantees."""

    axes: tuple[str, ...]
    heads: tuple[str, ...]
    groups: tuple[MatrixFault, ...]
    not_observed: tuple[str, ...]
    """The guarantees without a column: in no cell was the opposite observed."""


def guarantee_matrix(data: ReportData) -> GuaranteeMatrix:
    """Return the matrix of a sweep; controls that the planner added are left out."""
    cells = [cell for cell in data.cells if not cell.added]
    guarantees, not_observed = _guarantees(cells)
    groups = group_by_fault(cells)
    axes = groups[0].axes if groups else ()
    return GuaranteeMatrix(
        tuple(map(axis_name, axes)),
        tuple(guarantee.words.matrix_head for guarantee in guarantees),
        tuple(
            MatrixFault(
                group.fault, tuple(_row(data, cell, axes, guarantees) for cell in group.cells)
            )
            for group in groups
        ),
        tuple(guarantee.label for guarantee in not_observed),
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


def _row(
    data: ReportData, cell: CellResult, axes: Sequence[str], guarantees: Sequence[Guarantee]
) -> MatrixCell:
    judgements = {judgement.guarantee: judgement for judgement in cell.judgements}
    p99 = cell.latency_ms.ack.p99
    return MatrixCell(
        tuple((axis_name(axis), value_text(cell.cell.get(axis))) for axis in axes),
        tuple(_chip(data, cell, guarantee, judgements.get(guarantee)) for guarantee in guarantees),
        "unknown"
        if p99 is None
        else time_text(_duration(p99.median), overloaded=cell.overloaded_trials),
        _strip(data, cell),
    )


def _chip(
    data: ReportData, cell: CellResult, guarantee: Guarantee, judgement: Judgement | None
) -> Chip:
    head, anchor = guarantee.words.matrix_head, data.verdict_anchor(cell, guarantee)
    if judgement is None:
        return Chip(head, UNKNOWN_SIGN, "not judged", "unknown", anchor)
    text = (
        _availability_text(cell, guarantee, judgement)
        if guarantee.of_time
        else _count_text(cell, guarantee, judgement)
    )
    return Chip(head, verdict_sign(judgement), text, verdict_class(judgement), anchor)


def _availability_text(cell: CellResult, guarantee: Guarantee, judgement: Judgement) -> str:
    if judgement.violation_seen is None:
        return "not measured"
    spread: MedianAndMax | None = getattr(cell, guarantee.figure)
    after = "during the fault"
    if spread:
        lasted = time_text(_duration(spread.median), overloaded=cell.overloaded_trials)
        after = f"after {lasted}"
    return f"{after}, healed" if judgement.violation_seen else after


def _count_text(cell: CellResult, guarantee: Guarantee, judgement: Judgement) -> str:
    if judgement.verdict is Verdict.UNKNOWN or judgement.violation_seen is None:
        return "unknown" if judgement.verdict is Verdict.UNKNOWN else "not measurable"
    if not judgement.violation_seen:
        return "none"
    if judgement.set_aside == judgement.trials != ():
        trials = format_count(len(judgement.trials), "trial")
        return f"{judgement.records_total:,} in {trials} set aside"
    share = f" in {judgement.share.counts}" if judgement.share and judgement.share.of > 1 else ""
    value = getattr(cell, guarantee.figure)
    return f"{bounds_text(value) if isinstance(value, tuple) else count_text(value)}{share}"


def _duration(milliseconds: float) -> str:
    if milliseconds < 1000:  # noqa: PLR2004 - from a second on
        return f"{milliseconds:.0f} ms" if milliseconds >= 10 else f"{milliseconds:.1f} ms"  # noqa: PLR2004
    return f"{milliseconds / 1000:.1f} s"


def _strip(data: ReportData, cell: CellResult) -> Strip | None:
    """Return the strip of the trial with the median longest gap; `None`: none was measured."""
    gaps = sorted(
        (trial.unavailable_ms, trial.trial_id)
        for trial in judged_trials(data.results, cell)
        if trial.unavailable_ms is not None and data.timeline.get(trial.trial_id)
    )
    if not gaps:
        return None
    gap_ms, trial_id = gaps[(len(gaps) - 1) // 2]
    manifest, rows = data.manifests[trial_id], data.timeline[trial_id]
    first, last = min(row["slot"] for row in rows), max(row["slot"] for row in rows)
    width, _ = _STRIP
    scale = width / max(last - first + 1, 1)
    return Strip(
        trial_id,
        _points(manifest, rows, scale),
        _fault(manifest, first, scale, width),
        f"Acknowledged records over {(last - first + 1) * TIMELINE_SLOT_NS / _NS_PER_S:.0f} s; "
        f"the longest gap is {_duration(gap_ms)}.",
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
