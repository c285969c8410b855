"""The tables of cells: what was promised to each and what became of it, and what was seen in figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from experiments.messages.phrases import format_list, plural
from experiments.report.charts import group_by_fault
from experiments.report.data import ReportData
from experiments.results.cells import judged_trials
from experiments.results.models import CellResult, CopyCounts, TransactionCounts
from experiments.results.tables import cell_status
from experiments.results.wording import (
    GUARANTEE_NAMES,
    ROLE_NAMES,
    bounds_text,
    count_text,
    estimate_text,
    share_text,
    verdict_class,
    verdict_sign,
    verdict_text,
)
from experiments.sweep.cell_names import cell_name, differing_axes, fault_name
from experiments.verdicts.contract import CONDITIONAL_GUARANTEES, Guarantee
from experiments.verdicts.judge import Judgement


@dataclass(frozen=True)
class VerdictView:
    """One field of the verdict table."""

    guarantee: str
    sign: str
    words: str
    kind: str
    share: str
    reasons: tuple[str, ...]
    source: str
    trials: tuple[str, ...]
    records: str


@dataclass(frozen=True)
class CellView:
    """One row of the tables of cells."""

    name: str
    """Without its fault."""
    fault: str
    role: str
    status: str
    added: bool
    verdicts: tuple[VerdictView, ...]
    figures: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class FigureTable:
    """What was seen in each cell; a column that is 0 in all of them is only named."""

    names: tuple[str, ...]
    nowhere: tuple[str, ...]
    groups: tuple[tuple[str, tuple[tuple[str, tuple[str, ...]], ...]], ...]
    """A heading, and its rows: a cell's name and its values."""


def shown_guarantees(evidence: ReportData) -> tuple[Guarantee, ...]:
    """Return the columns of the verdict table: every promise, but those of transactions and of groups only where a cell is asked for them."""
    asked = {commitment.guarantee for cell in evidence.results.cells for commitment in cell.clauses}
    return tuple(
        guarantee
        for guarantee in Guarantee
        if guarantee not in CONDITIONAL_GUARANTEES or guarantee in asked
    )


def cell_views(
    evidence: ReportData, cells: Sequence[CellResult]
) -> tuple[tuple[str, tuple[CellView, ...]], ...]:
    """Return the rows by fault, those of cells that were added as controls last."""
    axes = [axis for axis in differing_axes([cell.cell for cell in cells]) if axis != "fault"]
    views = [_cell(evidence, cell, cell_name(cell.cell, axes)) for cell in cells]
    own = [
        (group.fault, tuple(view for view in views if view.fault == group.fault and not view.added))
        for group in group_by_fault(cells)
    ]
    controls = tuple(view for view in views if view.added)
    return tuple(
        (heading, rows)
        for heading, rows in (*own, ("controls, added to the experiment's own cells", controls))
        if rows
    )


def figure_table(groups: Sequence[tuple[str, Sequence[CellView]]]) -> FigureTable:
    """Return the figures of all cells, without the columns of which nothing is to be said but 0."""
    views = [view for _, of in groups for view in of]
    names = [name for name, _ in views[0].figures] if views else []
    nowhere = [name for name in names if all(dict(view.figures)[name] == "0" for view in views)]
    kept = [name for name in names if name not in nowhere]
    rows = tuple(
        (
            heading,
            tuple(
                (_full_name(view), tuple(dict(view.figures)[name] for name in kept)) for view in of
            ),
        )
        for heading, of in groups
    )
    return FigureTable(tuple(kept), tuple(nowhere), rows)


def _full_name(view: CellView) -> str:
    return f"{view.name}, {view.fault}" if view.added else view.name


