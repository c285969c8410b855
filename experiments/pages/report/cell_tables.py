"""The tables of cells: the verdict of each guarantee, and the figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ackbench.experiments.ledger.result_terms import ANOMALY_ROWS
from ackbench.experiments.messages.phrases import format_list, plural
from ackbench.experiments.pages.report.data import ReportData
from ackbench.experiments.results.cells import judged_trials
from ackbench.experiments.results.formats.counts import FATE_HEADS, NOT_APPLICABLE, listed_text
from ackbench.experiments.results.formats.tables import cell_status
from ackbench.experiments.results.models import CellResult
from ackbench.experiments.results.wording import (
    ROLE_NAMES,
    UNKNOWN_SIGN,
    UNKNOWN_TEXT,
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

_TRIALS: Final = "trials"
"""The head of the number of judged trials."""


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
    """The figures of each cell. Columns that are 0 in all measured cells are listed only."""

    names: tuple[str, ...]
    zero: tuple[str, ...]
    """Names of the columns that are 0 in all measured cells."""
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
    measured = [figures for view in views if (figures := dict(view.figures))[_TRIALS] != "0"]
    zero = [name for name in names if measured and all(one[name] == "0" for one in measured)]
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


def _figures(data: ReportData, cell: CellResult) -> Iterator[tuple[str, str]]:
    """Yield head and value of each figure of a cell; counts are sums over its judged trials."""
    trials = judged_trials(data.results, cell)
    fates = [trial.fates for trial in trials if trial.fates]
    yield _TRIALS, str(cell.sealed_trials)
    for place in data.counts:
        yield place.quantity.head, listed_text(place, cell, trials)
    rejected_present = sum(fate.rejected_present for fate in fates) if fates else None
    yield FATE_HEADS["rejected_present"], count_text(rejected_present)
    overloaded = cell.overloaded_trials
    yield "ack p99", time_text(estimate_text(cell.ack_p99_ms), overloaded=overloaded)
    yield "outage", time_text(estimate_text(cell.outage_ms), overloaded=overloaded)
    if any(one.group_processing_gap_ms for one in data.results.cells):
        gap = cell.group_processing_gap_ms
        none = NOT_APPLICABLE if trials else UNKNOWN_TEXT
        text = none if gap is None else milliseconds_text(gap.median)
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
