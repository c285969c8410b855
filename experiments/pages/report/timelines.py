"""The timeline of a trial: records sent, acknowledged and read, the fault, and new leaders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ackbench.experiments.ledger.result_terms import TIMELINE_SLOT_NS
from ackbench.experiments.ledger.trial_manifest import TrialManifest
from ackbench.experiments.pages.report.data import LeaderChange
from ackbench.experiments.pages.report.drawing import (
    BLUE,
    FAINT,
    GREEN,
    INK,
    ORANGE,
    SHADE,
    new_figure,
    style_time_axis,
    to_svg,
)
from ackbench.experiments.results.rows import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HEIGHT_IN: Final = 1.9
_AXES_BOX: Final = (0.145, 0.22, 0.83, 0.61)
"""Position of the axes in the figure: left, bottom, width, height."""
_NS_PER_S: Final = 1e9
_MAX_LABELS: Final = 12
"""Changes of leader with a label; later ones have a mark only."""
_SAME_MARK_S: Final = 0.5
"""Changes closer than this share a mark, because their labels would overlap."""
_BURST: Final = 1.5
"""Above this multiple of the load, the axis is logarithmic."""
_THOUSAND: Final = 1000
_LINES: Final = (("sent", BLUE, "-"), ("acked", GREEN, "--"), ("read", ORANGE, ":"))


def timeline_chart(
    manifest: TrialManifest,
    rows: Sequence[Row],
    leaders: Sequence[LeaderChange],
    name: str,
    alt: str,
) -> str:
    """Return the timeline of a trial.

    Args:
        manifest: the trial.
        rows: its rows of the table `timeline`; a slot without a row has no records.
        leaders: its changes of leader, ordered by time.
        name: unique in the page.
        alt: the chart's content in words.
    """
    drawn, axes = new_figure(_HEIGHT_IN, constrained=False)
    axes.set_position(_AXES_BOX)
    first, last = min(row["slot"] for row in rows), max(row["slot"] for row in rows)
    seconds = [slot * TIMELINE_SLOT_NS / _NS_PER_S for slot in range(first, last + 2)]
    by_slot = {row["slot"]: row for row in rows}
    for what, colour, style in _LINES:
        values = [
            by_slot[slot][f"{what}_records"] if slot in by_slot else 0
            for slot in range(first, last + 1)
        ]
        axes.step(
            seconds,
            [*values, values[-1]],
            where="post",
            color=colour,
            linestyle=style,
            linewidth=1.1,
            label=what,
        )
    _shade_fault(axes, manifest)
    axes.set_xlim(seconds[0], seconds[-1])
    _records_axis(axes, manifest.rate_records_per_s * TIMELINE_SLOT_NS / _NS_PER_S, rows)
    style_time_axis(axes)
    _mark_leaders(axes, leaders)
    drawn.legend(
        loc="upper left",
        bbox_to_anchor=(0.02, 1.01),
        ncols=5,
        frameon=False,
        fontsize=9,
        handlelength=1.8,
        columnspacing=1.0,
        borderpad=0,
    )
    return to_svg(drawn, name, alt)


def _records_axis(axes: Axes, load: float, rows: Sequence[Row]) -> None:
    """Use an axis that is linear up to the load, so that a gap is visible, and logarithmic above.

    Delayed records arrive in bursts of many times the load.
    """
    most = max(load, *(row[f"{what}_records"] for row in rows for what, _, _ in _LINES))
    ticks = [0, load / 2, load]
    if most > _BURST * load:
        axes.set_yscale("symlog", linthresh=load, linscale=1.2)
        ticks += [load * 10**decade for decade in range(1, 6) if load * 10**decade <= most]
    axes.set_yticks(ticks, [_short_number(tick) for tick in ticks])
    axes.minorticks_off()
    axes.set_ylim(0, most * 1.1)
    axes.set_ylabel("records / 0.1 s")


def _short_number(value: float) -> str:
    return f"{value / _THOUSAND:g}k" if value >= _THOUSAND else f"{value:g}"


def _shade_fault(axes: Axes, manifest: TrialManifest) -> None:
    phases = manifest.phases
    if phases.fault_begin_ns is None:
        return
    begin_s = (phases.fault_begin_ns - phases.load_begin_ns) / _NS_PER_S
    end_s = ((phases.fault_end_ns or phases.healthy_ns) - phases.load_begin_ns) / _NS_PER_S
    axes.axvspan(begin_s, end_s, color=SHADE, linewidth=0, label="fault", zorder=0)
    if phases.fault_effective_ns is not None:
        axes.axvline(
            (phases.fault_effective_ns - phases.load_begin_ns) / _NS_PER_S,
            color=FAINT,
            linewidth=0.9,
            linestyle="--",
        )


def _mark_leaders(axes: Axes, leaders: Sequence[LeaderChange]) -> None:
    """Mark changes of leader at the upper edge; close ones, of any partition, share a mark."""
    marks: list[tuple[float, list[LeaderChange]]] = []
    for change in leaders:
        if marks and change.at_s - marks[-1][0] < _SAME_MARK_S:
            marks[-1][1].append(change)
        else:
            marks.append((change.at_s, [change]))
    if marks:
        axes.plot(
            [at_s for at_s, _ in marks],
            [1.0] * len(marks),
            "v",
            color=INK,
            markersize=5,
            transform=axes.get_xaxis_transform(),
            clip_on=False,
            label="new leader",
        )
    for at_s, changes in marks[:_MAX_LABELS]:
        nodes = dict.fromkeys(
            "none" if change.node is None else str(change.node) for change in changes
        )
        axes.annotate(
            ",".join(nodes),
            (at_s, 1.0),
            xycoords=axes.get_xaxis_transform(),
            xytext=(4, -1),
            textcoords="offset points",
            fontsize=8.5,
            color=INK,
            va="center",
        )