def _cell(evidence: ReportData, cell: CellResult, name: str) -> CellView:
    by_promise = {judgement.guarantee: judgement for judgement in cell.judgements}
    sources = {commitment.guarantee: commitment.source for commitment in cell.clauses}
    verdicts = tuple(
        _verdict(guarantee, by_promise.get(guarantee), sources.get(guarantee, ""))
        for guarantee in shown_guarantees(evidence)
    )
    return CellView(
        name,
        fault_name(cell.cell),
        ROLE_NAMES[cell.role],
        cell_status(cell),
        cell.added,
        verdicts,
        tuple(_figures(evidence, cell)),
    )


def _verdict(guarantee: Guarantee, judgement: Judgement | None, source: str) -> VerdictView:
    if judgement is None:
        return VerdictView(
            GUARANTEE_NAMES[guarantee],
            "?",
            "not asked" if guarantee in CONDITIONAL_GUARANTEES else "not judged",
            "unknown",
            "",
            (),
            source,
            (),
            "",
        )
    return VerdictView(
        GUARANTEE_NAMES[guarantee],
        verdict_sign(judgement),
        verdict_text(judgement),
        verdict_class(judgement),
        share_text(judgement.share).replace(", 95 % confidence)", ")") if judgement.share else "",
        judgement.reasons,
        source,
        judgement.trials,
        _records(judgement),
    )


def _records(judgement: Judgement) -> str:
    """Return the first records that broke the promise, by trial, producer and number."""
    of: dict[tuple[str, int | None], list[str]] = {}
    for record in judgement.records:
        if record.seq is not None:
            of.setdefault((record.trial_id, record.producer), []).append(f"{record.seq:,}")
    named = [
        f"{trial_id}: producer {producer}, {plural(len(seqs), 'record')} {format_list(seqs)}"
        for (trial_id, producer), seqs in of.items()
    ]
    more = judgement.records_total - sum(map(len, of.values()))
    return "; ".join(
        [*named, *([f"{more:,} more in results/anomalies.parquet"] if named and more > 0 else [])]
    )


def _of_transactions(seen: TransactionCounts | None) -> Iterator[tuple[str, str]]:
    """Yield how a cell's transactions ended, where the sweep has any."""
    for name in TransactionCounts.model_fields:
        yield (
            f"transactions {name}" if name != "aborted_visible" else "aborted, yet shown",
            "none" if seen is None else count_text(getattr(seen, name)),
        )


def _of_copies(seen: CopyCounts | None) -> Iterator[tuple[str, str]]:
    """Yield what copiers made of a cell's log, where the sweep has any: what of the two counts of their group was whose."""
    heads = {
        "copied": "copied",
        "missed": "passed over by the copiers",
        "output_lost": "lost from the output",
    }
    heads |= {"repeated": "copied again", "hidden": "copies not shown"}
    for name, head in heads.items():
        yield head, "none" if seen is None else count_text(getattr(seen, name))


def _figures(evidence: ReportData, cell: CellResult) -> Iterator[tuple[str, str]]:
    """Yield what was seen, sums over the cell's sealed trials."""
    fates = [trial.fates for trial in judged_trials(evidence.results, cell) if trial.fates]
    yield "trials", str(cell.sealed_trials)
    yield "acked", count_text(cell.acked)
    yield "lost", bounds_text(cell.lost)
    yield "duplicates", count_text(cell.duplicates)
    yield "reordered", count_text(cell.reordered)
    yield "missed", count_text(cell.missed)
    yield "read again", count_text(cell.redelivered)
    if Guarantee.NO_MISSED_RECORDS in shown_guarantees(evidence):
        yield "missed by the group", count_text(cell.group_missed)
        yield "processed again", count_text(cell.group_repeated)
    if any(of.copies for of in evidence.results.cells):
        yield from _of_copies(cell.copies)
    yield "unknown", count_text(cell.unknown)
    if any(of.transactions for of in evidence.results.cells):
        yield from _of_transactions(cell.transactions)
    yield (
        "refused yet there",
        count_text(sum(of.rejected_present for of in fates) if fates else None),
    )
    yield "ack p99", estimate_text(cell.ack_p99_ms)
    yield "longest gap", estimate_text(cell.outage_ms)
