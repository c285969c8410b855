"""The tables of cells: the verdict of each guarantee, and the figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ackbench.experiments.ledger.quantities import CopyCounts, TransactionCounts
from ackbench.experiments.ledger.result_terms import ANOMALY_ROWS
from ackbench.experiments.messages.phrases import format_list, plural
from ackbench.experiments.pages.report.data import ReportData
from ackbench.experiments.results.cells import judged_trials
from ackbench.experiments.results.formats.tables import cell_status
from ackbench.experiments.results.models import CellResult
from ackbench.experiments.results.wording import (
    ROLE_NAMES,
    UNKNOWN_SIGN,
    bounds_text,
    count_text,
    estimate_text,
    milliseconds_text,
    share_text,
    time_text,
    verdict_class,
    verdict_sign,
    verdict_text,
)
from ackbench.experiments.verdicts.guarantees import Guarantee
from ackbench.experiments.verdicts.judge import Judgement


@dataclass(frozen=True)
class VerdictView:
    """One field of the verdict table: a guarantee of a cell."""

    anchor: str
    """The id of the element with its reasons."""
    guarantee: str
    sign: str
    text: str
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
    """The cell's name without its fault."""
    fault: str
    role: str
    status: str
    added: bool
    verdicts: tuple[VerdictView, ...]
    figures: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class FigureTable:
    """The figures of each cell. Columns that are 0 in all cells are listed, not shown."""

    names: tuple[str, ...]
    zero: tuple[str, ...]
    """Names of the columns that are 0 in all cells."""
    groups: tuple[tuple[str, tuple[tuple[str, tuple[str, ...]], ...]], ...]
    """Each heading with its rows: a cell's name and its values."""


def cell_views(data: ReportData) -> tuple[tuple[str, tuple[CellView, ...]], ...]:
    """Return the rows of the tables by fault; cells that were added as controls come last."""
    views = [_cell_view(data, cell) for cell in data.cells]
    groups = [
        (group.fault, tuple(view for view in views if view.fault == group.fault and not view.added))
        for group in data.groups
    ]
    groups.append(("controls added by ackbench", tuple(view for view in views if view.added)))
    return tuple((heading, rows) for heading, rows in groups if rows)


def figure_table(groups: Sequence[tuple[str, Sequence[CellView]]]) -> FigureTable:
    """Return the figures of all cells."""
    views = [view for _, group in groups for view in group]
    names = [name for name, _ in views[0].figures] if views else []
    zero = [name for name in names if all(dict(view.figures)[name] == "0" for view in views)]
    shown = [name for name in names if name not in zero]
    rows = tuple(
        (
            heading,
            tuple(
                (
                    f"{view.name}, {view.fault}" if view.added else view.name,
                    tuple(dict(view.figures)[name] for name in shown),
                )
                for view in group
            ),
        )
        for heading, group in groups
    )
    return FigureTable(tuple(shown), tuple(zero), rows)


def _cell_view(data: ReportData, cell: CellResult) -> CellView:
    judgements = {judgement.guarantee: judgement for judgement in cell.judgements}
    sources = {clause.guarantee: clause.source for clause in cell.clauses}
    verdicts = tuple(
        _verdict_view(
            data.verdict_anchor(cell, guarantee),
            guarantee,
            judgements.get(guarantee),
            sources.get(guarantee, ""),
        )
        for guarantee in data.guarantees
    )
    fault = cell.fault_name
    group = next(group for group in data.groups if group.fault == fault)
    return CellView(
        group.name(cell),
        fault,
        ROLE_NAMES[cell.role],
        cell_status(cell),
        cell.added,
        verdicts,
        tuple(_figures(data, cell)),
    )


def _verdict_view(
    anchor: str, guarantee: Guarantee, judgement: Judgement | None, source: str
) -> VerdictView:
    if judgement is None:
        return VerdictView(
            anchor=anchor,
            guarantee=guarantee.label,
            sign=UNKNOWN_SIGN,
            text="not applicable" if guarantee.applies else "not judged",
            kind="unknown",
            share="",
            reasons=(),
            source=source,
            trials=(),
            records="",
        )
    return VerdictView(
        anchor=anchor,
        guarantee=guarantee.label,
        sign=verdict_sign(judgement),
        text=verdict_text(judgement),
        kind=verdict_class(judgement),
        share=share_text(judgement.share) if judgement.share else "",
        reasons=judgement.reasons,
        source=source,
        trials=judgement.trials,
        records=_record_names(judgement),
    )


