"""The trials of a sweep by cell: figures, timeline, and the causes of their anomalies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ackbench.experiments.ledger.quantities import Place
from ackbench.experiments.ledger.trial_manifest import SET_ASIDE, TrialManifest
from ackbench.experiments.messages.phrases import format_count, one_line
from ackbench.experiments.pages.report.data import ReportData
from ackbench.experiments.pages.report.timelines import timeline_chart
from ackbench.experiments.results.attribution import attribution_sentences, cause_summaries
from ackbench.experiments.results.cells import cell_key, judged_trials
from ackbench.experiments.results.formats.counts import FATE_HEADS, NOT_APPLICABLE, listed_text
from ackbench.experiments.results.models import CellResult, TrialResult
from ackbench.experiments.results.wording import (
    ROLE_NAMES,
    UNKNOWN_TEXT,
    bounds_text,
    count_text,
    milliseconds_text,
)
from ackbench.experiments.sweep.cell_names import cell_name

_SHORT: Final = ("0", UNKNOWN_TEXT, NOT_APPLICABLE)


@dataclass(frozen=True)
class TrialView:
    """One trial of the page."""

    trial_id: str
    origin: str
    """Repeat, seed and cluster."""
    status: str
    late: bool
    stalled: bool
    reason: str
    evidence: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    timeline: str
    """An `<svg>` element, or empty."""
    caption: str
    causes: tuple[str, ...]
    """The causes of its anomalies, one sentence per group of records."""


@dataclass(frozen=True)
class CellTrialsView:
    """The planned trials of a cell, also those without a result, and what they have in common."""

    name: str
    role: str
    summary: str
    causes: tuple[str, ...]
    """The causes of the anomalies in all its judged trials."""
    trials: tuple[TrialView, ...]


def trials_by_cell(data: ReportData) -> list[CellTrialsView]:
    """Return the cells that were run by fault; cells that were added as controls come last."""
    run = sorted(
        (cell for group in data.groups for cell in group.cells), key=lambda cell: cell.added
    )
    results = {trial.trial_id: trial for trial in data.results.trials}
    planned: defaultdict[str, list[str]] = defaultdict(list)
    for spec in data.plan.trials:
        planned[cell_key(spec.cell)].append(spec.trial_id)
    return [
        _cell_trials(
            data,
            cell,
            cell_name(cell.cell, data.axes),
            {trial_id: results.get(trial_id) for trial_id in sorted(planned[cell_key(cell.cell)])},
        )
        for cell in run
    ]


def _cell_trials(
    data: ReportData, cell: CellResult, name: str, trials: Mapping[str, TrialResult | None]
) -> CellTrialsView:
    """Return a cell's trials.

    Args:
        data: of the sweep.
        cell: the cell.
        name: how the page calls it.
        trials: its planned trials; `None`: without a result.
    """
    attribution = [
        row
        for trial in judged_trials(data.results, cell)
        for row in data.attribution.get(trial.trial_id, ())
    ]
    return CellTrialsView(
        name=name,
        role=ROLE_NAMES[cell.role],
        summary=_summary(cell),
        causes=tuple(cause_summaries(attribution)),
        trials=tuple(_trial_view(data, trial_id, result) for trial_id, result in trials.items()),
    )


def _summary(cell: CellResult) -> str:
    parts = [format_count(cell.planned_trials, "trial")]
    for number, status in (
        *((getattr(cell, f"{status}_trials"), status.value) for status in SET_ASIDE),
        (cell.late_trials, "late"),
        (cell.stalled_trials, "stalled"),
    ):
        if number:
            parts.append(f"{number} {status}")
    if cell.lost:
        parts += [f"lost {bounds_text(cell.lost)}", f"duplicates {count_text(cell.duplicates)}"]
    return ", ".join(parts)


def _trial_view(data: ReportData, trial_id: str, result: TrialResult | None) -> TrialView:
    spec, manifest = data.plan.trial(trial_id), data.manifests.get(trial_id)
    caption, timeline = trial_caption(result), ""
    rows = data.timeline.get(trial_id, ())
    if manifest and rows:
        leaders = data.leaders.get(trial_id, ())
        timeline = timeline_chart(manifest, rows, leaders, f"t{trial_id}", caption)
    return TrialView(
        trial_id=trial_id,
        origin=f"repeat {spec.repeat + 1}, seed {spec.seed}{_cluster_text(manifest)}",
        status=result.status.value if result else "not run",
        late=bool(result and result.generator_late),
        stalled=bool(result and result.stalls),
        reason=one_line(result.reason or "") if result else "",
        evidence=result.fault.evidence if result else (),
        facts=tuple(_facts(data.counts, result)) if result and result.attempted is not None else (),
        timeline=timeline,
        caption=caption,
        causes=tuple(attribution_sentences(data.attribution.get(trial_id, ()))),
    )


def _cluster_text(manifest: TrialManifest | None) -> str:
    """Return which cluster the trial ran on, and why it was created or shared."""
    if manifest is None or manifest.cluster_assignment is None:
        return ""
    assignment = manifest.cluster_assignment
    number = assignment.cluster.rpartition(".")[2]
    use = "created for this trial" if assignment.made else "shared"
    host = f"; host {manifest.host.name}" if manifest.host else ""
    return f"; cluster {number}, {use}: {assignment.why}{host}"


def trial_caption(result: TrialResult | None) -> str:
    """Return what a trial lost and duplicated, and its longest gap; `None`: it has no result."""
    if result is None or result.attempted is None:
        return "Not measured."
    caption = (
        f"Lost {bounds_text(result.lost)}, duplicates {count_text(result.duplicates)}; "
        f"outage {milliseconds_text(result.unavailable_ms)}."
    )
    if result.overloaded:
        caption = f"{caption} The machine was overloaded: times say nothing of these settings."
    if result.status in SET_ASIDE:
        return f"{caption} {result.status.capitalize()}: no share includes this trial."
    return caption


def _facts(counts: Sequence[Place], result: TrialResult) -> Iterator[tuple[str, str]]:
    """Yield name and value of what was counted.

    Counts that are 0, or unknown, are listed by name in one entry each.
    """
    texts = {one.quantity.head: listed_text(one, result, [result]) for one in counts}
    if result.fates:
        texts |= {
            name: count_text(getattr(result.fates, fate)) for fate, name in FATE_HEADS.items()
        }
    yield from ((name, text) for name, text in texts.items() if text not in _SHORT)
    ack = result.latency_ms.ack
    yield "ack p99", milliseconds_text(ack.p99) if ack else UNKNOWN_TEXT
    yield "consumer's outage", milliseconds_text(result.consumer_unavailable_ms)
    yield "load generator's lateness p99", milliseconds_text(result.lateness_p99_ms)
    yield "producers stalled by the harness", milliseconds_text(result.producer_stalled_ms)
    yield "consumer stalled by the harness", milliseconds_text(result.consumer_stalled_ms)
    for heading, value in (("none", "0"), (UNKNOWN_TEXT, UNKNOWN_TEXT)):
        names = [name for name, text in texts.items() if text == value]
        if names:
            yield heading, "; ".join(names)  # a name may have a comma
