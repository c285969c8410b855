"""Every trial of the plan, by cell, whatever became of it: what it did, its chart, and why its records were lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from experiments.ledger.record import Status, TrialRecord
from experiments.messages.phrases import format_count
from experiments.report.charts import group_by_fault
from experiments.report.data import ReportData
from experiments.report.timelines import timeline_chart
from experiments.results.attribution import attribution_sentences, cause_summaries
from experiments.results.cells import cell_key, judged_trials
from experiments.results.models import CellResult, TrialResult
from experiments.results.wording import (
    ROLE_NAMES,
    UNKNOWN_TEXT,
    bounds_text,
    count_text,
    milliseconds_text,
)
from experiments.sweep.cell_names import cell_name, differing_axes


@dataclass(frozen=True)
class TrialView:
    """One trial for the page."""

    trial_id: str
    origin: str
    status: str
    late: bool
    reason: str
    evidence: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    timeline: str
    """An `<svg>`, or empty."""
    caption: str
    why: tuple[str, ...]
    """What its anomalies are put down to."""


@dataclass(frozen=True)
class CellTrialsView:
    """A cell's trials."""

    name: str
    role: str
    summary: str
    causes: tuple[str, ...]
    """What the anomalies of all its judged trials are put down to."""
    trials: tuple[TrialView, ...]


def trials_by_cell(evidence: ReportData) -> list[CellTrialsView]:
    """Return all cells that were run, by fault, those that were added as controls last."""
    run = sorted(
        (cell for group in group_by_fault(evidence.results.cells) for cell in group.cells),
        key=lambda cell: cell.added,
    )
    axes = differing_axes([cell.cell for cell in run])
    return [_cell(evidence, cell, cell_name(cell.cell, axes)) for cell in run]


def _cell(evidence: ReportData, cell: CellResult, name: str) -> CellTrialsView:
    known = {trial.trial_id: trial for trial in evidence.results.trials}
    planned = [
        spec.trial_id for spec in evidence.plan.trials if cell_key(spec.cell) == cell_key(cell.cell)
    ]
    trials = tuple(_trial(evidence, trial_id, known.get(trial_id)) for trial_id in sorted(planned))
    judged = [
        row
        for trial in judged_trials(evidence.results, cell)
        for row in evidence.attribution.get(trial.trial_id, ())
    ]
    return CellTrialsView(
        name, ROLE_NAMES[cell.role], _summary(cell), tuple(cause_summaries(judged)), trials
    )


def _summary(cell: CellResult) -> str:
    parts = [format_count(cell.planned_trials, "trial")]
    parts += [
        f"{number} {what}"
        for number, what in (
            (cell.void_trials, "void"),
            (cell.failed_trials, "failed"),
            (cell.late_trials, "late"),
        )
        if number
    ]
    parts += (
        [f"lost {bounds_text(cell.lost)}", f"duplicates {count_text(cell.duplicates)}"]
        if cell.lost
        else []
    )
    return ", ".join(parts)


def _trial(evidence: ReportData, trial_id: str, result: TrialResult | None) -> TrialView:
    spec, record = evidence.plan.trial(trial_id), evidence.records.get(trial_id)
    caption = _caption(result)
    rows = evidence.timeline.get(trial_id, ())
    drawn = (
        timeline_chart(record, rows, evidence.leaders.get(trial_id, ()), f"t{trial_id}", caption)
        if record and rows
        else ""
    )
    return TrialView(
        trial_id=trial_id,
        origin=f"repeat {spec.repeat + 1}, seed {spec.seed}{_lodging(record)}",
        status=result.status.value if result else "not run",
        late=bool(result and result.generator_late),
        reason=" ".join((result.reason or "").split()) if result else "",
        evidence=result.fault.evidence if result else (),
        facts=tuple(_facts(result)) if result and result.attempted is not None else (),
        timeline=drawn,
        caption=caption,
        why=tuple(attribution_sentences(evidence.attribution.get(trial_id, ()))),
    )


def _lodging(record: TrialRecord | None) -> str:
    """Say which cluster it ran on, and how it came by that."""
    if record is None or record.cluster_assignment is None:
        return ""
    cluster_assignment = record.cluster_assignment
    return f"; cluster {cluster_assignment.cluster.rpartition('.')[2]}, {'made for it' if cluster_assignment.made else 'shared'}: {cluster_assignment.why}"


def _caption(result: TrialResult | None) -> str:
    if result is None or result.attempted is None:
        return "Not measured."
    void = (
        " It is void: its fault did not bite, and it is judged in nothing."
        if result.status is Status.VOID
        else ""
    )
    gap = milliseconds_text(result.unavailable_ms)
    return f"Lost {bounds_text(result.lost)}, duplicates {count_text(result.duplicates)}; longest time without an acknowledgement {gap}.{void}"


def _facts(result: TrialResult) -> Iterator[tuple[str, str]]:
    """Yield what was counted; of what should not be there, only what was, and then the names of what was not."""
    for name in ("attempted", "acked", "rejected", "unknown"):
        yield name, count_text(getattr(result, name))
    ack = result.latency_ms.ack
    yield "ack p99", milliseconds_text(ack.p99) if ack else UNKNOWN_TEXT
    yield "reader's longest wait", milliseconds_text(result.consumer_unavailable_ms)
    if result.transactions:
        ended = result.transactions
        yield (
            "transactions",
            f"{ended.committed:,} committed, {ended.aborted:,} not, {ended.unknown:,} unknown",
        )
    yield "generator's lateness, p99", milliseconds_text(result.lateness_p99_ms)
    odd = _odd(result)
    yield from ((name, count_text(value)) for name, value in odd.items() if value)
    yield from (
        (what, ", ".join(names))
        for what, names in (("none", _with(odd, 0)), (UNKNOWN_TEXT, _with(odd, None)))
        if names
    )


def _odd(result: TrialResult) -> dict[str, int | None]:
    """Return the counts of what a reader does not expect."""
    fates = result.fates
    return {
        "reordered": result.reordered,
        "missed by the reader": result.missed,
        "read again": result.redelivered,
        "missed by the group": result.group_missed,
        "processed again by the group": result.group_repeated,
        "refused yet in the log": fates.rejected_present if fates else None,
        "unknown and in the log": fates.unknown_present if fates else None,
        "unknown and not in the log": fates.unknown_absent if fates else None,
        **(
            {
                "lost from the output": result.copies.output_lost,
                "copies not shown": result.copies.hidden,
            }
            if result.copies
            else {}
        ),
        **(
            {
                "transactions shown in part": result.transactions.torn,
                "aborted, yet shown": result.transactions.aborted_visible,
            }
            if result.transactions
            else {}
        ),
        "phantom": fates.phantom if fates else None,
        "corrupt": fates.corrupt if fates else None,
    }


def _with(counts: Mapping[str, int | None], value: int | None) -> list[str]:
    return [name for name, of in counts.items() if of == value]