def _record_names(judgement: Judgement) -> str:
    """Return the first affected records: trial, producer and sequence numbers."""
    seqs_by_producer: dict[tuple[str, int | None], list[str]] = {}
    for record in judgement.records:
        if record.seq is not None:
            key = (record.trial_id, record.producer)
            seqs_by_producer.setdefault(key, []).append(f"{record.seq:,}")
    names = [
        f"{trial_id}: producer {producer}, {plural(len(seqs), 'record')} {format_list(seqs)}"
        for (trial_id, producer), seqs in seqs_by_producer.items()
    ]
    more = judgement.records_total - sum(map(len, seqs_by_producer.values()))
    if names and more > 0:
        limit = f" (up to {ANOMALY_ROWS:,} per trial and cause)" if more > ANOMALY_ROWS else ""
        names.append(f"{more:,} more in the table of anomalies{limit}")
    return "; ".join(names)


_TRANSACTION_HEADS: Final = {
    "committed": "transactions committed",
    "aborted": "transactions aborted",
    "unknown": "transactions unknown",
    "torn": "transactions partly visible",
    "aborted_visible": "aborted but visible",
}
_COPY_HEADS: Final = {
    "copied": "copied",
    "missed": "missed by the copiers",
    "output_lost": "lost from the output",
    "repeated": "copied more than once",
    "hidden": "copies not visible",
}


def _figures(data: ReportData, cell: CellResult) -> Iterator[tuple[str, str]]:
    """Yield head and value of each figure of a cell; counts are sums over its judged trials."""
    all_cells = data.results.cells
    fates = [trial.fates for trial in judged_trials(data.results, cell) if trial.fates]
    yield "trials", str(cell.sealed_trials)
    yield "acked", count_text(cell.acked)
    yield "lost", bounds_text(cell.lost)
    yield "duplicates", count_text(cell.duplicates)
    yield "reordered", count_text(cell.reordered)
    yield "missed", count_text(cell.missed)
    yield "redelivered", count_text(cell.redelivered)
    yield "received, then lost", count_text(cell.lost_reads)
    for guarantee in data.guarantees:
        for head, value in guarantee.words.figures:
            yield head, count_text(getattr(cell, value))
    if any(one.copies for one in all_cells):
        yield from _counts(_COPY_HEADS, cell.copies)
    yield "unknown", count_text(cell.unknown)
    if any(one.transactions for one in all_cells):
        yield from _counts(_TRANSACTION_HEADS, cell.transactions)
    rejected_present = sum(fate.rejected_present for fate in fates) if fates else None
    yield "rejected but in the log", count_text(rejected_present)
    overloaded = cell.overloaded_trials
    yield "ack p99", time_text(estimate_text(cell.ack_p99_ms), overloaded=overloaded)
    yield "outage", time_text(estimate_text(cell.outage_ms), overloaded=overloaded)
    if any(one.group_processing_gap_ms for one in all_cells):
        gap = cell.group_processing_gap_ms
        text = "none" if gap is None else milliseconds_text(gap.median)
        yield "group gap", time_text(text, overloaded=overloaded and gap)


def partitions_note(cells: Sequence[CellResult]) -> str | None:
    """Return what figures of cells with different numbers of partitions have in common, if any."""
    counts = {cell.cell.get("partitions") for cell in cells}
    if len(counts) < 2:  # noqa: PLR2004 - cells differ from two on
        return None
    return (
        "The cells differ in the number of partitions. The outage of a trial is that of the "
        "partition that waited longest, so with more partitions it is a maximum over more of them; "
        "a latency is that of the records of all partitions together, the slowest included."
    )


def _counts(
    heads: Mapping[str, str], counts: CopyCounts | TransactionCounts | None
) -> Iterator[tuple[str, str]]:
    """Yield the counts that only some cells of the sweep have."""
    for name, head in heads.items():
        yield head, "none" if counts is None else count_text(getattr(counts, name))
